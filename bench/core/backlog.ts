// The cost of a claim with a million jobs waiting, against the same with a thousand, 16 at once. CPU time, not wall time: the sync
// of the commit would hide a slow query. Whoever claims has not submitted, as after a restart: both sides read the job.
import { compare, rate, type Side } from '../harness.ts';
import { claimOne, coreOn, openCore, submitMany } from './ours.ts';

const claims = 1600;
const concurrency = 16;

async function withBacklog(waiting: number): Promise<Side> {
  const core = await openCore();
  const taker = coreOn(core.store);
  await submitMany(core, waiting);
  return {
    name: `${waiting} waiting`,
    prepare: () => submitMany(core, claims),
    round: async () => {
      const before = process.cpuUsage();
      await rate(claims, concurrency, () => claimOne(taker));
      const { user, system } = process.cpuUsage(before);
      return (user + system) / claims;
    },
    close: () => core.store.close(),
  };
}

await compare({
  name: 'claim with 1,000,000 waiting',
  unit: ' µs CPU',
  rounds: 9,
  ours: () => withBacklog(1_000_000),
  peers: [{ name: '1,000 waiting', bar: { atMost: 1.3 }, open: () => withBacklog(1000) }],
});
