// The system clock, beyond the range of system timers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';

const day = 86_400_000;

test('a wait longer than 2^31 ms ends on time', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const fired: string[] = [];
  systemClock.after(30 * day, () => fired.push('after'));
  systemClock.after(30 * day, () => fired.push('taken back'))();
  const taken = systemClock.after(40 * day, () => fired.push('taken back late'));
  t.mock.timers.tick(29 * day);
  assert.deepEqual(fired, []);
  taken();
  t.mock.timers.tick(12 * day);
  assert.deepEqual(fired, ['after']);
});
