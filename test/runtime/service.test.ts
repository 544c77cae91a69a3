// The loop that background services use.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock, nextTurn } from '../../src/runtime/clock.ts';
import type { Log } from '../../src/runtime/log.ts';
import { Loop } from '../../src/runtime/service.ts';

test('a loop runs at its interval, slower while quiet, and immediately when woken', async (t) => {
  const { clock, loop, turns, set } = await started(t);
  assert.equal(turns(), 1);
  await clock.advance(400);
  assert.equal(turns(), 3);
  set({ quiet: true });
  await clock.advance(200);
  assert.equal(turns(), 4);
  await clock.advance(4999);
  assert.equal(turns(), 4, 'quiet');
  await clock.advance(1);
  assert.equal(turns(), 5);
  set({ quiet: false });
  loop.wake();
  await nextTurn();
  assert.equal(turns(), 6, 'woken');
  await clock.advance(200);
  assert.equal(turns(), 7, 'back at its interval');
});

test('a failed turn is logged and the loop continues; stop ends it', async (t) => {
  const { clock, loop, turns, set, logged } = await started(t);
  set({ fails: true });
  await clock.advance(200);
  assert.deepEqual(logged, ['toy failed and continues']);
  set({ fails: false });
  await clock.advance(200);
  assert.equal(turns(), 3);
  await loop.stop();
  await clock.advance(10_000);
  assert.equal(turns(), 3);
});

async function started(t: TestContext) {
  const clock = new ManualClock();
  const now = { quiet: false, fails: false };
  const logged: string[] = [];
  let count = 0;
  const loop = new Loop({
    name: 'toy',
    everyMs: 200,
    isQuiet: () => now.quiet,
    clock,
    log: { error: (text: string) => void logged.push(text) } as unknown as Log,
    run: async () => {
      count += 1;
      if (now.fails) throw new Error('no');
    },
  });
  await loop.start();
  await nextTurn();
  t.after(() => loop.stop());
  const set = (changes: Partial<typeof now>) => void Object.assign(now, changes);
  return { clock, loop, turns: () => count, set, logged };
}
