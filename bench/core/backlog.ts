// The cost of a claim with a million jobs waiting, against the same with a thousand, 16 at once. CPU time, not wall time: the sync
// of the commit would hide a slow query. Whoever claims has not submitted, as after a restart: both sides read the job. Each side
// is a process of its own, as a server is: a heap that once built a million jobs would be counted against the claims of both.
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
  const answer = async (): Promise<number> => {
    const [figure] = (await once(side, 'message')) as [number];
    return figure;
  };
  await answer();
  return {
    name: `${count} waiting`,
    round: () => {
      side.send('round');
      return answer();
    },
    close: async () => {
      const gone = once(side, 'exit');
      side.disconnect();
      await gone;
    },
  };
}

/** One side: says when its backlog is there, then answers every message with the CPU time of a claim. */
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
