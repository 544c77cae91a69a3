// `errand logs --tail` and what `errand run` takes over from the terminal and the environment of the caller.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

test('logs --tail gives as many lines as asked for, however long they are', async (t) => {
  const server = await startServer(t);
  const words = 'x'.repeat(200);
  const { stdout } = await server.cli('run', '--detach', '--shell', `seq -f '%g ${words}' 1 3000`);
  const id = stdout.trim();
  await server.cli('wait', id);
  const lines = async (count: number) =>
    (await server.cli('logs', '--tail', String(count), id)).stdout.split('\n').slice(0, -1);
  const many = await lines(1000);
  assert.equal(many.length, 1000);
  assert.deepEqual([many[0], many.at(-1)], [`2001 ${words}`, `3000 ${words}`]);
  assert.equal((await lines(5000)).length, 3000);
  assert.deepEqual(await lines(1), [`3000 ${words}`]);
  assert.deepEqual(await lines(0), []);
});

test('logs --tail -f of a job with two streams: each to its own, nothing twice', async (t) => {
  const server = await startServer(t);
  const line = 'seq 1 9; seq 11 19 >&2; echo up; read -r x; echo "$x"; echo "$x" >&2';
  const started = await server.api('POST', '/api/commands', {
    command: line,
    streams: 'split',
    stdin: 'open',
    waitMs: 0,
  });
  const { id } = started.json<{ id: string }>();
  await until('it is up', async () => (await server.cli('logs', id)).stdout.includes('up'));
  const following = server.cli('logs', '--tail', '2', '-f', id);
  await server.cli('send', id, 'end', '--newline');
  const { stdout, stderr } = await following;
  // The end may have come before the tail was read, or after it.
  assert.match(stdout, /^(9\nup\nend|up\nend)\n$/);
  assert.match(stderr, /^(18\n19\nend|19\nend)\n$/);
});

test('logs: what does not go together is refused, not ignored', async (t) => {
  const { cli: errand } = await startServer(t);
  const { stdout } = await errand('run', '--detach', '--', 'true');
  for (const flags of [
    ['--json', '--tail', '1'],
    ['--grep', 'x', '-f'],
    ['--errors', '--tail=3'],
  ]) {
    const answer = await errand('logs', ...flags, stdout.trim());
    assert.equal(answer.code, 2);
    assert.match(answer.stdout + answer.stderr, /--tail and --follow do not go with/);
  }
});

test('run --secret passes a variable of the caller and stores only its name', async (t) => {
  const server = await startServer(t);
  const line = ['run', '--secret', 'TOKEN', '--json', '--shell', 'test ${#TOKEN} -eq 6'];
  const answer = await cli(server.home, line, { TOKEN: 's3cret' });
  assert.equal(answer.code, 0, answer.stderr);
  const { id } = answer.json<{ id: string }>();
  const shown = await server.cli('show', '--json', '--input', id);
  assert.match(shown.stdout, /"secrets":\["TOKEN"\]/);
  assert.doesNotMatch(shown.stdout, /s3cret/);
  const missing = await server.cli(...line);
  assert.equal(missing.code, 5);
  assert.match(missing.stdout + missing.stderr, /TOKEN has no value/);
});

test('run --tty has the size of the terminal it is run in', async (t) => {
  const server = await startServer(t);
  const line = `stty rows 33 cols 77; exec ${process.execPath} ${bin} run --tty -- stty size`;
  const { stdout } = spawnSync('script', ['-qefc', line, '/dev/null'], {
    env: serverEnv(server.home),
    encoding: 'utf8',
  });
  assert.match(stdout, /\b33 77\b/);
});
