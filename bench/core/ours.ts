// Our side of the queue benchmarks: the job core on the embedded store, as the server uses it, every ledger row written.
import { join } from 'node:path';
import type { Job } from '../../src/jobs/job.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import type { Kind } from '../../src/jobs/kind.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { z } from '../../src/operation.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import { payload, scratchFolder } from '../harness.ts';

const kind: Kind = {
  name: 'bench',
  input: z.unknown(),
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
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(kind);
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

/** One claim of one job and its end: two durable transactions, as a worker makes them. */
export async function cycleOne(core: OwnCore): Promise<void> {
  const job = await claimOne(core);
  const attempt = { jobId: job.id, attemptId: job.attemptId, known: job };
  await core.jobs.finish(attempt, { type: 'completed', result: { ok: true } });
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
