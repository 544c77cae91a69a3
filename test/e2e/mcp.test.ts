// The real program through MCP, over a bridge and over HTTP, in both protocol generations: commands as plain calls and as
// tasks, including a `kill -9` of the server.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { envelope, spawnBridge } from '../interfaces/mcp/json-rpc.ts';
import { textOf, type ToolResult } from '../interfaces/mcp/clients.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
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

const structured = (answer: unknown) => (answer as ToolResult).structuredContent!;

test('one agent runs a command over a bridge, and another reads it over HTTP', async (t) => {
  const server = await sharedServer();
  const bridge = await modern(t, new StdioClientTransport(frontOf(server.home)));
  const { tools } = await bridge.listTools();
  assert.ok(tools.length <= 15);
  assert.ok(Buffer.byteLength(JSON.stringify({ tools })) <= 18_000);

  const short = await bridge.callTool({
    name: 'run_command',
    arguments: { command: 'echo hello; exit 3', waitMs: 30_000 },
  });
  assert.equal(short.isError ?? false, false, 'an exit code is a result');
  assert.equal(structured(short).exitCode, 3);
  const listed = await bridge.callTool({ name: 'list_jobs', arguments: {} });
  assert.match(
    textOf(listed),
    /^job_\w{16} failed \(exitCode\) · command · \S+Z · echo hello; exit 3$/,
  );
  assert.match(textOf(short), /hello/);
  const refused = await bridge.callTool({ name: 'run_command', arguments: { cmd: 'x' } });
  assert.equal(refused.isError, true);
  assert.match(textOf(refused), /^invalidInput: /);

  const cwd = tempFolder(t);
  const long = await bridge.callTool({
    name: 'run_command',
    arguments: {
      command:
        'echo started; until [ -e gate ] || [ ! -d "$PWD" ]; do sleep 0.05; done; echo got through',
      cwd,
      waitMs: 0,
    },
  });
  const { id } = structured(long) as { id: string };

  const http = await modern(
    t,
    new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${server.key}` } },
    }),
  );
  const uri = `job://${id}`;
  const updates: string[] = [];
  http.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    updates.push(params.uri);
  });
  await http.listen({ resourceSubscriptions: [uri] });
  const waiting = http.callTool({ name: 'wait_for_jobs', arguments: { ids: [id] } });
  writeFileSync(join(cwd, 'gate'), '');
  assert.equal(structured(await waiting).done, true);
  await until('the client is notified', () => updates.includes(uri));
  const read = await http.callTool({ name: 'read_output', arguments: { id } });
  assert.match(textOf(read), /started\ngot through/);
  const { contents } = await bridge.readResource({ uri });
  assert.equal(JSON.parse((contents[0] as { text: string }).text).status, 'completed');

  await assert.rejects(modern(t, new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`))));
});

test('a 2026 task survives a killed server and ends with the true exit code', async (t) => {
  const server = await startServer(t);
  const folder = tempFolder(t);
  const { command, args, env } = frontOf(server.home);
  const bridge = spawnBridge(t, command, args, env);
  const ask = async (method: string, params: object) => {
    const reply = await bridge.request(method, { ...params, _meta: envelope({ tasks: true }) });
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
    'the task is over, on a server that the bridge started',
    async () => {
      const state = await ask('tasks/get', { taskId });
      return state.status === 'working' ? undefined : state;
    },
    60_000,
  );
  t.after(() => cli(server.home, ['stop']));
  assert.equal(done.status, 'completed');
  const result = done.result as ToolResult;
  assert.equal(result.structuredContent!.exitCode, 5);
  assert.equal(result.isError ?? false, false);
  assert.match(textOf(result), /last words/, 'the result that run_command would have returned');
  bridge.process.stdin!.end();
  assert.equal(await bridge.exited, 0);
});

test('2025 tasks work with the first SDK, including ready checks and open stdin', async (t) => {
  const server = await sharedServer();
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

test('the third identical look at a running job says that nothing is new; waits know the expected time', async (t) => {
  const server = await sharedServer();
  const bridge = await modern(t, new StdioClientTransport(frontOf(server.home)));
  const call = async (name: string, args: Record<string, unknown>) =>
    bridge.callTool({ name, arguments: args });
  const marker = join(tempFolder(t), 'go');
  // The same work ran before and took at least a second, so that a time can be expected.
  const command = `[ -e ${marker} ] && sleep 60; echo started; sleep 1.2`;
  for (let run = 0; run < 3; run++) await call('run_command', { command, waitMs: 30_000 });
  writeFileSync(marker, '');
  const { id } = structured(await call('run_command', { command, waitMs: 0 })) as { id: string };
  const waited = await call('wait_for_jobs', { ids: [id], waitMs: 100 });
  const [job] = structured(waited).jobs as { expectedRemainingMs: number }[];
  assert.ok(job!.expectedRemainingMs > 0, JSON.stringify(job));
  assert.match(textOf(waited), /expected to run .* more, from earlier runs/);
  await until('the job runs', async () => {
    const { status } = structured(await call('get_job', { id, details: true }));
    return status === 'running';
  });
  for (const [name, least] of [
    ['get_job', { id, status: 'running' }],
    ['read_output', { status: 'running', text: '' }],
  ] as const) {
    const looks = [];
    for (let look = 0; look < 3; look++) looks.push(await call(name, { id }));
    assert.ok(!('unchanged' in structured(looks[1])), name);
    const hint = 'Nothing new. Call wait_for_jobs.';
    assert.deepEqual(structured(looks[2]), { ...least, unchanged: true, hint });
    assert.equal(textOf(looks[2]), hint);
  }
  await call('wait_for_jobs', { ids: [id], waitMs: 50 });
  assert.ok(!('unchanged' in structured(await call('get_job', { id }))), 'a wait was made');
  await call('cancel_job', { id });
  await call('wait_for_jobs', { ids: [id], waitMs: 30_000 });
  for (let look = 0; look < 4; look++)
    assert.ok(!('unchanged' in structured(await call('get_job', { id }))), 'an ended job is shown');
});

test('with a channel, the end of a job wakes the client unless a response already shows it', async (t) => {
  const { home } = await sharedServer();
  const { command, args, env } = frontOf(home, '--channel');
  const bridge = spawnBridge(t, command, args, env);
  const { result } = await bridge.request('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  });
  const { experimental } = result!.capabilities as { experimental: object };
  assert.deepEqual(experimental, { 'claude/channel': {} });
  assert.match(String(result!.instructions), /channel `errand`/);
  bridge.notify('notifications/initialized', {});
  const cwd = tempFolder(t);
  const call = async (name: string, input: object) =>
    structured((await bridge.request('tools/call', { name, arguments: input })).result);
  const start = async (gate: string) =>
    (await call('run_command', {
      command: `until [ -e ${gate} ] || [ ! -d "$PWD" ]; do sleep 0.05; done; echo "error: ${gate}"; exit 3`,
      cwd,
      waitMs: 0,
    })) as { id: string };
  const messages = () =>
    bridge.notifications.filter(({ method }) => method === 'notifications/claude/channel');
  const seen = await start('first');
  const waiting = call('wait_for_jobs', { ids: [seen.id] });
  const unseen = await start('second');
  writeFileSync(join(cwd, 'first'), '');
  assert.equal((await waiting).done, true);
  writeFileSync(join(cwd, 'second'), '');
  await until('the client is woken', () => messages().length > 0);
  const [message, ...others] = messages().map(({ params }) => params);
  assert.deepEqual(others, []);
  assert.deepEqual(message!.meta, { job_id: unseen.id, status: 'failed' });
  assert.match(String(message!.content), /exit code 3[^]*error: second/);
});
