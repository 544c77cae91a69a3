// Windows: whatever needs a server of its own says at once that it is not supported yet, and what to do instead.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { runCli } from '../../../src/faces/cli/cli.ts';
import type { FrontWish, Program } from '../../../src/faces/cli/program.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';

const forbidden = () => assert.fail('nothing is looked for or started on Windows');

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
    stdin: new PassThrough(),
    stdout,
    stderr,
    usualHome: () => '/nowhere',
    place: forbidden,
    isServed: forbidden,
    serve: forbidden,
    runFront: forbidden,
    restore: forbidden,
    migrate: forbidden,
    copyStore: forbidden,
    checkStore: forbidden,
    settings: forbidden,
    examine: () => Promise.resolve([]),
    ...more,
  };
  return { program, said: () => String(stderr.read() ?? ''), printed: () => String(stdout.read()) };
}

const words = /does not run on Windows yet[^]*WSL[^]*ERRAND_URL/;

test('serve, run, list and show answer that it is not supported, with exit code and hint', async () => {
  for (const argv of [
    ['serve'],
    ['run', '--', 'echo', 'hi'],
    ['list'],
    ['show', 'job_0000000000000000'],
  ]) {
    const { program, said } = onWindows();
    assert.notEqual(await runCli(argv, program), 0, argv[0]);
    assert.match(said(), words, argv[0]);
  }
  const { program, printed } = onWindows();
  await runCli(['list', '--json'], program);
  assert.equal((JSON.parse(printed()) as { error: { code: string } }).error.code, 'unsupported');
});

test('a front tells its client: the refusal comes where a server would be connected', async () => {
  let refusal: unknown;
  const runFront = async ({ connect }: FrontWish) => {
    refusal = await connect().catch((error: unknown) => error);
  };
  await runCli(['mcp'], onWindows({ runFront }).program);
  assert.match(String(refusal), /does not run on Windows yet/);
});

test('what needs no server works: version, doctor', async () => {
  const place = () => ({ home: '/home', socketPath: '/socket' });
  for (const argv of [['--version'], ['doctor']])
    assert.equal(await runCli(argv, onWindows({ place }).program), 0, argv[0]);
});
