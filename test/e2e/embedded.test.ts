// Behaviour of the SQLite store only: stored keys, damaged databases, backup and restore.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, startServer } from '../helpers/server.ts';

test('the database contains only the hash of a key', async (t) => {
  const server = await startServer(t);
  const made = (await server.cli('key', 'create', 'k', '--json')).json<{ key: string }>();
  await server.stop();
  const stored = readFileSync(join(server.home, 'errand.sqlite'));
  assert.equal(stored.includes(made.key), false);
});

test('a newer or damaged database is refused and left unchanged', async (t) => {
  const first = await startServer(t);
  await first.stop();
  const file = join(first.home, 'errand.sqlite');
  const db = new DatabaseSync(file);
  db.exec(`INSERT INTO migrations (id, applied_at) VALUES ('jobs/999', 0)`);
  db.close();
  const newer = await cli(first.home, ['serve', '--port', '0']);
  assert.equal(newer.code, 7);
  assert.match(newer.stderr, /newer version of Errand/);
  const damaged = join(tempFolder(t), 'home');
  mkdirSync(damaged, { mode: 0o700 });
  writeFileSync(join(damaged, 'errand.sqlite'), Buffer.alloc(8192, 0x5a));
  const broken = await cli(damaged, ['serve', '--port', '0']);
  assert.equal(broken.code, 7);
  assert.match(broken.stderr, /damaged/);
  assert.equal(readFileSync(join(damaged, 'errand.sqlite')).length, 8192);
});

test('a backup of a running server can be restored into an empty home', async (t) => {
  const server = await startServer(t);
  const made = (await server.cli('key', 'create', 'kept', '--json')).json<{ key: string }>();
  const file = join(tempFolder(t), 'backup.sqlite');
  assert.equal((await server.cli('backup', file)).code, 0);
  assert.equal(statSync(file).mode & 0o777, 0o600, 'a backup is private');
  for (const name of readdirSync(server.home, { recursive: true, encoding: 'utf8' }))
    assert.equal(
      statSync(join(server.home, name)).mode & 0o077,
      0,
      `${name} is accessible to others`,
    );
  const notes = join(tempFolder(t), 'notes');
  writeFileSync(notes, 'other content', { mode: 0o644 });
  for (const existing of [notes, join(server.home, 'errand.sqlite')]) {
    const { code, stderr } = await server.cli('backup', existing);
    assert.deepEqual([code, /is not a backup/.test(stderr)], [2, true], stderr);
  }
  assert.deepEqual(
    [readFileSync(notes, 'utf8'), statSync(notes).mode & 0o777],
    ['other content', 0o644],
  );
  assert.equal((await server.cli('backup', file)).code, 0, 'an earlier backup is replaced');
  const nowhere = await server.cli('backup', join(file, 'no', 'folder'));
  assert.equal(nowhere.code, 2);
  assert.match(nowhere.stderr, /Cannot write the backup/);
  const home = join(tempFolder(t), 'home');
  const other = join(tempFolder(t), 'other.sqlite');
  new DatabaseSync(other).exec('CREATE TABLE cookies (id INTEGER)');
  for (const wrong of [other, bin, tempFolder(t)]) {
    const { code, stderr } = await cli(home, ['restore', wrong]);
    assert.deepEqual([code, stderr.includes(`${wrong} is not a valid backup`)], [2, true], stderr);
  }
  assert.ok(!readdirSync(home).some((name) => name.startsWith('errand.sqlite')));
  assert.equal((await cli(home, ['restore', file])).code, 0);
  const again = await startServer(t, { home });
  const answer = await again.api('GET', '/api/jobs', undefined, {
    authorization: `Bearer ${made.key}`,
  });
  assert.equal(answer.status, 200);
  const refused = await again.cli('restore', file);
  assert.equal(refused.code, 5);
});
