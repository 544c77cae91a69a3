// The loop of everything that runs in the background.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock, nextTurn } from '../../src/runtime/clock.ts';
import type { Log } from '../../src/runtime/log.ts';
import { Loop } from '../../src/runtime/service.ts';

test('a loop turns at its pace, at leisure while it is quiet, and at once when woken', async (t) => {
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
  assert.equal(turns(), 7, 'back at its pace');
});

test('a turn that fails is told and the loop goes on; a stop ends it', async (t) => {
  const { clock, loop, turns, set, told } = await started(t);
  set({ fails: true });
  await clock.advance(200);
  assert.deepEqual(told, ['toy failed and goes on']);
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
  const told: string[] = [];
  let count = 0;
  const loop = new Loop({
    name: 'toy',
    everyMs: 200,
    isQuiet: () => now.quiet,
    clock,
    log: { error: (text: string) => void told.push(text) } as unknown as Log,
    run: async () => {
      count += 1;
      if (now.fails) throw new Error('no');
    },
  });
  await loop.start();
  await nextTurn();
  t.after(() => loop.stop());
  const set = (wish: Partial<typeof now>) => void Object.assign(now, wish);
  return { clock, loop, turns: () => count, set, told };
}
