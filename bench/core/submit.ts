// Durable submits at store level, 16 concurrent callers, one job each: ours against BullMQ, pg-boss and graphile-worker.
import { compare, rate } from '../harness.ts';
import { openCore, submitOne } from './ours.ts';
import { bossSubmit, bullSubmit, graphileSubmit } from './peers.ts';

const concurrency = 16;
const fast = { concurrency, count: 8000 };
const slow = { concurrency, count: 1200 };

await compare({
  name: 'durable submit',
  unit: '/s',
  rounds: 5,
  ours: async () => {
    const core = await openCore();
    return {
      name: 'errand',
      operations: fast.count,
      round: () => rate(fast.count, concurrency, () => submitOne(core)),
      close: () => core.store.close(),
    };
  },
  peers: [
    { name: 'BullMQ', bar: { atLeast: 1.3 }, open: () => bullSubmit(fast) },
    { name: 'pg-boss', bar: { atLeast: 8 }, open: () => bossSubmit(slow) },
    { name: 'graphile-worker', bar: { atLeast: 8 }, open: () => graphileSubmit(slow) },
  ],
});
