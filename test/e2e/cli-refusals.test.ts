// What the command line says and how it ends when it is told something wrong: in the words that were typed.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { cli, startServer } from '../helpers/server.ts';

test('run ends with the exit code of the error when nothing ran', async (t) => {
  const home = homeWith(t, { command: { policy: { deny: ['rm'] } } });
  const server = await startServer(t, { home });
  const nowhere = join(tempFolder(t), 'nowhere');
  const plain = await server.cli('run', '--cwd', nowhere, '--', 'echo', 'hi');
  assert.equal(plain.code, 5, plain.stderr);
  const scripted = await server.cli('run', '--json', '--cwd', nowhere, '--', 'echo', 'hi');
  assert.equal(scripted.code, 5);
  assert.equal(scripted.json<{ error: { code: string } }>().error.code, 'cwdMissing');
  assert.equal((await server.cli('run', '--secret', 'NONE_SUCH', '--', 'true')).code, 5);
  assert.equal((await server.cli('run', '--', 'rm', 'x')).code, 3, 'refused by policy');
  assert.equal((await server.cli('run', '--', 'sh', '-c', 'exit 9')).code, 3, 'it runs words');
  assert.equal((await server.cli('run', '--', 'false')).code, 1, 'what ran has its own');
});

test('a wrong flag is named as it was typed', async (t) => {
  const { cli: errand } = await startServer(t);
  const said = async (...args: string[]) => {
    const { code, stderr } = await errand(...args);
    assert.equal(code, 2, stderr);
    assert.doesNotMatch(stderr, /Option '|ambiguous|XYZ|timeoutMs|attemptsMax|input schema/);
    return stderr;
  };
  assert.match(await said('run', '--timeout', '-5', '--', 'true'), /--timeout needs a value/);
  assert.match(await said('run', '--timeout'), /--timeout needs a value/);
  assert.match(await said('run', '--timeout=-5', '--', 'true'), /-5 is not a duration/);
  assert.match(
    await said('run', '--timeout', '0', '--', 'true'),
    /--timeout: must be at least 1ms/,
  );
  assert.match(await said('run', '--retries', '1000', '--', 'true'), /--retries/);
  assert.match(await said('run', '--detach=yes', '--', 'true'), /--detach takes no value/);
  assert.match(await said('run', '--colour', '--', 'true'), /no flag --colour/);
  assert.match(await said('run', '-x', '--', 'true'), /no flag -x/);
  const never = await said('run', '--run-at', '2h', '--ttl', '1h', '--', 'true');
  assert.match(never, /--ttl: .*ends before it may start/);
  const late = await errand('run', '--timeout', '0.2', '--', 'sleep', '60');
  assert.equal(late.code, 124);
  assert.match(late.stderr, /larger --timeout/);
});

test('a setting that cannot be is blamed on the flag or the variable it came from', async (t) => {
  const home = join(tempFolder(t), 'home');
  const flag = await cli(home, ['serve', '--port', '99999']);
  assert.deepEqual(
    [flag.code, /--port: must be at most 65535/.test(flag.stderr)],
    [2, true],
    flag.stderr,
  );
  assert.doesNotMatch(flag.stderr, /environment/);
  const label = await cli(home, ['serve', '--port', '0', '--label', 'a b']);
  assert.deepEqual([label.code, /--label/.test(label.stderr)], [2, true], label.stderr);
  const variable = await cli(home, ['serve'], { ERRAND_PORT: '99999' });
  assert.match(variable.stderr, /ERRAND_PORT: must be at most 65535/);
});
