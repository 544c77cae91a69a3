// The fast path of the bridge returns the same results as the SDK, and leaves unusual messages to the SDK.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { toyJobs } from '../../fixtures/toy-jobs.ts';
import { startToyServer } from '../../fixtures/toy-server.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';
import { spawnBridge, type BridgeProcess } from './json-rpc.ts';

const bridgeProgram = join(import.meta.dirname, '../../fixtures/toy-bridge.ts');
const hello = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'x', version: '1' },
};

async function setUp(t: TestContext) {
  const path = join(tempFolder(t), 's');
  const toys = toyJobs();
  const server = await startToyServer(path, toys);
  t.after(() => server.stop());
  const bridge = spawnBridge(t, process.execPath, [bridgeProgram, path]);
  await bridge.request('initialize', hello);
  bridge.notify('notifications/initialized', {});
  await call(bridge, 'run_toy', {});
  const [id] = server.jobs.keys();
  return { bridge, server, toys, id: id! };
}

const call = (bridge: BridgeProcess, name: string, args: unknown, more: object = {}) =>
  bridge.request('tools/call', { name, arguments: args, ...more });

test('the fast path and the SDK return the same result for valid and invalid input', async (t) => {
  const { bridge, id } = await setUp(t);
  for (const args of [{ id }, { id: 'job_unknown' }, { id: 5 }, {}]) {
    const fast = await call(bridge, 'get_job', args);
    const slow = await call(bridge, 'get_job', args, { _meta: {} });
    assert.ok(fast.result, 'there is a result');
    assert.deepEqual(fast.result, slow.result);
  }
});

test('unusual messages get the response that the protocol requires', async (t) => {
  const { bridge, id } = await setUp(t);
  assert.equal((await call(bridge, 'no_such_tool', {})).error?.code, -32602);
  assert.ok((await call(bridge, 'get_job', ['not', 'an', 'object'])).error);
  assert.ok((await call(bridge, 'get_job', { id }, { task: {} })).error, 'it cannot be a task');
  const long = 'x'.repeat(200_000);
  assert.equal((await call(bridge, 'get_job', { id: long })).result?.isError, true);
  assert.deepEqual((await bridge.request('ping', {})).result, {});
});

test('lines may arrive in pieces or together, with ids of any type', async (t) => {
  const { bridge, id } = await setUp(t);
  const messages = collectMessages(bridge);
  const params = { name: 'get_job', arguments: { id } };
  const ids = ['a', 'b', '', -7];
  const text = ids
    .map(
      (name) => `${JSON.stringify({ jsonrpc: '2.0', id: name, method: 'tools/call', params })}\n`,
    )
    .join('');
  for (const [from, to] of [
    [0, 100],
    [100, 101],
    [101, text.length],
  ] as const)
    await new Promise((resolve) => bridge.process.stdin!.write(text.slice(from, to), resolve));
  const results = () => messages().filter((message) => message.result !== undefined);
  await until('all calls have results', () => results().length === ids.length);
  assert.deepEqual(new Set(results().map((message) => message.id)), new Set(ids));
});

test('a cancelled call gets no response, even if the result becomes available', async (t) => {
  const { bridge, server, id } = await setUp(t);
  const messages = collectMessages(bridge);
  const params = { name: 'wait_for_jobs', arguments: { ids: [id] } };
  const wait = { jsonrpc: '2.0', id: 'gone', method: 'tools/call', params };
  bridge.process.stdin!.write(`${JSON.stringify(wait)}\n`);
  bridge.notify('notifications/cancelled', { requestId: 'gone' });
  assert.match(JSON.stringify(await call(bridge, 'get_job', { id })), /running/);
  server.finish(id, 0);
  assert.match(JSON.stringify(await call(bridge, 'get_job', { id })), /completed/);
  assert.ok(!messages().some((message) => message.id === 'gone'));
});

test('a call that a stopped server did not complete is repeated on the next server', async (t) => {
  const { bridge, server, toys, id } = await setUp(t);
  const waiting = call(bridge, 'wait_for_jobs', { ids: [id] });
  await call(bridge, 'get_job', { id });
  await server.stop();
  const next = await startToyServer(server.socketPath, toys);
  t.after(() => next.stop());
  toys.finish(id, 0);
  assert.match(JSON.stringify(await waiting), /completed/);
});

/** Returns every message of the bridge so far, including those that no request waits for. */
function collectMessages(bridge: BridgeProcess): () => { id?: unknown; result?: unknown }[] {
  let text = '';
  bridge.process.stdout!.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  return () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { id?: unknown; result?: unknown });
}
