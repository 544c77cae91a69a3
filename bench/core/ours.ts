// Our side of the queue benchmarks: the job core on the embedded store, as the server uses it, writing every ledger row.
import { join } from 'node:path';
import type { Job } from '../../src/jobs/job.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import type { Kind } from '../../src/jobs/kind.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { payload, scratchFolder } from '../harness.ts';

/** The kind of every job in the store benchmarks. */
export const benchKind: Kind = {
  name: 'bench',
  dispatched: true,
  retryable: true,
  cancellable: true,
  capacity: () => 1000,
};

export interface OwnCore {
  jobs: Jobs;
  store: SqliteStore;
}

export async function openCore(): Promise<OwnCore> {
  const store = new SqliteStore(join(scratchFolder(), 'errand.sqlite'));
  await store.migrate(jobMigrations);
  return coreOn(store);
}

/** The job core on an open store. A second one has no cached jobs, as after a restart. */
export function coreOn(store: SqliteStore): OwnCore {
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(benchKind);
  return { jobs, store };
}

export const submitOne = ({ jobs }: OwnCore): Promise<unknown> =>
  jobs.submit({ kind: 'bench', owner: 'bench', input: payload });

export async function submitMany({ jobs }: OwnCore, count: number): Promise<void> {
  const one = { kind: 'bench', owner: 'bench', input: payload };
  for (let left = count; left > 0; left -= 1000) {
    await jobs.submitMany(Array.from({ length: Math.min(left, 1000) }, () => one));
  }
}

/**
 * Claims this many jobs one by one and finishes them with this many workers. Like our runner and BullMQ's worker, it sends
 * the end of a job together with the next claim. Each is a separate durable command.
 */
export async function cycleMany(core: OwnCore, count: number, workers: number): Promise<void> {
  let left = count;
  const worker = async () => {
    let job = left-- > 0 ? await claimOne(core) : undefined;
    while (job) {
      const attempt = { jobId: job.id, attemptId: job.attemptId, known: job };
      const ended = core.jobs.finish(attempt, { type: 'completed', result: { ok: true } });
      job = left-- > 0 ? await claimOne(core) : undefined;
      await ended;
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
}

export async function claimOne({ jobs }: OwnCore): Promise<Job> {
  const [job] = await jobs.claim({
    queues: [{ name: 'bench:default' }],
    limit: 1,
    holder: 'worker',
    node: null,
    leaseMs: 30_000,
  });
  if (!job) throw new Error('nothing was left to claim');
  return job;
}
