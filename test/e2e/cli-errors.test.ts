// Error messages and exit codes for invalid input: errors name flags as they were typed.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { cli, startServer } from '../helpers/server.ts';

test('run exits with the exit code of the error when the command did not start', async (t) => {
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
  assert.equal(
    (await server.cli('run', '--', 'sh', '-c', 'exit 9')).code,
    3,
    'the policy refuses sh -c',
  );
  assert.equal(
    (await server.cli('run', '--', 'false')).code,
    1,
    'a command that ran has its own exit code',
  );
});

test('input errors name the flag that was typed', async (t) => {
  const { cli: errand } = await startServer(t);
  const stderrOf = async (...args: string[]) => {
    const { code, stderr } = await errand(...args);
    assert.equal(code, 2, stderr);
    assert.doesNotMatch(stderr, /Option '|ambiguous|XYZ|timeoutMs|maxAttempts|input schema/);
    return stderr;
  };
  assert.match(
    await stderrOf('run', '--timeout', '-5', '--', 'true'),
    /--timeout requires a value/,
  );
  assert.match(await stderrOf('run', '--timeout'), /--timeout requires a value/);
  assert.match(await stderrOf('run', '--timeout=-5', '--', 'true'), /-5 is not a valid duration/);
  assert.match(
    await stderrOf('run', '--timeout', '0', '--', 'true'),
    /--timeout: must be at least 1ms/,
  );
  assert.match(await stderrOf('run', '--retries', '1000', '--', 'true'), /--retries/);
  assert.match(
    await stderrOf('run', '--detach=yes', '--', 'true'),
    /--detach does not accept a value/,
  );
  assert.match(await stderrOf('run', '--colour', '--', 'true'), /Unknown flag --colour/);
  assert.match(await stderrOf('run', '-x', '--', 'true'), /Unknown flag -x/);
  assert.match(await stderrOf('--hom', '/x', 'list'), /Unknown flag --hom\.\n.*--home DIR/);
  assert.match(await stderrOf('run', '--run-at', '25:00', '--', 'true'), /--run-at: .*\n.*08:00/);
  const never = await stderrOf('run', '--run-at', '2h', '--ttl', '1h', '--', 'true');
  assert.match(never, /--ttl: .*ends before the job may start/);
  const late = await errand('run', '--timeout', '0.2', '--', 'sleep', '60');
  assert.equal(late.code, 124);
  assert.match(late.stderr, /larger --timeout/);
});

test('an invalid setting error names the flag or the variable that set it', async (t) => {
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
