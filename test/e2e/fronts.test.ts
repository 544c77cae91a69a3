// Fronts as clients launch them: many at once, killed, of another version, with several dialects, fed with rubbish.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { envelope, rawFront, type RawFront } from '../faces/mcp/raw.ts';
import { tempFolder } from '../helpers/folder.ts';
import { awaitFile } from '../helpers/process.ts';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const root = join(import.meta.dirname, '..', '..');

interface Wish {
  args?: string[];
  bin?: string;
}

const front = (t: TestContext, home: string, { args = [], bin: program = bin }: Wish = {}) =>
  rawFront(t, process.execPath, [program, 'mcp', ...args], serverEnv(home));

const ask = async (to: RawFront, method: string, params: object = {}) => {
  const reply = await to.request(method, { ...params, _meta: envelope() });
  assert.ok(reply.result, JSON.stringify(reply.error));
  return reply.result;
};

const call = async (to: RawFront, name: string, input: object) =>
  (await ask(to, 'tools/call', { name, arguments: input })).structuredContent as {
    id: string;
    status: string;
    exitCode: number | null;
  };

const toolNames = async (of: RawFront) =>
  ((await ask(of, 'tools/list')).tools as { name: string }[]).map(({ name }) => name);

const leave = async (...fronts: RawFront[]) => {
  for (const { process: child, exited } of fronts) {
    child.stdin!.end();
    assert.equal(await exited, 0);
  }
};

const servings = (home: string) =>
  readFileSync(join(home, 'server.log'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('"serving"')).length;

const pidOf = (home: string) => readFileSync(join(home, 'server.pid'), 'utf8').trim();

test('ten fronts at once on an empty home give one server', async (t) => {
  const home = join(tempFolder(t), 'home');
  t.after(() => cli(home, ['stop']));
  const fronts = Array.from({ length: 10 }, () => front(t, home));
  const lists = await Promise.all(fronts.map(toolNames));
  for (const list of lists) assert.ok(list.includes('run_command'));
  await until('it says that it serves', () => servings(home) > 0);
  assert.equal(servings(home), 1);
  await leave(...fronts);
});

test('kill -9 of a front: its call is gone, the job and other fronts go on', async (t) => {
  const home = join(tempFolder(t), 'home');
  const gate = join(tempFolder(t), 'gate');
  t.after(() => cli(home, ['stop']));
  const [killed, other] = [front(t, home), front(t, home)];
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
  await leave(other);
});

test('a newer front restarts an idle server and leaves a busy one; it says so; jobs go on', async (t) => {
  const newer = join(tempFolder(t), 'newer');
  for (const part of ['bin', 'src'])
    cpSync(join(root, part), join(newer, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(newer, 'node_modules'));
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as object;
  writeFileSync(join(newer, 'package.json'), JSON.stringify({ ...manifest, version: '99.0.0' }));
  const newerFront = (home: string) => front(t, home, { bin: join(newer, 'bin', 'errand.js') });
  const home = join(tempFolder(t), 'home');
  const gate = join(tempFolder(t), 'gate');
  t.after(() => cli(home, ['stop']));

  const old = front(t, home);
  const first = await call(old, 'run_command', { command: 'echo kept; exit 6', waitMs: 20_000 });
  const line = { command: `${awaitFile(gate)}; exit 4`, waitMs: 0 };
  const busy = await call(old, 'run_command', line);
  const pid = pidOf(home);
  const early = newerFront(home);
  let said = '';
  early.process.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text));
  assert.equal((await call(early, 'get_job', { id: first.id })).exitCode, 6);
  assert.equal(pidOf(home), pid, 'a busy server stays');
  await until('the difference is told', () => /"server":"(?!99)/.test(said) && /differ/.test(said));
  writeFileSync(gate, '');
  await until(
    'the job ends',
    async () => (await call(early, 'get_job', { id: busy.id })).exitCode === 4,
  );
  await leave(early);

  const late = newerFront(home);
  assert.equal((await call(late, 'get_job', { id: busy.id })).exitCode, 4);
  assert.notEqual(pidOf(home), pid, 'an idle one is replaced');
  const doctor = (await cli(home, ['doctor', '--json'])).stdout;
  assert.match(doctor, /running, version 99\.0\.0/);
  assert.equal(
    (await call(old, 'get_job', { id: first.id })).exitCode,
    6,
    'the old front works on',
  );
  await leave(late, old);
});

test('several dialects at once; one that is not there is refused with the names of those that are', async (t) => {
  const server = await startServer(t);
  const all = ['background-job', 'runpod', 'searchclaw', 'cardzero'];
  const many = front(t, server.home, { args: ['--dialect', all.join(',')] });
  const names = await toolNames(many);
  for (const name of ['execute_command', 'get-job-status', 'job_status', 'get_job'])
    assert.ok(names.includes(name), name);
  assert.equal(names.includes('run_command'), false);
  const wrong = front(t, server.home, { args: ['--dialect', 'background-job,klingon'] });
  let said = '';
  wrong.process.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text));
  const refusal = await ask(wrong, 'tools/call', { name: 'start_errand', arguments: {} });
  assert.match(JSON.stringify(refusal), /no dialect `klingon`.*Known: .*background-job/);
  await until('whoever reads its log is told, too', () => /no dialect `klingon`/.test(said));
  await leave(many, wrong);
});

test('lines that are no JSON, no JSON-RPC or too long harm nothing', async (t) => {
  const server = await startServer(t);
  const fed = front(t, server.home);
  await toolNames(fed);
  for (const line of [
    '{"jsonrpc": "2.0",',
    'hello',
    '[]',
    '{"id": 1}',
    '\u0000',
    'x'.repeat(500_000),
  ])
    fed.process.stdin!.write(`${line}\n`);
  assert.ok((await toolNames(fed)).includes('run_command'));
  const oversize = await ask(fed, 'tools/call', {
    name: 'run_command',
    arguments: { command: 'cat', stdin: { text: 'x'.repeat(5 * 2 ** 20) } },
  });
  assert.equal(oversize.isError, true);
  assert.match(JSON.stringify(oversize), /4194304|4 MiB|too (big|long)/i);
  const unknown = await ask(fed, 'tools/call', {
    name: 'get_job',
    arguments: { id: 'job_0000000000000000' },
  });
  assert.equal(unknown.isError, true);
  assert.match(JSON.stringify(unknown), /notFound.*list_jobs/);
  await leave(fed);
});

test('questions piped in are answered before the front ends with its stdin', async (t) => {
  const home = join(tempFolder(t), 'home');
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
  const front = spawn(process.execPath, [bin, 'mcp'], {
    env: serverEnv(home),
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  t.after(() => cli(home, ['stop']));
  front.stdin.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const out = (await front.stdout.toArray()).join('');
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
