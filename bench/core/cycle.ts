// Claim and finish of no-op jobs by 16 workers with one job each: ours against BullMQ, pg-boss and graphile-worker.
import { compare, timed } from '../harness.ts';
import { cycleMany, openCore, submitMany } from './ours.ts';
import { bossCycle, bullCycle, graphileCycle } from './peers.ts';

const concurrency = 16;
const fast = { concurrency, count: 5000 };
const slow = { concurrency, count: 1000 };

await compare({
  name: 'claim + finish',
  unit: '/s',
  rounds: 5,
  ours: async () => {
    const core = await openCore();
    return {
      name: 'errand',
      operations: fast.count,
      prepare: () => submitMany(core, fast.count),
      round: () => timed(fast.count, () => cycleMany(core, fast.count, concurrency)),
      close: () => core.store.close(),
    };
  },
  peers: [
    { name: 'BullMQ', bar: { atLeast: 2 }, open: () => bullCycle(fast) },
    { name: 'pg-boss', bar: { atLeast: 5 }, open: () => bossCycle(slow) },
    { name: 'graphile-worker', bar: 'none', open: () => graphileCycle(slow) },
  ],
});
