// Commands for the owner of a home: --allow-private, config show, backup and restore.
import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { socketRecord } from '../../src/config-place.ts';
import { isLocked } from '../../src/runtime/home-lock.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { cli, onPostgres, startServer } from '../helpers/server.ts';

test('--allow-private allows a private address once; the error names the config.json line that allows it', async (t) => {
  const site = createServer((request, response) => {
    if (request.url === '/away') response.writeHead(302, { location: other }).end();
    else response.setHeader('content-type', 'text/html').end('<h1>Own</h1><p>dev server text</p>');
  });
  const inner = createServer((_request, response) => response.end('inner secret'));
  const open = async (server: typeof site) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  };
  const url = await open(site);
  const other = await open(inner);
  const home = homeWith(t, { egress: { allow: ['wiki.local'] } });
  const server = await startServer(t, { home });
  const refused = await server.cli('read', url);
  assert.equal(refused.code, 3, refused.stderr);
  const line = /^ {2}("egress": .*)$/m.exec(refused.stderr)?.[1];
  const entry = url.slice('http://'.length, -1);
  assert.equal(line, `"egress": { "allow": ["wiki.local","${entry}"] }`, refused.stderr);
  assert.ok(refused.stderr.includes(join(server.home, 'config.json')), refused.stderr);
  const allowed = await server.cli('read', url, '--allow-private');
  assert.match(allowed.stdout, /dev server text/, allowed.stderr);
  const away = await server.cli('read', `${url}away`, '--allow-private', '--json');
  assert.equal(away.code, 3, 'a redirect to another address is refused');
  assert.doesNotMatch(away.stdout, /inner secret/);
  assert.equal((await server.cli('read', url)).code, 3, 'the permission covers one call');
  const crawled = await server.cli('crawl', url, '--wait', '--allow-private');
  assert.equal(crawled.code, 0, crawled.stderr);
  assert.match((await server.cli('crawl', url, '--wait')).stderr, /--allow-private/);
  const env = { ERRAND_URL: server.url, ERRAND_KEY: server.key };
  const remote = await cli(server.home, ['read', url, '--allow-private'], env);
  assert.deepEqual([remote.code, /Only the owner/.test(remote.stderr)], [3, true], remote.stderr);
  const input = { url, allowPrivate: [entry] };
  assert.equal(
    (await server.api('POST', '/api/web/read', input)).status,
    400,
    'the API has no such field',
  );
  // The printed line allows the address.
  writeFileSync(join(home, 'config.json'), `{ ${line} }`);
  await server.stop();
  const restarted = await startServer(t, { home });
  assert.equal((await restarted.cli('read', url)).code, 0);
  // `errand stop` returns when the server has ended, and starts none.
  assert.equal((await restarted.cli('stop', '--if-idle')).stdout, 'the server has stopped\n');
  assert.deepEqual([isLocked(home), existsSync(socketRecord(home))], [false, false]);
  assert.equal((await restarted.cli('stop')).stdout, 'no server is running\n');
  assert.equal(isLocked(home), false);
});

test('config show prints every setting with its source and masks secrets', async (t) => {
  const home = homeWith(t, { server: { sweepMs: 700 }, egress: { allow: ['a.local'] } });
  writeFileSync(join(home, 'env'), 'API_TOKEN=hidden\n', { mode: 0o600 });
  const env = { ERRAND_PORT: '7999', ERRAND_STORE: 'postgres://user:hidden@db/errand' };
  const { code, stdout, stderr } = await cli(home, ['config', 'show'], env);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^server\.sweepMs +700 +\(config\.json\)$/m);
  assert.match(stdout, /^server\.port +7999 +\(ERRAND_PORT\)$/m);
  assert.match(stdout, /^server\.host +127\.0\.0\.1 +\(default\)$/m);
  assert.match(stdout, /^store +postgres:\/\/user:\*\*\*@db\/errand +\(ERRAND_STORE\)$/m);
  assert.match(stdout, /^command\.maxJobs +\d+ +\(default\)$/m);
  assert.doesNotMatch(stdout, /hidden/);
  const changed = await cli(home, ['config', 'show', '--changed', '--json'], env);
  const names = changed.json<{ settings: { name: string }[] }>().settings.map(({ name }) => name);
  assert.deepEqual(names, ['store', 'server.port', 'server.sweepMs', 'egress.allow']);
  assert.match((await cli(home, ['config', 'show', 'server.port'], env)).stdout, /7999/);
  assert.equal((await cli(home, ['config', 'show', 'no.such'], env)).code, 4);
  assert.equal((await cli(home, ['config'], env)).code, 2);
});

test('backup and restore into another home, with and without job output', async (t) => {
  if (onPostgres) return t.skip('a PostgreSQL store is backed up with pg_dump');
  const server = await startServer(t);
  await server.cli('run', '-n', 'old', '--', 'echo', 'kept output');
  const folder = tempFolder(t);
  const [bare, whole] = [join(folder, 'bare.backup'), join(folder, 'whole.backup')];
  assert.match((await server.cli('backup', bare)).stdout, /database only/);
  const saved = await server.cli('backup', '--with-output', whole);
  assert.match(saved.stdout, /whole\.backup\.files \(\d+ files, /, saved.stderr);
  assert.equal(statSync(`${whole}.files`).mode & 0o077, 0);
  assert.ok(!existsSync(`${whole}.files/owner.key`));
  const restored = async (file: string) => {
    const home = join(folder, `home-${file.includes('bare') ? 1 : 2}`);
    const answer = await cli(home, ['restore', file]);
    assert.equal(answer.code, 0, answer.stderr);
    const again = await startServer(t, { home });
    return {
      message: answer.stdout,
      logs: await again.cli('logs', 'old'),
      show: await again.cli('show', 'old'),
    };
  };
  const full = await restored(whole);
  assert.match(full.message, /database and \d+ output files/);
  assert.match(full.message, /config\.json, env, owner\.key and secret are not part/);
  assert.equal(full.logs.stdout, 'kept output\n');
  const lean = await restored(bare);
  assert.match(lean.message, /database only/);
  assert.match(lean.show.stdout, /completed/);
  assert.deepEqual([lean.logs.code, lean.logs.stdout], [5, '']);
  assert.match(lean.logs.stderr, /is not in this home[^]*--with-output/);
});
