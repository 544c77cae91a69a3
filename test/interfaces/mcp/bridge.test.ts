// The bridge exits with its stdin, survives a server restart, and reports why a server cannot be started.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { AppError } from '../../../src/errors.ts';
import { runBridge } from '../../../src/interfaces/mcp/bridge.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { startToyServer } from '../../fixtures/toy-server.ts';
import { toyJobs } from '../../fixtures/toy-jobs.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';
import { httpClient, stdioClient, textOf } from './clients.ts';
import { envelope, postModern, spawnBridge } from './json-rpc.ts';

const bridgeProgram = join(import.meta.dirname, '../../fixtures/toy-bridge.ts');

test('the bridge exits when stdin ends, even if a call waits, and the job keeps running', async (t) => {
  const server = await startToyServer(join(tempFolder(t), 's'));
  t.after(() => server.stop());
  const bridge = spawnBridge(t, process.execPath, [bridgeProgram, server.socketPath]);
  const request = (method: string, params: object) =>
    bridge.request(method, { ...params, _meta: envelope() });
  await request('tools/call', { name: 'run_toy', arguments: {} });
  const [id] = server.jobs.keys();
  void request('tools/call', { name: 'wait_for_jobs', arguments: { ids: [id] } });
  await until('the server has a connection', () => server.httpInterface.sessions.count() === 1);
  bridge.process.stdin!.end();
  assert.equal(await bridge.exited, 0);
  await until('the connection is gone', () => server.httpInterface.sessions.count() === 0);
  assert.equal(server.jobs.get(id!)!.status, 'running');
});

test('integers beyond 2^53 keep their digits over stdio and HTTP', async (t) => {
  const server = await startToyServer(join(tempFolder(t), 's'));
  t.after(() => server.stop());
  const bridge = spawnBridge(t, process.execPath, [bridgeProgram, server.socketPath]);
  const input = `{"name":"set_limit","arguments":{"limit":{"n":[9007199254740993]}},"_meta":${JSON.stringify(envelope())}}`;
  const line = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${input}}`;
  const reply = await bridge.send(line);
  assert.match(reply.line!, /"structuredContent":\{"limit":\{"n":\[9007199254740993\]\}\}/);
  const limit = { n: [(JSON as unknown as { rawJSON(text: string): unknown }).rawJSON('9007199254740993')] }; // prettier-ignore
  const posted = await postModern(server.url, 'tools/call', {
    ...{ name: 'set_limit', arguments: { limit } },
  });
  assert.match(posted.line!, /"structuredContent":\{"limit":\{"n":\[9007199254740993\]\}\}/);
});

test('after a server restart, read-only calls are repeated and other calls are not', async (t) => {
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
  const interrupted = await starting;
  assert.equal(interrupted.isError, true);
  assert.match(
    textOf(interrupted),
    /^unavailable: The connection to the Errand server was lost.*\n.*list_jobs/,
  );
  toys.finish(id!, 0);
  assert.match(textOf(await waiting), /"done":true/);
  assert.equal(toys.calls.length, 2);
});

test('the caller gets the reason why a server cannot start, and the tools once it can', async (t) => {
  const path = join(tempFolder(t), 's');
  let broken = true;
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const ended = runBridge({
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
  const request = async (id: number, method: string, params: object = {}) => {
    stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return until(`${method} gets a response`, () => messages.find((message) => message.id === id));
  };
  const hello = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  };
  const initialized = await request(1, 'initialize', hello);
  assert.match(JSON.stringify(initialized), /The home is not writable/);
  const listed = (await request(2, 'tools/list')).result as { tools: { name: string }[] };
  assert.deepEqual(
    listed.tools.map((tool) => tool.name),
    ['start_errand'],
  );
  const failed = await request(3, 'tools/call', { name: 'start_errand' });
  assert.match(textOf(failed.result), /^unavailable: The home is not writable\.\nchmod it\./);
  const known = await request(6, 'tools/call', { name: 'run_toy' });
  assert.match(
    textOf(known.result),
    /^unavailable: The home is not writable/,
    'a tool from an earlier list',
  );

  broken = false;
  const server = await startToyServer(path);
  t.after(() => server.stop());
  assert.match(
    textOf((await request(4, 'tools/call', { name: 'start_errand' })).result),
    /run_toy/,
  );
  await until('the client is notified', () =>
    messages.some((message) => message.method === 'notifications/tools/list_changed'),
  );
  const now = (await request(5, 'tools/list')).result as { tools: unknown[] };
  assert.equal(now.tools.length, 6);
  stdin.end();
  await ended;
});

test('job changes reach subscribed clients over every transport', async (t) => {
  const path = join(tempFolder(t), 's');
  const server = await startToyServer(path);
  t.after(() => server.stop());
  const clients = {
    'stdio 2026': await stdioClient(t, path, 'auto'),
    'stdio 2025': await stdioClient(t, path, 'legacy'),
    'http 2026': await httpClient(t, server.url, 'auto'),
  };
  for (const [transport, client] of Object.entries(clients)) {
    await client.callTool({ name: 'run_toy', arguments: {} });
    const ids = [...server.jobs.keys()];
    const id = ids.at(-1)!;
    const uri = `job://${id}`;
    const updates: string[] = [];
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      updates.push(params.uri);
    });
    if (transport.endsWith('2026')) await client.listen({ resourceSubscriptions: [uri] });
    else await client.subscribeResource({ uri });
    await until(`${transport}: the server watches the job`, () => server.watchers(id) > 0);
    for (const other of ids.slice(0, -1))
      if (server.jobs.get(other)!.status === 'running') server.finish(other, 0);
    server.finish(id, 0);
    await until(`${transport}: the client is notified`, () => updates.length > 0);
    assert.deepEqual([...new Set(updates)], [uri], transport);
  }
});
