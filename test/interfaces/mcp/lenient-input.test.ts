// Values that models send in a wrong form but with one meaning are converted; everything else is left to validation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOutput, runCommand } from '../../../src/contracts/command.ts';
import { cancelJob, listJobs, waitForJobs } from '../../../src/contracts/jobs.ts';
import { lenientInput } from '../../../src/interfaces/mcp/lenient-input.ts';

const id = 'job_abcdaaaaaaaaaaaa';

test('numbers, booleans, lists and objects written as text are converted', () => {
  const given = { command: '1', waitMs: '1500', tags: 'a', env: { PORT: 3000 } };
  assert.deepEqual(lenientInput(runCommand.input, given), {
    command: '1',
    waitMs: 1500,
    tags: ['a'],
    env: { PORT: '3000' },
  });
  const ready = { ready: '{"port": 3000}', argv: '["a", "b"]', env: '{"A": true}' };
  assert.deepEqual(lenientInput(runCommand.input, ready), {
    ready: { port: 3000 },
    argv: ['a', 'b'],
    env: { A: 'true' },
  });
  assert.deepEqual(lenientInput(readOutput.input, { id, raw: 'True' }), { id, raw: true });
  assert.deepEqual(lenientInput(waitForJobs.input, { ids: id }), { ids: [id] });
  assert.deepEqual(lenientInput(listJobs.input, { status: 'running' }), { status: ['running'] });
});

test('values without a clear meaning are left to validation', () => {
  const given = { command: ['ls'], waitMs: '5 s', ready: '{port', stdin: 'yes', nothing: '1' };
  assert.deepEqual(lenientInput(runCommand.input, given), given);
  for (const input of [undefined, [], 'text', { waitMs: '' }])
    assert.deepEqual(lenientInput(runCommand.input, input), input);
});

test('a blank command is rejected, a long grace period is shortened', () => {
  assert.equal(runCommand.input.safeParse({ command: ' \n' }).success, false);
  assert.equal(cancelJob.input.parse({ id, graceMs: 1e9 }).graceMs, 600_000);
});
