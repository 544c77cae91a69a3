// The system clock, beyond the range of system timers, and the format of times.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isoTime, systemClock } from '../../src/runtime/clock.ts';

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

test('times have the format of Date.toISOString', () => {
  const times = [
    0, 1, 999, 1000, 1_767_225_599_999, 1_767_225_600_000, 1_767_225_600_007, -1,
    253_402_300_800_010,
  ];
  for (const at of times) assert.equal(isoTime(at), new Date(at).toISOString());
  assert.throws(() => isoTime(Number.NaN), RangeError);
  assert.equal(isoTime(5), '1970-01-01T00:00:00.005Z');
});
