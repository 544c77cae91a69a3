// Windows: commands that need a local server fail immediately and print what to do instead.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { runCli } from '../../../src/interfaces/cli/cli.ts';
import type { BridgeRequest, Program } from '../../../src/interfaces/cli/program.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';

const forbidden = () => assert.fail('no server is searched or started on Windows');

function onWindows(more: Partial<Program> = {}) {
  const stdout = new PassThrough({ encoding: 'utf8' });
  const stderr = new PassThrough({ encoding: 'utf8' });
  const program: Program = {
    version: '0.1.0',
    binPath: '/errand.js',
    platform: 'win32',
    clock: new ManualClock(),
    log: silentLog,
    env: {},
    userHome: '/nowhere',
    stdin: new PassThrough(),
    stdout,
    stderr,
    defaultHome: () => '/nowhere',
    place: forbidden,
    isServed: forbidden,
    serve: forbidden,
    runBridge: forbidden,
    restore: forbidden,
    migrate: forbidden,
    copyStore: forbidden,
    checkStore: forbidden,
    settings: forbidden,
    examine: () => Promise.resolve([]),
    ...more,
  };
  return {
    program,
    stderrText: () => String(stderr.read() ?? ''),
    printed: () => String(stdout.read()),
  };
}

const unsupported = /does not run on Windows yet[^]*WSL[^]*ERRAND_URL/;

test('serve, run, list and show fail with an exit code and a hint', async () => {
  for (const argv of [
    ['serve'],
    ['run', '--', 'echo', 'hi'],
    ['list'],
    ['show', 'job_0000000000000000'],
  ]) {
    const { program, stderrText } = onWindows();
    assert.notEqual(await runCli(argv, program), 0, argv[0]);
    assert.match(stderrText(), unsupported, argv[0]);
  }
  const { program, printed } = onWindows();
  await runCli(['list', '--json'], program);
  assert.equal((JSON.parse(printed()) as { error: { code: string } }).error.code, 'unsupported');
});

test('the bridge gets the error when it connects to a server', async () => {
  let refusal: unknown;
  const runBridge = async ({ connect }: BridgeRequest) => {
    refusal = await connect().catch((error: unknown) => error);
  };
  await runCli(['mcp'], onWindows({ runBridge }).program);
  assert.match(String(refusal), /does not run on Windows yet/);
});

test('version and doctor work without a server', async () => {
  const place = () => ({ home: '/home', socketPath: '/socket' });
  for (const argv of [['--version'], ['doctor']])
    assert.equal(await runCli(argv, onWindows({ place }).program), 0, argv[0]);
});
