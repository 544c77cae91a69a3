// The front: it ends with its stdin, lives through a restart of the server, and tells why a server cannot be started.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { AppError } from '../../../src/errors.ts';
import { runFront } from '../../../src/faces/mcp/front.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { startToyServer } from '../../fixtures/toy-server.ts';
import { toyJobs } from '../../fixtures/toy-jobs.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';
import { httpClient, stdioClient, textOf } from './clients.ts';
import { envelope, rawFront } from './raw.ts';

const program = join(import.meta.dirname, '../../fixtures/toy-server.ts');

test('ends when stdin ends, while a call waits; the job goes on', async (t) => {
  const server = await startToyServer(join(tempFolder(t), 's'));
  t.after(() => server.stop());
  const front = rawFront(t, process.execPath, [program, '--front', server.socketPath]);
  const ask = (method: string, params: object) =>
    front.request(method, { ...params, _meta: envelope() });
  await ask('tools/call', { name: 'run_toy', arguments: {} });
  const [id] = server.jobs.keys();
  void ask('tools/call', { name: 'wait_for_jobs', arguments: { ids: [id] } });
  await until('the server has a connection', () => server.face.sessions.count() === 1);
  front.process.stdin!.end();
  assert.equal(await front.exited, 0);
  await until('the connection is gone', () => server.face.sessions.count() === 0);
  assert.equal(server.jobs.get(id!)!.status, 'running');
});

test('asks again after a restart of the server; what changes something is not repeated', async (t) => {
  const path = join(tempFolder(t), 's');
  const toys = toyJobs();
  let server = await startToyServer(path, toys);
  t.after(() => server.stop());
  const client = await stdioClient(t, path, 'auto');
  await client.callTool({ name: 'run_toy', arguments: { name: 'first' } });
  const [id] = toys.jobs.keys();

  await server.stop();
  server = await startToyServer(path, toys);
  assert.match(
    textOf(await client.callTool({ name: 'get_job', arguments: { id: id! } })),
    /running/,
  );

  const waiting = client.callTool({ name: 'wait_for_jobs', arguments: { ids: [id!] } });
  const starting = client.callTool({
    name: 'run_toy',
    arguments: { name: 'second', waitMs: 40_000 },
  });
  await until('both calls have arrived', () => toys.calls.length === 2);
  await server.stop();
  server = await startToyServer(path, toys);
  const broken = await starting;
  assert.equal(broken.isError, true);
  assert.match(
    textOf(broken),
    /^unavailable: The connection to the Errand server broke.*\n.*list_jobs/,
  );
  toys.finish(id!, 0);
  assert.match(textOf(await waiting), /"done":true/);
  assert.equal(toys.calls.length, 2);
});

test('a server that cannot start: the reason reaches the caller, and the tools come when it can', async (t) => {
  const path = join(tempFolder(t), 's');
  let broken = true;
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const ended = runFront({
    connect: async () => {
      if (!broken) return path;
      throw new AppError('unavailable', 'The home is not writable.', { hint: 'chmod it.' });
    },
    toolsets: [],
    dialects: [],
    origin: {},
    stdin,
    stdout,
    version: '1.2.3',
    clock: systemClock,
    log: silentLog,
  });
  const messages: Record<string, unknown>[] = [];
  stdout.on('data', (chunk: Buffer) => {
    for (const line of String(chunk).split('\n').filter(Boolean))
      messages.push(JSON.parse(line) as Record<string, unknown>);
  });
  const ask = async (id: number, method: string, params: object = {}) => {
    stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return until(`${method} is answered`, () => messages.find((message) => message.id === id));
  };
  const hello = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  };
  const initialized = await ask(1, 'initialize', hello);
  assert.match(JSON.stringify(initialized), /The home is not writable/);
  const listed = (await ask(2, 'tools/list')).result as { tools: { name: string }[] };
  assert.deepEqual(
    listed.tools.map((tool) => tool.name),
    ['start_errand'],
  );
  const failed = await ask(3, 'tools/call', { name: 'start_errand' });
  assert.match(textOf(failed.result), /^unavailable: The home is not writable\.\nchmod it\./);
  const known = await ask(6, 'tools/call', { name: 'run_toy' });
  assert.match(
    textOf(known.result),
    /^unavailable: The home is not writable/,
    'a tool from before',
  );

  broken = false;
  const server = await startToyServer(path);
  t.after(() => server.stop());
  assert.match(textOf((await ask(4, 'tools/call', { name: 'start_errand' })).result), /run_toy/);
  await until('the change is told', () =>
    messages.some((message) => message.method === 'notifications/tools/list_changed'),
  );
  const now = (await ask(5, 'tools/list')).result as { tools: unknown[] };
  assert.equal(now.tools.length, 6);
  stdin.end();
  await ended;
});

test('changes of a job reach those who listen, in every way', async (t) => {
  const path = join(tempFolder(t), 's');
  const server = await startToyServer(path);
  t.after(() => server.stop());
  const clients = {
    'stdio 2026': await stdioClient(t, path, 'auto'),
    'stdio 2025': await stdioClient(t, path, 'legacy'),
    'http 2026': await httpClient(t, server.url, 'auto'),
  };
  for (const [way, client] of Object.entries(clients)) {
    await client.callTool({ name: 'run_toy', arguments: {} });
    const ids = [...server.jobs.keys()];
    const id = ids.at(-1)!;
    const uri = `job://${id}`;
    const heard: string[] = [];
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      heard.push(params.uri);
    });
    if (way.endsWith('2026')) await client.listen({ resourceSubscriptions: [uri] });
    else await client.subscribeResource({ uri });
    await until(`${way}: the server watches`, () => server.watchers(id) > 0);
    for (const other of ids.slice(0, -1))
      if (server.jobs.get(other)!.status === 'running') server.finish(other, 0);
    server.finish(id, 0);
    await until(`${way}: the change is heard`, () => heard.length > 0);
    assert.deepEqual([...new Set(heard)], [uri], way);
  }
});
