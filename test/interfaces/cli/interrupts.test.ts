// One ctrl-c counts once even if it arrives several times: the terminal, npm and bin/errand.js all send it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutDuplicates } from '../../../src/interfaces/cli/interrupts.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';

test('a duplicate signal is ignored; a later one and a different signal are not', () => {
  const clock = new ManualClock();
  const handled: string[] = [];
  const handle = withoutDuplicates(clock, (signal) => handled.push(signal));
  handle('SIGINT');
  clock.jump(20);
  handle('SIGINT');
  handle('SIGTERM');
  assert.deepEqual(handled, ['SIGINT', 'SIGTERM']);
  handle('SIGTERM');
  assert.deepEqual(
    handled,
    ['SIGINT', 'SIGTERM', 'SIGTERM'],
    'terminals do not send SIGTERM, so it is never a duplicate',
  );
  clock.jump(400);
  handle('SIGINT');
  assert.deepEqual(handled.at(-1), 'SIGINT');
});
