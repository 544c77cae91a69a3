// Tasks of both generations over the same jobs: with the official task clients, and by hand where the rules are strict.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
} from '@modelcontextprotocol/ext-tasks/client';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { httpClient, oldClient, sharedToyServer, textOf } from './clients.ts';
import { envelope, postModern, rawFront, tasksExtension, type Reply } from './raw.ts';

const server = await sharedToyServer();

type Ask = (method: string, params: Record<string, unknown>) => Promise<Reply>;

const overHttp: Ask = (method, params) => postModern(server.url, method, params, { tasks: true });

const program = join(import.meta.dirname, '../../fixtures/toy-server.ts');

/** A 2026 client that declares tasks, over a front. */
function overStdio(t: TestContext): Ask {
  const front = rawFront(t, process.execPath, [program, '--front', server.socketPath]);
  return (method, params) => front.request(method, { ...params, _meta: envelope({ tasks: true }) });
}

const run = (args: object) => ({ name: 'run_toy', arguments: { ...args } });

for (const way of ['http', 'stdio']) {
  test(`2026 tasks over ${way}: created, polled, completed, cancelled`, async (t) => {
    const ask = way === 'http' ? overHttp : overStdio(t);
    const discovered = (await ask('server/discover', {})).result!;
    const { extensions } = discovered.capabilities as { extensions: Record<string, unknown> };
    assert.deepEqual(extensions, { [tasksExtension]: {} });

    const created = (await ask('tools/call', run({}))).result!;
    assert.equal(created.resultType, 'task');
    assert.equal(created.status, 'working');
    assert.equal(created.ttlMs, null);
    const taskId = created.taskId as string;
    assert.ok(server.jobs.has(taskId), 'the task id is the job id');
    assert.match(created.statusMessage as string, new RegExp(`^${taskId} running`));
    for (const key of ['result', 'error', 'inputRequests', 'requestState', 'task'])
      assert.equal(key in created, false);

    const working = (await ask('tasks/get', { taskId })).result!;
    assert.equal(working.status, 'working');
    assert.equal(working.resultType, 'complete');

    server.finish(taskId, 7);
    const done = (await ask('tasks/get', { taskId })).result!;
    assert.equal(done.status, 'completed', 'a job that failed is a completed task');
    const result = done.result as { structuredContent: { job: object; note: string } };
    assert.deepEqual(result.structuredContent.job, server.jobs.get(taskId));
    assert.equal(result.structuredContent.note, 'made by run_toy: failed', 'what the tool answers');
    assert.equal((done.result as { resultType: string }).resultType, 'complete');
    assert.equal((done.result as { isError?: boolean }).isError ?? false, false);

    const second = (await ask('tools/call', run({}))).result!.taskId as string;
    const empty = (await ask('tasks/cancel', { taskId: second })).result!;
    assert.equal('taskId' in empty, false);
    assert.equal(server.jobs.get(second)!.status, 'cancelled');
    assert.equal((await ask('tasks/get', { taskId: second })).result!.status, 'cancelled');
    assert.ok((await ask('tasks/cancel', { taskId: second })).result, 'cancelling again is fine');
    assert.ok((await ask('tasks/update', { taskId: second, inputResponses: {} })).result);

    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
      assert.equal((await ask(method, { taskId: 'job_none' })).error!.code, -32602);
    for (const method of ['tasks/list', 'tasks/result'])
      assert.equal((await ask(method, { taskId })).error!.code, -32601);
  });
}

test('2026: no task for work that is over, ready, or plain; none for clients that declare nothing', async () => {
  const over = (await overHttp('tools/call', run({ ms: 1, waitMs: 20_000 }))).result!;
  assert.equal(over.resultType, 'complete');
  const ready = (await overHttp('tools/call', run({ ready: true }))).result!;
  assert.equal(ready.resultType, 'complete');
  const plain = (await overHttp('tools/call', run({ plain: true }))).result!;
  assert.equal(plain.resultType, 'complete');
  const asked = { ...run({}), task: { ttl: 1000 } };
  const undeclared = (await postModern(server.url, 'tools/call', asked)).result!;
  assert.equal(undeclared.resultType, 'complete');
  assert.match(textOf(undeclared), /^job_toy\d+ running$/);
  const refused = await postModern(server.url, 'tasks/get', { taskId: 'job_none' });
  assert.equal(refused.error!.code, -32021);
  assert.equal(refused.status, 400);
  assert.deepEqual(refused.error!.data, {
    requiredCapabilities: { extensions: { [tasksExtension]: {} } },
  });
});

test('2026: a task whose job becomes ready is completed', async () => {
  const taskId = (await overHttp('tools/call', run({}))).result!.taskId as string;
  server.jobs.set(taskId, { ...server.jobs.get(taskId)!, ready: true });
  const state = (await overHttp('tasks/get', { taskId })).result!;
  assert.equal(state.status, 'completed');
  assert.equal(server.jobs.get(taskId)!.status, 'running');
});

test('2026: the official task client settles a call', async (t) => {
  const client = await httpClient(t, server.url, 'auto');
  const session = createTaskSessionFromClient(client, {
    endpointId: 'toy',
    rawDispatch: async (request) => {
      const { method, params } = request as { method: string; params: Record<string, unknown> };
      const reply = await postModern(server.url, method, params, { tasks: true });
      if (reply.error) return { kind: 'error', error: reply.error as never };
      return { kind: 'result', result: reply.result as never };
    },
    v2RequestFraming: {
      protocolVersion: '2026-07-28',
      clientInfo: { name: 'raw', version: '1' },
      clientCapabilities: {},
    },
  });
  try {
    const execution = await session.callTool('run_toy', { ms: 200, exit: 0 });
    const { outcome } = await execution.settle();
    const result = resultFromTaskOutcome(outcome) as unknown as {
      structuredContent: { note: string };
    };
    assert.equal(result.structuredContent.note, 'made by run_toy: completed');
  } finally {
    await session.close();
  }
});

for (const way of ['http', 'stdio']) {
  test(`2025 tasks over ${way} with the first SDK`, async (t) => {
    const client = await oldClient(t, way === 'http' ? server : { socketPath: server.socketPath });
    const { tools } = await client.listTools();
    const support = (name: string) =>
      tools.find((tool) => tool.name === name)?.execution?.taskSupport;
    assert.equal(support('run_toy'), 'optional');
    assert.equal(support('get_job'), undefined);
    const { tasks } = client.experimental;

    const seen: string[] = [];
    const stream = tasks.callToolStream(run({ ms: 150, exit: 4 }), CallToolResultSchema);
    for await (const message of stream) {
      seen.push(message.type);
      assert.notEqual(message.type, 'error', JSON.stringify(message));
      if (message.type !== 'result') continue;
      const { job, note } = message.result.structuredContent as {
        job: { exitCode: number };
        note: string;
      };
      assert.equal(job.exitCode, 4);
      assert.equal(note, 'made by run_toy: failed');
    }
    assert.deepEqual([seen[0], seen.at(-1)], ['taskCreated', 'result']);

    const quick: string[] = [];
    for await (const message of tasks.callToolStream(
      run({ ms: 1, waitMs: 20_000 }),
      CallToolResultSchema,
    ))
      quick.push(message.type);
    assert.deepEqual(
      [quick[0], quick.at(-1)],
      ['taskCreated', 'result'],
      'also when it was over at once',
    );

    const open = tasks.callToolStream(run({}), CallToolResultSchema);
    const { value } = await open.next();
    assert.ok(value?.type === 'taskCreated');
    const { taskId } = value.task;
    assert.ok((await tasks.listTasks()).tasks.some((task) => task.taskId === taskId));
    const result = tasks.getTaskResult(taskId, CallToolResultSchema);
    server.finish(taskId, 0);
    assert.match(textOf(await result), /completed/);
    await assert.rejects(tasks.cancelTask(taskId), { code: -32602 });

    const created = await tasks.callToolStream(run({}), CallToolResultSchema).next();
    assert.ok(created.value?.type === 'taskCreated');
    const cancelled = await tasks.cancelTask(created.value.task.taskId);
    assert.equal(cancelled.status, 'cancelled');
    await assert.rejects(tasks.getTask('job_none'), { code: -32602 });
  });
}
