// The short way through a front answers what the long way answers, and leaves to the SDK whatever is unusual.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { toyJobs } from '../../fixtures/toy-jobs.ts';
import { startToyServer } from '../../fixtures/toy-server.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';
import { rawFront, type RawFront } from './raw.ts';

const program = join(import.meta.dirname, '../../fixtures/toy-server.ts');
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
  const front = rawFront(t, process.execPath, [program, '--front', path]);
  await front.request('initialize', hello);
  front.notify('notifications/initialized', {});
  await call(front, 'run_toy', {});
  const [id] = server.jobs.keys();
  return { front, server, toys, id: id! };
}

const call = (front: RawFront, name: string, args: unknown, more: object = {}) =>
  front.request('tools/call', { name, arguments: args, ...more });

test('both ways give the same answer, for good and for bad input', async (t) => {
  const { front, id } = await setUp(t);
  for (const args of [{ id }, { id: 'job_unknown' }, { id: 5 }, {}]) {
    const short = await call(front, 'get_job', args);
    const long = await call(front, 'get_job', args, { _meta: {} });
    assert.ok(short.result, 'it was answered');
    assert.deepEqual(short.result, long.result);
  }
});

test('what is unusual is answered as the protocol says', async (t) => {
  const { front, id } = await setUp(t);
  assert.equal((await call(front, 'no_such_tool', {})).error?.code, -32602);
  assert.ok((await call(front, 'get_job', ['not', 'an', 'object'])).error);
  assert.ok((await call(front, 'get_job', { id }, { task: {} })).error, 'it cannot be a task');
  const long = 'x'.repeat(200_000);
  assert.equal((await call(front, 'get_job', { id: long })).result?.isError, true);
  assert.deepEqual((await front.request('ping', {})).result, {});
});

test('lines may come in pieces and many at once, with ids of any kind', async (t) => {
  const { front, id } = await setUp(t);
  const said = listen(front);
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
    await new Promise((resolve) => front.process.stdin!.write(text.slice(from, to), resolve));
  const answers = () => said().filter((message) => message.result !== undefined);
  await until('all are answered', () => answers().length === ids.length);
  assert.deepEqual(new Set(answers().map((message) => message.id)), new Set(ids));
});

test('a cancelled call is not answered, even when it could be', async (t) => {
  const { front, server, id } = await setUp(t);
  const said = listen(front);
  const params = { name: 'wait_for_jobs', arguments: { ids: [id] } };
  const wait = { jsonrpc: '2.0', id: 'gone', method: 'tools/call', params };
  front.process.stdin!.write(`${JSON.stringify(wait)}\n`);
  front.notify('notifications/cancelled', { requestId: 'gone' });
  assert.match(JSON.stringify(await call(front, 'get_job', { id })), /running/);
  server.finish(id, 0);
  assert.match(JSON.stringify(await call(front, 'get_job', { id })), /completed/);
  assert.ok(!said().some((message) => message.id === 'gone'));
});

test('a call that a server left unanswered is asked again of the next one', async (t) => {
  const { front, server, toys, id } = await setUp(t);
  const waiting = call(front, 'wait_for_jobs', { ids: [id] });
  await call(front, 'get_job', { id });
  await server.stop();
  const next = await startToyServer(server.socketPath, toys);
  t.after(() => next.stop());
  toys.finish(id, 0);
  assert.match(JSON.stringify(await waiting), /completed/);
});

/** Every message of the front so far, also those that no request of the helper waits for. */
function listen(front: RawFront): () => { id?: unknown; result?: unknown }[] {
  let text = '';
  front.process.stdout!.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  return () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { id?: unknown; result?: unknown });
}
