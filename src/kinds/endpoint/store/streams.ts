// Chunks of streaming handlers: numbered, in the ledger, with the job's events. RunPod's /stream returns each chunk
// once; other readers can read them by number any number of times.
import type { Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import { decodeJsonOr } from '../../../runtime/json.ts';
import type { Step, Store } from '../../../store/store.ts';

const tablesOfJobs = [
  'endpoint_chunks',
  'endpoint_drains',
  'endpoint_remote_jobs',
  'endpoint_retries',
];

export class Streams {
  private readonly store: Store;
  private readonly jobs: Jobs;

  constructor(store: Store, jobs: Jobs) {
    this.store = store;
    this.jobs = jobs;
  }

  /** Fenced: a chunk of an ended attempt and a duplicate chunk change nothing. */
  async append(
    attempt: { jobId: string; attemptId: string },
    output: unknown,
    /** Its number, if the worker reports it. */
    number?: number,
  ): Promise<boolean> {
    let applied = false;
    await this.jobs.change(attempt.jobId, (job) => {
      applied = job.attemptId === attempt.attemptId && job.status === 'running';
      if (!applied) return undefined;
      const n = ((job.facts.chunks as number | undefined) ?? 0) + 1;
      if (number !== undefined && number < n) return undefined;
      return {
        patch: { facts: { ...job.facts, chunks: n } },
        events: [{ type: 'chunk', data: { n } }],
        intents: [],
        steps: [
          {
            sql: 'INSERT INTO endpoint_chunks (job_id, attempt, n, data) VALUES (?, ?, ?, ?)',
            params: [job.id, job.attempt, n, JSON.stringify(output ?? null)],
          },
        ],
      };
    });
    return applied;
  }

  async read(job: Job, after: number, limit: number): Promise<{ n: number; output: unknown }[]> {
    const rows = await this.store.read<{ n: number; data: string }>(
      `SELECT n, data FROM endpoint_chunks WHERE job_id = ? AND attempt = ? AND n > ?
       ORDER BY n LIMIT ?`,
      [job.id, job.attempt, after, limit],
    );
    return rows.map(({ n, data }) => ({ n, output: decodeJsonOr<unknown>(data, data) }));
  }

  /**
   * Returns every chunk once, even to concurrent callers. Stays below `maxBytes`, except for a larger first chunk
   * unless `strict` is set.
   */
  async drain(job: Job, limit: number, maxBytes = Infinity, strict = false): Promise<Drained> {
    for (;;) {
      const [row] = await this.store.read<{ attempt: number; drained: number }>(
        'SELECT attempt, drained FROM endpoint_drains WHERE job_id = ?',
        [job.id],
      );
      const drained = row && row.attempt === job.attempt ? row.drained : 0;
      const there = await this.read(job, drained, limit);
      if (there.length === 0) return { chunks: [], bytes: 0, more: false };
      const { count, bytes } = within(there, maxBytes, strict);
      if (count === 0) return { chunks: [], bytes: 0, more: true };
      const step = drainStep(job, row, there[count - 1]!.n);
      const chunks = there.slice(0, count).map(({ output }) => output);
      if ((await this.store.commit([step])).applied)
        return { chunks, bytes, more: count < there.length };
    }
  }
}

interface Drained {
  chunks: unknown[];
  bytes: number;
  /** More chunks exist than `maxBytes` allowed. */
  more: boolean;
}

/** Size of the JSON around a chunk in a response. */
const aroundBytes = 64;

function within(chunks: readonly { output: unknown }[], maxBytes: number, strict: boolean) {
  if (maxBytes === Infinity) return { count: chunks.length, bytes: 0 };
  let count = 0;
  let bytes = 0;
  for (const { output } of chunks) {
    const size = Buffer.byteLength(JSON.stringify(output)) + aroundBytes;
    if ((strict || count > 0) && bytes + size > maxBytes) break;
    bytes += size;
    count += 1;
  }
  return { count, bytes };
}

/** Deletes further data of jobs from the tables of this kind. */
export function forgetSteps(jobIds: readonly string[]): Step[] {
  const marks = jobIds.map(() => '?').join(', ');
  return tablesOfJobs.map((table) => ({
    sql: `DELETE FROM ${table} WHERE job_id IN (${marks})`,
    params: [...jobIds],
  }));
}

function drainStep(
  job: Job,
  row: { attempt: number; drained: number } | undefined,
  to: number,
): Step {
  if (!row) {
    return {
      sql: `INSERT INTO endpoint_drains (job_id, attempt, drained) VALUES (?, ?, ?)
            ON CONFLICT DO NOTHING`,
      params: [job.id, job.attempt, to],
      expect: 1,
    };
  }
  return {
    sql: `UPDATE endpoint_drains SET attempt = ?, drained = ?
          WHERE job_id = ? AND attempt = ? AND drained = ?`,
    params: [job.attempt, to, job.id, row.attempt, row.drained],
    expect: 1,
  };
}
