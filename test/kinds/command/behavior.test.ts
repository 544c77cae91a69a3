// Behavior of commands over time: concurrency, health, waiting for several jobs, survivors, a suspended machine.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastOutputAgeMs } from '../../../src/kinds/command/conditions.ts';
import { outcomeOf } from '../../../src/kinds/command/outcome.ts';
import { nextLaunchFolder } from '../../../src/kinds/command/process/folder.ts';
import { overLimit, readGaps } from '../../../src/kinds/command/process/limits.ts';
import { Registry } from '../../../src/kinds/command/process/registry.ts';
import type { Job } from '../../../src/jobs/job.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { freePort } from '../../helpers/port.ts';
import { awaitFile } from '../../helpers/process.ts';
import { until } from '../../helpers/until.ts';
import { start } from './kit.ts';

test('commands above maxJobs wait', async (t) => {
  const { background, get, cancel, wait } = await start(t, { maxJobs: 1 });
  const first = await background({ command: 'sleep 300' });
  await until('it runs', async () => (await get(first.id)).status === 'running');
  const second = await background({ command: 'echo then' });
  assert.equal((await wait(second.id, { timeoutMs: 300 })).done, false);
  assert.equal((await get(second.id)).status, 'queued');
  await cancel(first.id);
  assert.equal((await wait(second.id)).jobs[0]!.status, 'completed');
});

test('a command that has not started yet is not silent', (t) => {
  const folder = nextLaunchFolder(tempFolder(t), 1);
  folder.create();
  assert.equal(lastOutputAgeMs(folder, systemClock), undefined);
  folder.voidClaim();
  assert.equal(lastOutputAgeMs(folder, systemClock), undefined);
});

test('ensure replaces a server that runs but no longer responds', async (t) => {
  const { run, get, cancel, call } = await start(t);
  const port = await freePort();
  const program = `const s = require("net").createServer().listen(${port}, "127.0.0.1", () => console.log("up"));
    process.on("SIGUSR2", () => { s.close(); console.log("closed"); }); setInterval(() => {}, 1000)`;
  const input = {
    argv: [process.execPath, '-e', program],
    name: 'web',
    ensure: true,
    ready: { text: 'up', port },
  };
  const first = await run(input);
  assert.equal(first.stage, 'ready');
  assert.equal((await run(input)).id, first.id);
  await call('send_signal', { id: first.id, signal: 'USR2' });
  await call('wait_for_jobs', { ids: [first.id], until: { text: 'closed' }, timeoutMs: 20_000 });
  const second = await run(input);
  assert.notEqual(second.id, first.id);
  assert.equal(second.stage, 'ready');
  const replaced = await get(first.id);
  assert.equal(replaced.status, 'cancelled');
  await cancel(second.id);
});

test('wait_for_jobs waits for any or all jobs, for a port and for a URL', async (t) => {
  const { background, call, cancel } = await start(t);
  interface Waited {
    done: boolean;
    reached: { id: string; reason: string }[];
  }
  const gate = join(tempFolder(t), 'gate');
  const port = await freePort();
  const quick = await background({ command: 'exit 3' });
  const gated = await background({ command: awaitFile(gate) });
  const ids = [quick.id, gated.id];
  const wait = (more: object) => call<Waited>('wait_for_jobs', { timeoutMs: 45_000, ...more });
  const any = await wait({ ids, mode: 'any' });
  assert.deepEqual(
    any.reached.map(({ id }) => id),
    [quick.id],
  );
  assert.equal((await wait({ ids, mode: 'all', timeoutMs: 100 })).done, false);
  writeFileSync(gate, '');
  const all = await wait({ ids, mode: 'all' });
  assert.equal(all.reached.length, 2);
  const program = `setTimeout(() => require("http").createServer((q, s) => s.end("hi")).listen(${port}, "127.0.0.1"), 300)`;
  const server = await background({ argv: [process.execPath, '-e', program] });
  const reason = async (until_: object) =>
    (await wait({ ids: [server.id], until: until_ })).reached[0]?.reason;
  assert.equal(await reason({ port }), 'port');
  for (const host of ['127.0.0.1', 'localhost', '0.0.0.0'])
    assert.equal(await reason({ http: `http://${host}:${port}/` }), 'http');
  for (const http of ['nonsense', `127.0.0.1:${port}`, 'file:///etc/passwd'])
    await assert.rejects(reason({ http }), { code: 'invalidInput' });
  await cancel(server.id);
});

test('a port opened by another process makes the job ready if it was free before, and is reported', async (t) => {
  const { background, get, wait, cancel, app } = await start(t);
  const proxy = createServer((_, answer) => answer.end('hi'));
  const listen = async (port: number) => {
    proxy.listen(port, '127.0.0.1');
    await once(proxy, 'listening');
  };
  const close = async () => {
    proxy.close();
    await once(proxy, 'close');
  };
  t.after(() => proxy.close());
  const port = await freePort();
  const address = `http://localhost:${port}/`;
  const job = await background({ argv: ['sleep', '300'], ready: { port, http: address } });
  await until('started', async () => (await get(job.id)).processes);
  await listen(port);
  const ready = await until('ready', async () => {
    const view = await get(job.id);
    return view.stage === 'ready' ? view : undefined;
  });
  assert.deepEqual(ready.outsidePorts, [port]);
  const [reached] = (await wait(job.id, { until: { http: address } })).reached;
  assert.deepEqual(reached!.detail, { status: 200, port, own: false });
  await cancel(job.id);

  // A server that was running before says nothing about the job.
  const other = await background({ argv: ['sleep', '300'], ready: { port } });
  await until('started', async () => (await get(other.id)).processes);
  assert.equal((await wait(other.id, { until: { port }, timeoutMs: 700 })).done, false);
  const view = await get(other.id);
  assert.deepEqual(view.takenPorts, [port]);
  assert.match(app.operations.get('get_job').text!(view), /was in use before the start/);
  await close();
  await until('seen free', async () => (await get(other.id)).takenPorts === undefined);
  await listen(port);
  await until('ready', async () => (await get(other.id)).stage === 'ready');
  await cancel(other.id);

  // Waiting for a job does not reveal other ports of this machine.
  const stranger = await background({ argv: ['sleep', '300'] });
  const probe = await wait(stranger.id, { until: { port, http: address }, timeoutMs: 700 });
  assert.equal(probe.done, false);
  await cancel(stranger.id);
});

test('processes that survive SIGKILL are reported with the job', () => {
  const root = mkdtempSync(join(tmpdir(), 'errand-t-'));
  try {
    const folder = nextLaunchFolder(root, 1);
    folder.create();
    const outcome = outcomeOf({
      job: { timeoutMs: null } as Job,
      folder,
      record: undefined,
      endNote: { reason: 'cancel', at: 1 },
      survivors: [4711],
      leftBehind: [],
      memoryPeakBytes: 0,
      startedAt: 0,
      now: 2,
    });
    assert.equal(outcome.type, 'cancelled');
    assert.ok('error' in outcome && outcome.error);
    assert.equal(outcome.error.code, 'survivors');
    assert.match(outcome.error.message, /4711/);
    assert.deepEqual((outcome as { facts?: object }).facts, {
      exitCode: null,
      signal: null,
      runMs: 2,
      outputBytes: 0,
      survivors: [4711],
    });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});

test('a suspend or a clock jump does not count toward a timeout', (t) => {
  const folder = tempFolder(t);
  const entry = {
    attemptId: 'job_x.1',
    folder: join(folder, '1.1'),
    deadlineAt: 100_000,
    maxOutputBytes: null,
    ring: false,
    isOrphaned: false,
    maxAloneMs: null,
    registeredAt: 40_000,
  };
  assert.equal(overLimit(entry, 99_999, readGaps(folder)), undefined);
  assert.equal(overLimit(entry, 100_000, readGaps(folder))?.reason, 'timeout');
  // The guard records when it was last awake, and how many seconds are missing.
  writeFileSync(join(folder, 'gaps'), '30 500\n50 3600\n');
  const gaps = readGaps(folder);
  assert.equal(overLimit(entry, 100_000 + 3_599_999, gaps), undefined);
  assert.equal(overLimit(entry, 100_000 + 3_600_000, gaps)?.reason, 'timeout');
});

test('an attempt is lost when no server ran for longer than maxAloneMs', (t) => {
  const folder = tempFolder(t);
  const registry = new Registry(folder);
  const place = { attemptId: 'job_x.1', folder: join(folder, 'a folder', '1.1') };
  const limits = {
    deadlineAt: null,
    maxOutputBytes: null,
    ring: false,
    isOrphaned: false,
    registeredAt: 40_000,
  };
  registry.add({ ...place, ...limits, maxAloneMs: 20_000 });
  const [entry] = registry.list();
  assert.deepEqual(entry, { ...place, ...limits, maxAloneMs: 20_000 });
  assert.equal(overLimit(entry, 70_000, [], 50_000), undefined);
  assert.equal(overLimit(entry, 70_001, [], 50_000)?.reason, 'lost');
  assert.equal(overLimit({ ...entry, maxAloneMs: null }, 1e12, [], 0), undefined);
});

test('the registry removes ended attempts and keeps running ones', (t) => {
  const folder = tempFolder(t);
  const lines = () => readFileSync(join(folder, 'running.list'), 'utf8').split('\n').length - 1;
  const limits = {
    deadlineAt: null,
    maxOutputBytes: 9,
    ring: false,
    isOrphaned: false,
    maxAloneMs: null,
  };
  const entry = (attemptId: string) => ({ attemptId, folder, ...limits, registeredAt: 0 });
  const earlier = new Registry(folder);
  earlier.add(entry('lives'));
  earlier.add(entry('orphan'));
  earlier.close();
  const registry = new Registry(folder);
  const ids = () => registry.list().map(({ attemptId }) => attemptId);
  let most = 0;
  for (let i = 0; i < 2500; i++) {
    registry.add(entry(`a${i}`));
    registry.remove(`a${i}`);
    most = Math.max(most, lines());
  }
  assert.ok(most < 1100, `${most} lines`);
  assert.deepEqual(ids(), ['lives', 'orphan']);
  registry.add(entry('new'));
  registry.keepOnly((attemptId) => attemptId !== 'orphan');
  assert.deepEqual(ids(), ['lives', 'new']);
  assert.equal(lines(), 2);
  assert.deepEqual(new Registry(folder).list(), registry.list());
});

test('an unknown field is refused with a suggestion or the list of fields', async (t) => {
  const { call } = await start(t);
  const hintOf = (input: object) =>
    call('run_command', input).then(
      () => assert.fail('it must be refused'),
      (error: Error & { code: string; hint?: string }) => [error.code, error.hint],
    );
  assert.deepEqual(await hintOf({ command: 'true', timeout: 5 }), [
    ...['invalidInput', 'Did you mean timeoutMs?'],
  ]);
  const [code, hint] = await hintOf({ cmd: 'true' });
  assert.equal(code, 'invalidInput');
  assert.match(hint!, /^Accepted fields: command, argv, cwd, /);
});

test('the text of wait_for_jobs and get_job contains what a model needs', async (t) => {
  const { background, wait, cancel, app } = await start(t);
  const port = await freePort();
  const program = `require("net").createServer().listen(${port}, "127.0.0.1", () => console.log("up"))`;
  const job = await background({ argv: [process.execPath, '-e', program] });
  const waited = await wait(job.id, { until: { port } });
  const text = app.operations.get('wait_for_jobs').text!(waited);
  assert.match(text, new RegExp(`^${job.id} running · command\n`));
  assert.match(text, new RegExp(`\nreached: port {"port":${port}}\n`));
  assert.match(text, new RegExp(`listens on port ${port}`));
  await cancel(job.id);
  const over = await wait(job.id);
  assert.doesNotMatch(app.operations.get('wait_for_jobs').text!(over), /reached/);
});

test('output outside the requested range does not count as omitted', async (t) => {
  const { run, read } = await start(t);
  const { id } = await run({ command: 'seq 1 3000' });
  const all = await read(id, { raw: true });
  assert.match(all.omitted?.reason ?? '', /bytes left out: mode range, from 0, to \d+$/);
  assert.equal((await read(id, { mode: 'since', from: all.size - 10 })).omitted, undefined);
  const lines = await read(id, { mode: 'range', fromLine: 3, toLine: 5 });
  assert.deepEqual([lines.text, lines.omitted], ['3\n4\n5\n', undefined]);
  const part = await read(id, { mode: 'since', from: 100, maxBytes: 200, raw: true });
  assert.equal(
    part.omitted?.reason,
    `${(all.size - 300).toLocaleString('en')} bytes after: mode since, from 300`,
  );
  const span = await read(id, { mode: 'range', from: 100, to: 1000, maxBytes: 200, raw: true });
  assert.equal(span.omitted?.reason, '700 bytes after: mode since, from 300');
});

test('read_output without a mode derives it from the other fields', async (t) => {
  const { run, read } = await start(t);
  const { id } = await run({ command: 'seq 1 30; echo end' });
  const first = async (input: object) => {
    const { mode, text } = await read(id, { raw: true, ...input });
    return [mode, text.split('\n')[0]];
  };
  assert.deepEqual(await first({}), ['tail', '1']);
  assert.deepEqual(await first({ pattern: '29' }), ['grep', '75:29']);
  assert.deepEqual(await first({ from: 2 }), ['since', '2']);
  assert.deepEqual(await first({ from: 2, to: 4 }), ['range', '2']);
  assert.deepEqual(await first({ fromLine: 7 }), ['range', '7']);
  assert.deepEqual(await first({ to: 4 }), ['tail', '1']);
  assert.match((await read(id, { from: 9999 })).omitted!.reason, /byte 9999 does not exist yet/);
});

test('the text of read_output explains empty output and shows a cursor per stream', async (t) => {
  const { run, read, background, cancel, wait, app } = await start(t);
  const { text: words } = app.operations.get('read_output');
  const { id } = await run({ command: 'echo one; echo two' });
  const text = async (input: object) => words!(await read(id, input));
  assert.match(
    await text({ mode: 'grep', pattern: 'three' }),
    / 0 matches .*\n\(no line matches\)$/,
  );
  assert.match(await text({ mode: 'since', from: 8 }), /\n\(nothing new\)$/);
  const empty = await run({ command: 'true' });
  assert.match(words!(await read(empty.id)), /\n\(no output\)$/);
  const command = 'echo error >&2; echo up; sleep 300';
  const server = { command, streams: 'split', name: 'split', ensure: true };
  const split = await background(server);
  await wait(split.id, { until: { text: 'up' } });
  assert.match(
    words!(await read(split.id)),
    / · stdout bytes 0–3 of 3, stderr bytes 0–6 of 6 · order between them unknown\n/,
  );
  const again = await background(server);
  assert.match(app.operations.get('run_command').text!(again), /\nNo new job was started: /);
  assert.match(again.hint!, /read_output, stream stdout, from 3 \(or stream stderr, from 6\)/);
  await cancel(split.id);
});

test('two streams and their titles share the byte budget', async (t) => {
  const { run, read } = await start(t);
  const command = 'yes "some words" | head -500 | tee /dev/stderr';
  const { id } = await run({ command, streams: 'split' });
  for (const mode of ['tail', 'head_tail', 'errors'])
    for (const raw of [false, true]) {
      const { text } = await read(id, { mode, raw, maxBytes: 300 });
      assert.ok(Buffer.byteLength(text) <= 300, `${mode}: ${text}`);
    }
});
