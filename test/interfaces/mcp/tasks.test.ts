// Both versions of MCP tasks over the same jobs, with the official task clients and with raw messages for the strict rules.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
} from '@modelcontextprotocol/ext-tasks/client';
import {
  readAcceptedTaskIdsV2,
  TaskStatusNotificationV2Schema,
} from '@modelcontextprotocol/ext-tasks/core/v2';
import {
  CallToolResultSchema,
  TaskStatusNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { until } from '../../helpers/until.ts';
import { httpClient, oldClient, sharedToyServer, textOf } from './clients.ts';
import { envelope, postModern, spawnBridge, tasksExtension, type Reply } from './json-rpc.ts';

const server = await sharedToyServer();

type SendRequest = (method: string, params: Record<string, unknown>) => Promise<Reply>;

const overHttp: SendRequest = (method, params) =>
  postModern(server.url, method, params, { tasks: true });

const bridgeProgram = join(import.meta.dirname, '../../fixtures/toy-bridge.ts');

/** Sends requests through a bridge as a 2026 client that declares tasks. */
function overStdio(t: TestContext): SendRequest {
  const bridge = spawnBridge(t, process.execPath, [bridgeProgram, server.socketPath]);
  return (method, params) =>
    bridge.request(method, { ...params, _meta: envelope({ tasks: true }) });
}

const run = (args: object) => ({ name: 'run_toy', arguments: { ...args } });

for (const transport of ['http', 'stdio']) {
  test(`2026 tasks over ${transport}: created, polled, completed, cancelled`, async (t) => {
    const request = transport === 'http' ? overHttp : overStdio(t);
    const discovered = (await request('server/discover', {})).result!;
    const { extensions } = discovered.capabilities as { extensions: Record<string, unknown> };
    assert.deepEqual(extensions, {
      [tasksExtension]: {},
      'io.modelcontextprotocol/skills': { directoryRead: true },
    });

    const created = (await request('tools/call', run({}))).result!;
    assert.equal(created.resultType, 'task');
    assert.equal(created.status, 'working');
    assert.equal(created.ttlMs, null);
    const taskId = created.taskId as string;
    assert.ok(server.jobs.has(taskId), 'the task id is the job id');
    assert.match(created.statusMessage as string, new RegExp(`^${taskId} running`));
    for (const key of ['result', 'error', 'inputRequests', 'requestState', 'task'])
      assert.equal(key in created, false);

    const working = (await request('tasks/get', { taskId })).result!;
    assert.equal(working.status, 'working');
    assert.equal(working.resultType, 'complete');

    server.finish(taskId, 7);
    const done = (await request('tasks/get', { taskId })).result!;
    assert.equal(done.status, 'completed', 'a failed job is a completed task');
    const result = done.result as { structuredContent: { job: object; note: string } };
    assert.deepEqual(result.structuredContent.job, server.jobs.get(taskId));
    assert.equal(
      result.structuredContent.note,
      'made by run_toy: failed',
      'the result of the tool',
    );
    assert.equal((done.result as { resultType: string }).resultType, 'complete');
    assert.equal((done.result as { isError?: boolean }).isError ?? false, false);

    const second = (await request('tools/call', run({}))).result!.taskId as string;
    const empty = (await request('tasks/cancel', { taskId: second })).result!;
    assert.equal('taskId' in empty, false);
    assert.equal(server.jobs.get(second)!.status, 'cancelled');
    assert.equal((await request('tasks/get', { taskId: second })).result!.status, 'cancelled');
    assert.ok(
      (await request('tasks/cancel', { taskId: second })).result,
      'cancelling again is fine',
    );
    assert.ok((await request('tasks/update', { taskId: second, inputResponses: {} })).result);

    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
      assert.equal((await request(method, { taskId: 'job_none' })).error!.code, -32602);
    for (const method of ['tasks/list', 'tasks/result'])
      assert.equal((await request(method, { taskId })).error!.code, -32601);
  });
}

test('2026: finished, ready and plain jobs create no task, and neither do clients that do not declare tasks', async () => {
  const over = (await overHttp('tools/call', run({ ms: 1, waitMs: 20_000 }))).result!;
  assert.equal(over.resultType, 'complete');
  const ready = (await overHttp('tools/call', run({ ready: true }))).result!;
  assert.equal(ready.resultType, 'complete');
  const plain = (await overHttp('tools/call', run({ plain: true }))).result!;
  assert.equal(plain.resultType, 'complete');
  const legacyTask = { ...run({}), task: { ttl: 1000 } };
  const undeclared = (await postModern(server.url, 'tools/call', legacyTask)).result!;
  assert.equal(undeclared.resultType, 'complete');
  assert.match(textOf(undeclared), /^job_toy\d+ running$/);
  const rejected = await postModern(server.url, 'tasks/get', { taskId: 'job_none' });
  assert.equal(rejected.error!.code, -32021);
  assert.equal(rejected.status, 400);
  assert.deepEqual(rejected.error!.data, {
    requiredCapabilities: { extensions: { [tasksExtension]: {} } },
  });
});

for (const transport of ['http', 'stdio']) {
  test(`2026: task states are pushed over ${transport} to clients that subscribe`, async (t) => {
    const request = transport === 'http' ? overHttp : overStdio(t);
    const taskId = (await request('tools/call', run({}))).result!.taskId as string;
    const other = (await request('tools/call', run({}))).result!.taskId as string;
    const uri = `job://${taskId}`;
    const taskIds = [taskId, other];
    const filter = { taskIds: [...taskIds, 'job_none'], resourceSubscriptions: [uri] };
    const { received, stop } = await listen(t, transport, filter);
    await until(
      'the server watches',
      () => server.watchers(taskId) === 2 && server.watchers(other) === 1,
    );
    await until('notifications arrive', () => received.length > 2);
    assert.deepEqual(readAcceptedTaskIdsV2(received[0]!.params as never), taskIds);
    const { notifications } = received[0]!.params as { notifications: object };
    assert.deepEqual(notifications, { resourceSubscriptions: [uri], taskIds });
    const tasks = () =>
      received.filter(
        (one) => one.method === 'notifications/tasks' && one.params.taskId === taskId,
      );
    assert.equal(tasks()[0]!.params.status, 'working', 'the current state comes first');
    server.finish(taskId, 3);
    await until('the end is reported', () => tasks().length > 1);
    const last = tasks().at(-1)!;
    assert.deepEqual(TaskStatusNotificationV2Schema.safeParse(last).error, undefined);
    const { _meta, ...task } = last.params;
    const {
      resultType: _,
      _meta: __,
      ...polled
    } = (await request('tasks/get', { taskId })).result!;
    assert.deepEqual(task, polled, 'the same as tasks/get');
    const subscription = 'io.modelcontextprotocol/subscriptionId';
    assert.ok((_meta as object)[subscription as never] !== undefined);
    assert.ok(received.some(({ method }) => method === 'notifications/resources/updated'));
    stop();
    await until('the server stops watching', () => server.watchers(other) === 0);
  });
}

test('2026: a listen without declared tasks is rejected, and unknown task ids are not acknowledged', async (t) => {
  const filter = { taskIds: ['job_none'] };
  const params = { notifications: filter };
  const rejected = await postModern(server.url, 'subscriptions/listen', params);
  assert.deepEqual([rejected.status, rejected.error!.code], [400, -32021]);
  const bridge = spawnBridge(t, process.execPath, [bridgeProgram, server.socketPath]);
  const reply = await bridge.request('subscriptions/listen', { ...params, _meta: envelope() });
  assert.equal(reply.error!.code, -32021);
  const { received } = await listen(t, 'http', filter);
  await until('it is acknowledged', () => received.length > 0);
  assert.deepEqual(received[0]!.params.notifications, {});
});

/** Sends subscriptions/listen with declared tasks as raw messages: the official client hides unknown notifications. */
async function listen(t: TestContext, transport: string, notifications: Record<string, unknown>) {
  const params = { notifications, _meta: envelope({ tasks: true }) };
  if (transport === 'stdio') {
    const bridge = spawnBridge(t, process.execPath, [bridgeProgram, server.socketPath]);
    bridge.process.stdin!.write(
      `${JSON.stringify({ jsonrpc: '2.0', id: 'listen', method: 'subscriptions/listen', params })}\n`,
    );
    const stop = () => bridge.notify('notifications/cancelled', { requestId: 'listen', _meta: envelope() }); // prettier-ignore
    return { received: bridge.notifications, stop };
  }
  const leaving = new AbortController();
  t.after(() => leaving.abort());
  const response = await fetch(server.url, {
    method: 'POST',
    signal: leaving.signal,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'subscriptions/listen',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'listen', method: 'subscriptions/listen', params }),
  });
  const received: { method: string; params: Record<string, unknown> }[] = [];
  const reading = async () => {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream()))
      for (const [, data] of chunk.matchAll(/^data: (.*)$/gm)) received.push(JSON.parse(data!));
  };
  void reading().catch(() => {});
  return { received, stop: () => leaving.abort() };
}

test('2026: a task whose job becomes ready is completed', async () => {
  const taskId = (await overHttp('tools/call', run({}))).result!.taskId as string;
  server.jobs.set(taskId, { ...server.jobs.get(taskId)!, ready: true });
  const state = (await overHttp('tasks/get', { taskId })).result!;
  assert.equal(state.status, 'completed');
  assert.equal(server.jobs.get(taskId)!.status, 'running');
});

test('2026: the official task client completes a call', async (t) => {
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

for (const transport of ['http', 'stdio']) {
  test(`2025 tasks over ${transport} with the first SDK`, async (t) => {
    const client = await oldClient(
      t,
      transport === 'http' ? server : { socketPath: server.socketPath },
    );
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
      'even if the result is immediate',
    );

    const statuses: string[] = [];
    client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
      statuses.push(`${params.taskId} ${params.status}`);
    });
    const open = tasks.callToolStream(run({}), CallToolResultSchema);
    const { value } = await open.next();
    assert.ok(value?.type === 'taskCreated');
    const { taskId } = value.task;
    if (transport === 'stdio') await until('the server watches', () => server.watchers(taskId) > 0);
    assert.ok((await tasks.listTasks()).tasks.some((task) => task.taskId === taskId));
    const result = tasks.getTaskResult(taskId, CallToolResultSchema);
    server.finish(taskId, 0);
    assert.match(textOf(await result), /completed/);
    if (transport === 'stdio') {
      await until('the end is reported', () => statuses.length > 0);
      assert.deepEqual(statuses, [`${taskId} completed`]);
    }
    await assert.rejects(tasks.cancelTask(taskId), { code: -32602 });

    const created = await tasks.callToolStream(run({}), CallToolResultSchema).next();
    assert.ok(created.value?.type === 'taskCreated');
    const cancelled = await tasks.cancelTask(created.value.task.taskId);
    assert.equal(cancelled.status, 'cancelled');
    await assert.rejects(tasks.getTask('job_none'), { code: -32602 });
  });
}
