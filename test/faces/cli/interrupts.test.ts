// One ctrl-c is one, by however many ways it comes: the terminal tells every process, and npm or an old Node pass it on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutEchoes } from '../../../src/faces/cli/interrupts.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';

test('the same signal by another way is not a second press; a later one and another signal are', () => {
  const clock = new ManualClock();
  const taken: string[] = [];
  const take = withoutEchoes(clock, (signal) => taken.push(signal));
  take('SIGINT');
  clock.jump(20);
  take('SIGINT');
  take('SIGTERM');
  assert.deepEqual(taken, ['SIGINT', 'SIGTERM']);
  take('SIGTERM');
  assert.deepEqual(taken, ['SIGINT', 'SIGTERM', 'SIGTERM'], 'no terminal sends that one');
  clock.jump(400);
  take('SIGINT');
  assert.deepEqual(taken.at(-1), 'SIGINT');
});
