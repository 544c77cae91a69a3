// `errand logs` with long, split and growing output, and the time formats that `errand list` accepts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanText } from '../../src/kinds/command/output/text.ts';
import { startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

interface Piece {
  stream?: string;
  status?: string;
  text: string;
}

test('--tail prints exactly N complete lines, regardless of their total size', async () => {
  const { cli } = await sharedServer();
  const run = await cli('run', '--detach', '--shell', 'seq 1 60000; printf "the end"');
  const id = run.stdout.trim();
  assert.equal((await cli('wait', id)).code, 0);
  const tail = async (lines: number, ...flags: string[]) =>
    (await cli('logs', '--tail', String(lines), ...flags, id)).stdout;
  const long = (await tail(20_000)).split('\n');
  assert.deepEqual([long.length, long[0], long.at(-1)], [20_000, '40002', 'the end']);
  assert.equal((await tail(100_000)).split('\n').length, 60_001);
  assert.equal(await tail(0), '');
  assert.equal(await tail(2, '--follow'), '60000\nthe end');
  const json = JSON.parse(await tail(2, '--json')) as Piece & { from: number; next: number };
  assert.equal(json.text, '60000\nthe end');
  assert.equal(json.next - json.from, json.text.length);
  assert.match(await tail(1, '--grep', '5999'), /^\d+:59999\n$/);
  const refused = await cli('logs', '--follow', '--grep', 'x', id);
  assert.deepEqual([refused.code, /cannot be combined/.test(refused.stderr)], [2, true]);
});

test('--errors prints every error with its line number, and raw output is unchanged', async () => {
  const { api, cli } = await sharedServer();
  const findings = Array.from(
    { length: 24 },
    (_, i) =>
      `src/mod${i}.ts(1,14): error TS2322: Type 'number' is not assignable to type 'string'.`,
  );
  const jest = [
    'FAIL tests/cart.test.ts',
    '  \u001B[31m● cart › adds tax\u001B[0m',
    '',
    '    Expected: 21',
    '    Received: 20',
    '',
    '      at Object.<anonymous> (tests/cart.test.ts:14:23)',
  ];
  const passed = Array.from({ length: 100 }, (_, i) => `PASS tests/mod${i}.test.ts (${i} ms)`);
  const printed = [...passed, ...findings, ...jest, ...passed];
  const body = { argv: ['printf', '%s\\n', ...printed], waitMs: 20_000 };
  const { id } = (await api('POST', '/api/commands', body)).json<{ id: string }>();
  const plain = (await cli('logs', '--errors', id)).stdout.trimEnd().split('\n');
  const expected = [...findings, ...jest.filter(Boolean)].map(
    (line) => `${printed.indexOf(line) + 1}:${cleanText(line)}`,
  );
  assert.deepEqual(plain, expected);
  const path = `/api/jobs/${id}/output?mode=errors&raw=true`;
  const raw = (await api('GET', path)).json<Piece & { matches: number }>();
  assert.equal(raw.matches, expected.length);
  assert.ok(raw.text.includes('\u001B[31m● cart › adds tax\u001B[0m'));
});

test('--tail applies to each split stream; --follow --json names the stream and ends with the status', async () => {
  const { api, cli } = await sharedServer();
  const command = 'echo o1; echo o2; echo e1 >&2; echo e2 >&2; exit 6';
  const body = { command, streams: 'split', waitMs: 20_000 };
  const { id } = (await api('POST', '/api/commands', body)).json<{ id: string }>();
  const plain = await cli('logs', '--follow', '--tail', '1', id);
  assert.deepEqual([plain.stdout, plain.stderr], ['o2\n', 'e2\n']);
  const pieces = (await cli('logs', '--follow', '--json', id)).stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Piece);
  const textOf = (stream: string) =>
    pieces.flatMap((piece) => (piece.stream === stream ? [piece.text] : [])).join('');
  assert.deepEqual([textOf('stdout'), textOf('stderr')], ['o1\no2\n', 'e1\ne2\n']);
  assert.equal(pieces.at(-1)!.status, 'failed');
});

test('--tail -f writes each split stream to its own descriptor without duplicates', async () => {
  const server = await sharedServer();
  const line = 'seq 1 9; seq 11 19 >&2; echo up; read -r x; echo "$x"; echo "$x" >&2';
  const started = await server.api('POST', '/api/commands', {
    command: line,
    streams: 'split',
    stdin: 'open',
    waitMs: 0,
  });
  const { id } = started.json<{ id: string }>();
  await until('the job is up', async () => (await server.cli('logs', id)).stdout.includes('up'));
  const following = server.cli('logs', '--tail', '2', '-f', id);
  await server.cli('send', id, 'end', '--newline');
  const { stdout, stderr } = await following;
  // The job may end before or after the tail is read.
  assert.match(stdout, /^(9\nup\nend|up\nend)\n$/);
  assert.match(stderr, /^(18\n19\nend|19\nend)\n$/);
});

test('list accepts durations, local dates and local times', async (t) => {
  const { cli } = await startServer(t);
  assert.equal((await cli('run', '--', 'true')).code, 0);
  const count = async (...flags: string[]) =>
    (await cli('list', '--json', ...flags)).json<{ jobs: unknown[] }>().jobs.length;
  assert.equal(await count('--since', '1h'), 1);
  assert.equal(await count('--before', '1h'), 0);
  assert.equal(await count('--since', '2020-01-31'), 1);
  assert.equal(await count('--before', '2020-01-31 08:00'), 0);
  assert.equal((await cli('list', '--since', 'soon')).code, 2);
});
