// The real program through MCP: a command run by an agent, over a front and over HTTP, in both protocol generations, as a
// plain call and as a task, through a `kill -9` of the server.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { envelope, rawFront } from '../faces/mcp/raw.ts';
import { textOf, type ToolAnswer } from '../faces/mcp/clients.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const plainEnv = (home: string) =>
  Object.fromEntries(
    Object.entries(serverEnv(home)).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );

const frontOf = (home: string, ...args: string[]) => ({
  command: process.execPath,
  args: [bin, 'mcp', ...args],
  env: plainEnv(home),
  stderr: 'ignore' as const,
});

async function modern(
  t: TestContext,
  transport: StdioClientTransport | StreamableHTTPClientTransport,
) {
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: 'auto' } },
  );
  t.after(() => client.close());
  await client.connect(transport);
  assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  return client;
}

const structured = (answer: unknown) => (answer as ToolAnswer).structuredContent!;

test('an agent runs a command over a front; another reads it over HTTP', async (t) => {
  const server = await startServer(t);
  const front = await modern(t, new StdioClientTransport(frontOf(server.home)));
  const { tools } = await front.listTools();
  assert.ok(tools.length <= 15);
  assert.ok(Buffer.byteLength(JSON.stringify({ tools })) <= 18_000);

  const short = await front.callTool({
    name: 'run_command',
    arguments: { command: 'echo hello; exit 3', waitMs: 30_000 },
  });
  assert.equal(short.isError ?? false, false, 'an exit code is a result');
  assert.equal(structured(short).exitCode, 3);
  const listed = await front.callTool({ name: 'list_jobs', arguments: {} });
  assert.match(
    textOf(listed),
    /^job_\w{16} failed \(exitCode\) · command · \S+Z · echo hello; exit 3$/,
  );
  assert.match(textOf(short), /hello/);
  const refused = await front.callTool({ name: 'run_command', arguments: { cmd: 'x' } });
  assert.equal(refused.isError, true);
  assert.match(textOf(refused), /^invalidInput: /);

  const long = await front.callTool({
    name: 'run_command',
    arguments: {
      command:
        'echo started; until [ -e gate ] || [ ! -d "$PWD" ]; do sleep 0.05; done; echo got through',
      cwd: tempFolder(t),
      waitMs: 0,
    },
  });
  const { id, cwd } = structured(long) as { id: string; cwd: string };

  const http = await modern(
    t,
    new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${server.key}` } },
    }),
  );
  const uri = `job://${id}`;
  const heard: string[] = [];
  http.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    heard.push(params.uri);
  });
  await http.listen({ resourceSubscriptions: [uri] });
  const waiting = http.callTool({ name: 'wait_for_jobs', arguments: { ids: [id] } });
  writeFileSync(join(cwd, 'gate'), '');
  assert.equal(structured(await waiting).done, true);
  await until('the change is heard', () => heard.includes(uri));
  const read = await http.callTool({ name: 'read_output', arguments: { id } });
  assert.match(textOf(read), /started\ngot through/);
  const { contents } = await front.readResource({ uri });
  assert.equal(JSON.parse((contents[0] as { text: string }).text).status, 'completed');

  await assert.rejects(modern(t, new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`))));
});

test('a task of 2026 outlives a killed server and ends with the true exit code', async (t) => {
  const server = await startServer(t);
  const folder = tempFolder(t);
  const { command, args, env } = frontOf(server.home);
  const front = rawFront(t, command, args, env);
  const ask = async (method: string, params: object) => {
    const reply = await front.request(method, { ...params, _meta: envelope({ tasks: true }) });
    assert.equal(reply.error, undefined, JSON.stringify(reply.error));
    return reply.result!;
  };
  const run = {
    command: 'until [ -e gate ] || [ ! -d "$PWD" ]; do sleep 0.05; done; echo last words; exit 5',
    cwd: folder,
    waitMs: 0,
  };
  const created = await ask('tools/call', { name: 'run_command', arguments: run });
  assert.equal(created.resultType, 'task');
  const taskId = created.taskId as string;
  assert.match(created.statusMessage as string, new RegExp(`^${taskId} `));
  await until('it runs', async () => {
    const { statusMessage } = await ask('tasks/get', { taskId });
    return /running/.test(statusMessage as string);
  });
  await server.kill();
  writeFileSync(join(folder, 'gate'), '');
  const done = await until(
    'the task is over, on a server that the front started',
    async () => {
      const state = await ask('tasks/get', { taskId });
      return state.status === 'working' ? undefined : state;
    },
    60_000,
  );
  t.after(() => cli(server.home, ['stop']));
  assert.equal(done.status, 'completed');
  const result = done.result as ToolAnswer;
  assert.equal(result.structuredContent!.exitCode, 5);
  assert.equal(result.isError ?? false, false);
  assert.match(textOf(result), /last words/, 'what run_command itself would have answered');
  front.process.stdin!.end();
  assert.equal(await front.exited, 0);
});

test('tasks of 2025: streamed by the first SDK; a ready server and an open stdin', async (t) => {
  const server = await startServer(t);
  const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} });
  t.after(() => client.close());
  await client.connect(new OldStdio(frontOf(server.home)));
  await client.listTools();
  const { tasks } = client.experimental;
  const types: string[] = [];
  const params = { name: 'run_command', arguments: { command: 'sleep 0.3; exit 4', waitMs: 0 } };
  for await (const message of tasks.callToolStream(params, CallToolResultSchema)) {
    types.push(message.type);
    assert.notEqual(message.type, 'error', JSON.stringify(message));
    if (message.type === 'result')
      assert.equal((message.result.structuredContent as { exitCode: number }).exitCode, 4);
  }
  assert.deepEqual([types[0], types.at(-1)], ['taskCreated', 'result']);

  const ready = {
    name: 'run_command',
    arguments: { command: 'sleep 0.2; echo up; sleep 60', ready: { text: 'up' }, waitMs: 0 },
  };
  let readyId: string | undefined;
  for await (const message of tasks.callToolStream(ready, CallToolResultSchema)) {
    assert.notEqual(message.type, 'error', JSON.stringify(message));
    if (message.type === 'result')
      readyId = (message.result.structuredContent as { id: string }).id;
  }
  assert.ok(readyId, 'the task ended when the server was ready');
  const job = await client.callTool({ name: 'get_job', arguments: { id: readyId } });
  assert.equal((job.structuredContent as { status: string }).status, 'running');
  await client.callTool({ name: 'cancel_job', arguments: { id: readyId } });

  const open = await client.callTool({
    name: 'run_command',
    arguments: { command: 'cat', stdin: 'open', waitMs: 0 },
  });
  const { id } = open.structuredContent as { id: string };
  assert.match(id, /^job_/);
  await client.callTool({ name: 'cancel_job', arguments: { id } });
});
