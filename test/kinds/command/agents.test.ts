// What agents see: terminal screens, marks for omitted output, processes that a command left running.
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { JobTasks } from '../../../src/interfaces/mcp/jobs.ts';
import { startApp } from '../../helpers/app.ts';
import { isGone } from '../../helpers/process.ts';
import { until } from '../../helpers/until.ts';

const { app, call } = await startApp({ after } as TestContext, {
  command: { checkMs: 50, killGraceMs: 500 },
});

interface Shown {
  id: string;
  status: string;
  output?: { text: string };
  hint?: string;
}

const run = (input: object) => call<Shown>('run_command', { waitMs: 20_000, ...input });

test('cancel_job ends processes that an ended command left running', async () => {
  const { id } = await run({ command: 'sleep 300 > /dev/null 2>&1 & echo $!' });
  const { leftBehind } = await call<{ leftBehind: number[] }>('get_job', { id });
  assert.equal(leftBehind.length, 1);
  const cancelled = await call<{ status: string; endedProcesses: number }>('cancel_job', { id });
  assert.deepEqual([cancelled.status, cancelled.endedProcesses], ['completed', 1]);
  await until('it is gone', () => isGone(String(leftBehind[0])));
  const again = await call<{ endedProcesses?: number }>('cancel_job', { id });
  assert.equal(again.endedProcesses, undefined);
});

test('a terminal returns its screen, as soon as it goes quiet', async () => {
  const draw = String.raw`printf '\033[2J\033[H old\033[H new\033[3;5Hthird row'; exec sleep 300`;
  const startedAt = Date.now();
  const { id, output } = await run({ command: draw, tty: true, waitMs: 45_000 });
  assert.ok(Date.now() - startedAt < 30_000, 'it does not wait for the end');
  assert.equal(output?.text, ' new\n\n    third row');
  await call('cancel_job', { id, graceMs: 0 });

  const reader = await run({
    command: 'while read -r x; do clear; echo "got $x"; done',
    tty: true,
  });
  const sent = await call<{ text: string }>('send_input', {
    jobId: reader.id,
    text: 'one',
    newline: true,
    waitMs: 20_000,
  });
  assert.equal(sent.text, 'got one');
  await call('cancel_job', { job_id: reader.id, graceMs: 0 });
});

test('a response marks omitted output', async () => {
  const line = await run({ command: 'head -c 5000000 /dev/zero | tr "\\0" x; echo' });
  assert.match(line.output!.text, /^x+…\[\+[\d,]+ bytes\]…x+\n$/);
  const lines = await run({ command: 'base64 -w 60 /dev/urandom | head -300' });
  assert.match(lines.output!.text, /^\[… [\d,]+ bytes before this\]\n/);
});

test('a call without a working directory reports where the command ran', async () => {
  assert.match((await run({ command: 'true' })).hint ?? '', /^It ran in \S+; set cwd/);
  assert.equal((await run({ command: 'true', cwd: '/' })).hint, undefined);
});

test('a task status contains the latest output line', async () => {
  const { id } = await run({ command: 'echo compiling 7 of 9; exec sleep 300', waitMs: 0 });
  const tasks = new JobTasks({ operations: app.operations, clock: app.clock });
  const caller = {
    owner: 'me',
    scopes: new Set(['read', 'run'] as const),
    admin: true,
    local: true,
  };
  const context = { caller, signal: new AbortController().signal };
  await until('the line is in the message', async () => {
    const { message = '' } = (await tasks.task(id, context)) ?? {};
    return message === `${id} running (compiling 7 of 9)`;
  });
  await call('cancel_job', { id, graceMs: 0 });
});
