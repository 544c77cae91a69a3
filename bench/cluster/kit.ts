// Shared by the cluster store benchmarks: a ledger in its own schema, a claim like a worker's, and a backlog.
import { Jobs } from '../../src/jobs/jobs.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import type { Job } from '../../src/jobs/job.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { benchKind } from '../core/ours.ts';
import { payload } from '../harness.ts';

export const rounds = Number(process.env.BENCH_ROUNDS ?? 5);
export const queue = 'bench:default';
export const submission = { kind: 'bench', owner: 'bench', input: payload };

export interface Ledger {
  store: PostgresStore;
  jobs: Jobs;
}

export async function open(url: string, schema: string): Promise<Ledger> {
  const store = await PostgresStore.open(`${url}?schema=${schema}`);
  await store.migrate(jobMigrations);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(benchKind);
  return { store, jobs };
}

export async function claim(jobs: Jobs): Promise<Job | undefined> {
  const [job] = await jobs.claim({
    queues: [{ name: queue }],
    limit: 1,
    holder: 'worker',
    node: null,
    leaseMs: 600_000,
  });
  return job;
}

export const finish = (jobs: Jobs, job: Job): Promise<unknown> =>
  jobs.finish({ jobId: job.id, attemptId: job.attemptId, known: job }, { type: 'completed' });

export async function fill(jobs: Jobs, count: number): Promise<void> {
  const batch = 500;
  for (let left = count; left > 0; left -= batch)
    await jobs.submitMany(Array.from({ length: Math.min(batch, left) }, () => submission));
}
