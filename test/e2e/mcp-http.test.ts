// Raw MCP over HTTP on a real server: the settings that apply to it, and 2025 tasks with real jobs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { homeWith } from '../helpers/folder.ts';
import { startServer, type ApiResponse, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const ask = (server: TestServer, method: string, params: object = {}): Promise<ApiResponse> =>
  server.api(
    'POST',
    '/mcp',
    { jsonrpc: '2.0', id: 1, method, params },
    { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
  );

/** Reads the result from a JSON body or from the only event of a stream. */
function resultOf<T>({ text }: ApiResponse): T {
  const json = text.startsWith('{') ? text : /^data: (\{.*)$/m.exec(text)![1]!;
  return (JSON.parse(json) as { result: T }).result;
}

const list = (bytes: number) => ({ _meta: { padding: 'x'.repeat(bytes) } });

test('http.maxBodyBytes limits the body, below and above the default', async (t) => {
  const small = await startServer(t, { home: homeWith(t, { http: { maxBodyBytes: 3000 } }) });
  assert.equal((await ask(small, 'tools/list', list(2000))).status, 200);
  assert.equal((await ask(small, 'tools/list', list(3000))).status, 413);
  const usual = await startServer(t);
  assert.equal((await ask(usual, 'tools/list', list(9 * 1024 ** 2))).status, 200);
  // Repeated, because a connection that closes too early only fails occasionally.
  for (let i = 0; i < 10; i++)
    assert.equal((await ask(usual, 'tools/list', list(10 * 1024 ** 2))).status, 413);
});

test('2025: tasks/list and tasks/get return the same timestamps', async (t) => {
  const server = await startServer(t);
  await server.cli('run', '--', 'sleep', '0.1');
  const id = (await server.cli('run', '--detach', '--', 'sleep', '300')).stdout.trim();
  await until('it runs', async () =>
    (await server.cli('list', '--status', 'running')).stdout.includes(id),
  );
  const { tasks } = resultOf<{ tasks: { taskId: string }[] }>(await ask(server, 'tasks/list'));
  assert.equal(tasks.length, 2);
  for (const task of tasks) {
    const { taskId } = task;
    const alone = resultOf<Times>(await ask(server, 'tasks/get', { taskId }));
    assert.deepEqual(timesOf(task as unknown as Times), timesOf(alone));
  }
  const { createdAt, lastUpdatedAt } = tasks[1] as unknown as Times;
  assert.ok(Date.parse(lastUpdatedAt) >= Date.parse(createdAt) + 100, 'that of its end');
  await server.cli('cancel', id);
});

interface Times {
  createdAt: string;
  lastUpdatedAt: string;
}

const timesOf = ({ createdAt, lastUpdatedAt }: Times) => ({ createdAt, lastUpdatedAt });
