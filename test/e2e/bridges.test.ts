// Bridges as clients launch them: concurrently, killed, with another version, with several dialects, and with invalid input.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { version } from '../../src/version.ts';
import { envelope, spawnBridge, type BridgeProcess } from '../interfaces/mcp/json-rpc.ts';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { bin, cli, serverEnv } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const olderVersion = join(import.meta.dirname, '..', 'fixtures', 'older-version.ts');

interface BridgeOptions {
  args?: string[];
  env?: Record<string, string>;
}

const bridge = (t: TestContext, home: string, { args = [], env = {} }: BridgeOptions = {}) =>
  spawnBridge(t, process.execPath, [bin, 'mcp', ...args], serverEnv(home, env));

/** The tests share the server that the first of them starts. */
const folder = tempFolder({ after } as TestContext);
const home = join(folder, 'home');
after(() => cli(home, ['stop']));

const request = async (to: BridgeProcess, method: string, params: object = {}) => {
  const reply = await to.request(method, { ...params, _meta: envelope() });
  assert.ok(reply.result, JSON.stringify(reply.error));
  return reply.result;
};

const call = async (to: BridgeProcess, name: string, input: object) =>
  (await request(to, 'tools/call', { name, arguments: input })).structuredContent as {
    id: string;
    status: string;
    exitCode: number | null;
  };

const toolNames = async (of: BridgeProcess) =>
  ((await request(of, 'tools/list')).tools as { name: string }[]).map(({ name }) => name);

const closeBridges = async (...bridges: BridgeProcess[]) => {
  for (const { process: child, exited } of bridges) {
    child.stdin!.end();
    assert.equal(await exited, 0);
  }
};

const serverStarts = (home: string) =>
  readFileSync(join(home, 'server.log'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('"serving"')).length;

const pidOf = (home: string) => readFileSync(join(home, 'server.pid'), 'utf8').trim();

test('ten concurrent bridges on an empty home start one server', async (t) => {
  const bridges = Array.from({ length: 10 }, () => bridge(t, home));
  const lists = await Promise.all(bridges.map(toolNames));
  for (const list of lists) assert.ok(list.includes('run_command'));
  await until('the server logs that it is serving', () => serverStarts(home) > 0);
  assert.equal(serverStarts(home), 1);
  await closeBridges(...bridges);
});

test('kill -9 of a bridge ends its call, but not the job or other bridges', async (t) => {
  const gate = join(folder, 'gate');
  const [killed, other] = [bridge(t, home), bridge(t, home)];
  const line = { command: `${awaitFile(gate)}; exit 3`, waitMs: 0 };
  const { id } = await call(killed, 'run_command', line);
  void killed.request('tools/call', {
    name: 'wait_for_jobs',
    arguments: { ids: [id] },
    _meta: envelope(),
  });
  await until('it runs', async () => (await call(other, 'get_job', { id })).status === 'running');
  killed.process.kill('SIGKILL');
  await killed.exited;
  assert.equal((await call(other, 'get_job', { id })).status, 'running');
  writeFileSync(gate, '');
  await until('the end', async () => (await call(other, 'get_job', { id })).exitCode === 3);
  await closeBridges(other);
});

test('a newer bridge replaces an idle server but not a busy one, and jobs keep running', async (t) => {
  const own = join(folder, 'own');
  const gate = join(folder, 'newer-gate');
  t.after(() => cli(own, ['stop']));

  const old = bridge(t, own, { env: { NODE_OPTIONS: `--import ${olderVersion}` } });
  const first = await call(old, 'run_command', { command: 'echo kept; exit 6', waitMs: 20_000 });
  const line = { command: `${awaitFile(gate)}; exit 4`, waitMs: 0 };
  const busy = await call(old, 'run_command', line);
  const pid = pidOf(own);
  const early = bridge(t, own);
  let stderr = '';
  early.process.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  assert.equal((await call(early, 'get_job', { id: first.id })).exitCode, 6);
  assert.equal(pidOf(own), pid, 'a busy server is kept');
  await until(
    'the version difference is logged',
    () => stderr.includes('"server":"0.0.1"') && /differ/.test(stderr),
  );
  writeFileSync(gate, '');
  await until(
    'the job ends',
    async () => (await call(early, 'get_job', { id: busy.id })).exitCode === 4,
  );
  await closeBridges(early);

  const late = bridge(t, own);
  assert.equal((await call(late, 'get_job', { id: busy.id })).exitCode, 4);
  assert.notEqual(pidOf(own), pid, 'an idle server is replaced');
  const doctor = (await cli(own, ['doctor', '--json'])).stdout;
  assert.ok(doctor.includes(`running, version ${version}`), doctor);
  assert.equal(
    (await call(old, 'get_job', { id: first.id })).exitCode,
    6,
    'the old bridge still works',
  );
  await closeBridges(late, old);
});

test('several dialects combine, and an unknown one is rejected with the available names', async (t) => {
  const all = ['background-job', 'runpod', 'searchclaw', 'cardzero'];
  const many = bridge(t, home, { args: ['--dialect', all.join(',')] });
  const names = await toolNames(many);
  for (const name of ['execute_command', 'get-job-status', 'job_status', 'get_job'])
    assert.ok(names.includes(name), name);
  assert.equal(names.includes('run_command'), false);
  const wrong = bridge(t, home, { args: ['--dialect', 'background-job,klingon'] });
  let stderr = '';
  wrong.process.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const rejection = await request(wrong, 'tools/call', { name: 'start_errand', arguments: {} });
  assert.match(
    JSON.stringify(rejection),
    /Dialect `klingon` does not exist.*Available dialects: .*background-job/,
  );
  await until('the log contains the reason', () => /Dialect `klingon` does not exist/.test(stderr));
  await closeBridges(many, wrong);
});

test('lines that are not JSON, not JSON-RPC or too long do no harm', async (t) => {
  const target = bridge(t, home);
  await toolNames(target);
  for (const line of [
    '{"jsonrpc": "2.0",',
    'hello',
    '[]',
    '{"id": 1}',
    '\u0000',
    'x'.repeat(500_000),
  ])
    target.process.stdin!.write(`${line}\n`);
  assert.ok((await toolNames(target)).includes('run_command'));
  const oversize = await request(target, 'tools/call', {
    name: 'run_command',
    arguments: { command: 'cat', stdin: { text: 'x'.repeat(5 * 2 ** 20) } },
  });
  assert.equal(oversize.isError, true);
  assert.match(JSON.stringify(oversize), /4194304|4 MiB|too (big|long)/i);
  const unknown = await request(target, 'tools/call', {
    name: 'get_job',
    arguments: { id: 'job_0000000000000000' },
  });
  assert.equal(unknown.isError, true);
  assert.match(JSON.stringify(unknown), /notFound.*list_jobs/);
  await closeBridges(target);
});

test('piped requests get their responses before the bridge exits with its stdin', async () => {
  const call = (id: number, name: string, args: object) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: args },
  });
  const lines = [
    {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'pipe', version: '1' },
      },
    },
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    call(1, 'run_command', { command: 'echo piped', waitMs: 5000 }),
    call(2, 'list_jobs', {}),
  ];
  const bridge = spawn(process.execPath, [bin, 'mcp'], {
    env: serverEnv(home),
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  bridge.stdin.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const out = (await bridge.stdout.toArray()).join('');
  const ids = out
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { id: number }).id);
  assert.deepEqual(
    ids.toSorted((a, b) => a - b),
    [0, 1, 2],
  );
  assert.match(out, /piped/);
});
