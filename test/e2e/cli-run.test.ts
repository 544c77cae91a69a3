// What `errand run` takes over from the terminal and the environment of the caller.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { bin, cli, serverEnv, startServer } from '../helpers/server.ts';

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
