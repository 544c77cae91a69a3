// The cost of a claim with a million waiting jobs against a thousand, 16 concurrently. CPU time instead of wall time,
// because the sync of the commit would hide a slow query. The claiming process has not submitted the jobs, as after a
// restart, so both sides read them. Each side is its own process, like a server: the heap that built a million jobs must
// not slow down the claims of both.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { compare, rate, type Side } from '../harness.ts';
import { claimOne, coreOn, openCore, submitMany } from './ours.ts';

const many = Number(process.env.BENCH_MANY ?? 1_000_000);
const few = 1000;
const claims = 1600;
const concurrency = 16;

const waiting = process.argv[2];
if (waiting === undefined) await compareBacklogs();
else await answerRounds(Number(waiting));

async function compareBacklogs(): Promise<void> {
  await compare({
    name: `claim with ${many.toLocaleString('en')} waiting`,
    unit: ' µs CPU',
    rounds: 9,
    ours: () => withBacklog(many),
    peers: [
      {
        name: `${few.toLocaleString('en')} waiting`,
        bar: { atMost: 1.3 },
        open: () => withBacklog(few),
      },
    ],
  });
}

async function withBacklog(count: number): Promise<Side> {
  const side = fork(import.meta.filename, [String(count)]);
  const measureOnce = async (): Promise<number> => {
    const [figure] = (await once(side, 'message')) as [number];
    return figure;
  };
  await measureOnce();
  return {
    name: `${count} waiting`,
    round: () => {
      side.send('round');
      return measureOnce();
    },
    close: async () => {
      const gone = once(side, 'exit');
      side.disconnect();
      await gone;
    },
  };
}

/** One side: reports when its backlog is ready, then responds to every message with the CPU time of a claim. */
async function answerRounds(count: number): Promise<void> {
  const core = await openCore();
  const taker = coreOn(core.store);
  await submitMany(core, count);
  process.on('message', () => void round().then((figure) => process.send!(figure)));
  process.once('disconnect', () => void core.store.close());
  process.send!(0);

  async function round(): Promise<number> {
    await submitMany(core, claims);
    const before = process.cpuUsage();
    await rate(claims, concurrency, () => claimOne(taker));
    const { user, system } = process.cpuUsage(before);
    return (user + system) / claims;
  }
}
