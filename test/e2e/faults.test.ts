// Environment faults: a locked database, a removed home, binary output, 10,000 jobs and gigabytes of output.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startApp } from '../helpers/app.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';

test('a database locked by another program is reported at start and to callers, and nothing is lost', async (t) => {
  const server = await startServer(t);
  const body = { command: 'echo one', waitMs: 20_000 };
  const first = (await server.api('POST', '/api/commands', body)).json<{ id: string }>();
  const other = new DatabaseSync(join(server.home, 'errand.sqlite'));
  t.after(() => other.isOpen && other.close());
  other.exec('BEGIN IMMEDIATE');
  const refused = await server.api('POST', '/api/commands', { command: 'echo two' });
  const { code, detail, hint } = refused.json<Record<string, string>>();
  assert.deepEqual([refused.status, code], [503, 'unavailable'], refused.text);
  assert.match(detail!, /database is locked/);
  assert.ok(hint);
  other.exec('ROLLBACK');
  const again = await server.api('POST', '/api/commands', body);
  assert.equal(again.status, 200, again.text);
  assert.equal((await server.api('GET', `/api/jobs/${first.id}`)).status, 200);
  await server.stop();

  other.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  const start = await cli(server.home, ['serve', '--port', '0']);
  assert.equal(start.code, 7);
  assert.match(start.stderr, /Another program has locked[^]*Close the program/);
  other.close();
});

test('a server stops when its home is removed', async (t) => {
  const server = await startServer(t);
  const ended = once(server.child, 'exit');
  rmSync(server.home, { recursive: true });
  mkdirSync(server.home, { mode: 0o700 });
  await ended;
  assert.match(server.stderr(), /home.*no longer exists/);
  const { stdout } = await cli(server.home, ['list']);
  assert.match(stdout, /no entries/, 'the next server starts with an empty home');
});

test('binary output arrives unchanged over HTTP, as events and on the command line', async () => {
  const server = await sharedServer();
  const printed = Buffer.from([0xff, 0, 0xc3, 10, 0xe2, 0x82, 27, 91, 51, 49, 109, 13, 10, 0x80]);
  const octal = [...printed].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
  const body = { argv: ['printf', octal], waitMs: 20_000 };
  const { id } = (await server.api('POST', '/api/commands', body)).json<{ id: string }>();
  const get = (accept: string) =>
    fetch(`${server.url}/api/jobs/${id}/output?raw=true&lossless=true&from=0`, {
      headers: { accept, authorization: `Bearer ${server.key}` },
    });
  const bare = await get('application/octet-stream');
  assert.equal(bare.headers.get('content-type'), 'application/octet-stream');
  assert.deepEqual(Buffer.from(await bare.arrayBuffer()), printed);
  const events = await (await get('text/event-stream')).text();
  const { base64 } = JSON.parse(/^event: output\ndata: (.*)$/m.exec(events)![1]!) as {
    base64: string;
  };
  assert.deepEqual(Buffer.from(base64, 'base64'), printed);
  const { stdout } = await promisify(execFile)(process.execPath, [bin, 'logs', id], {
    env: serverEnv(server.home),
    encoding: 'buffer',
  });
  assert.deepEqual(stdout, printed);
  const unknown = await fetch(`${server.url}/api/jobs/job_0000000000000000/output?raw=true`, {
    headers: { accept: 'application/octet-stream', authorization: `Bearer ${server.key}` },
  });
  assert.equal(unknown.status, 404);
});

test('a lossless follower receives every byte across many events', async (t) => {
  const server = await sharedServer();
  const file = join(tempFolder(t), 'noise');
  const noise = randomBytes(1_500_001);
  writeFileSync(file, noise);
  const body = { argv: ['cat', file], waitMs: 20_000 };
  const { id } = (await server.api('POST', '/api/commands', body)).json<{ id: string }>();
  const path = `/api/jobs/${id}/output?raw=true&lossless=true&from=0`;
  const accept = { accept: 'text/event-stream' };
  const { text } = await server.api('GET', path, undefined, accept);
  const parts = [...text.matchAll(/^id: (\d+)\nevent: output\ndata: (.*)$/gm)].map(
    ([, at, data]) => ({ at: Number(at), ...(JSON.parse(data!) as { base64: string }) }),
  );
  assert.ok(parts.length > 2);
  const seen = Buffer.concat(parts.map(({ base64 }) => Buffer.from(base64, 'base64')));
  assert.ok(seen.equals(noise));
  assert.equal(parts.at(-1)!.at, noise.length);
  const last = { ...accept, 'last-event-id': String(parts[0]!.at) };
  const rest = await server.api('GET', path, undefined, last);
  const first = JSON.parse(/^event: output\ndata: (.*)$/m.exec(rest.text)![1]!) as { from: number };
  assert.equal(first.from, parts[0]!.at, 'a reconnected stream continues after the last event');
});

test('listing 10,000 jobs returns small pages without gaps or duplicates', async (t) => {
  const { app, call } = await startApp(t);
  const total = 10_000;
  const input = { command: 'true', cwd: '/', callerEnv: {}, env: {}, secrets: [], stdin: 'none' };
  const runAt = Date.now() + 86_400_000;
  for (let n = 0; n < total; n += 500) {
    await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        app.jobs.submit({
          kind: 'command',
          owner: 'me',
          runAt,
          name: `job ${n + i}`,
          tags: [(n + i) % 100 === 0 ? 'rare' : 'common'],
          input: { ...input, streams: 'merged' },
        }),
      ),
    );
  }
  interface Page {
    jobs: { id: string }[];
    nextCursor?: string;
  }
  const seen = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await call<Page>('list_jobs', { limit: 100, ...(cursor ? { cursor } : {}) });
    assert.ok(JSON.stringify(page).length < 100_000, 'a page is bounded');
    for (const { id } of page.jobs) seen.add(id);
    cursor = page.nextCursor;
  } while (cursor);
  assert.equal(seen.size, total);
  assert.ok((await call<Page>('list_jobs', {})).jobs.length <= 50, 'a page is small by default');
  const rare = await call<Page>('list_jobs', { tag: ['rare'], limit: 100 });
  assert.equal(rare.jobs.length, 100);
});

test('a job that prints gigabytes keeps server memory bounded, and its output stays searchable', async (t) => {
  const server = await startServer(t);
  const bytes = deep ? 5 * 2 ** 30 : 200 * 2 ** 20;
  const command = `echo FIRST; yes 'the quick brown fox jumps over the lazy dog' | head -c ${bytes}; echo; echo NEEDLE; yes tail | head -c 1000000; echo LAST`;
  const body = { command, waitMs: 0, maxOutputBytes: 8 * 2 ** 30 };
  const { id } = (await server.api('POST', '/api/commands', body)).json<{ id: string }>();
  const view = await until(
    'the job has ended',
    async () => {
      const now = (await server.api('GET', `/api/jobs/${id}`)).json<Record<string, unknown>>();
      return now.status === 'completed' ? now : undefined;
    },
    deep ? 600_000 : 120_000,
  );
  assert.ok(Number(view.outputBytes) > bytes);
  const read = async (query: string) =>
    (await server.api('GET', `/api/jobs/${id}/output?${query}`)).json<{ text: string }>().text;
  assert.match(await read('mode=tail'), /LAST\n$/);
  const ends = await read('mode=head_tail');
  assert.match(ends, /^FIRST\n/);
  assert.ok(ends.length < 20_000);
  const from = Number(view.outputBytes) - 20_000_000;
  assert.match(await read(`mode=grep&pattern=NEEDLE&from=${from}`), /NEEDLE/);
  if (process.platform !== 'linux') return;
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  const peakKib = Number(/^VmHWM:\s+(\d+)/m.exec(status)![1]);
  assert.ok(peakKib < 400 * 1024, `${peakKib} kB at most`);
});
