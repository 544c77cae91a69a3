// Forgets ended jobs by age, count and bytes, oldest first, in small pieces. Pinned jobs, kinds that keep their books and
// children of open parents stay.
import type { Clock } from '../runtime/clock.ts';
import type { Step, Value } from '../store/store.ts';
import { deleteJobs } from './changes.ts';
import { counterScope } from './intents.ts';
import { finalStatuses } from './job.ts';
import type { Jobs } from './jobs.ts';

export interface RetentionLimits {
  ageMsMax: number;
  countMax: number;
  bytesMax: number;
}

/** In a cluster every node forgets the jobs whose files it has, and those of nodes that are gone. */
export interface RetentionShare {
  node: string;
  /** A node that was silent for so long is gone: nobody waits for it. */
  goneMs: number;
  /** In the transaction that forgets them: what other nodes have to remove when they are back. */
  steps(ids: readonly string[]): Step[];
  /** Files that are kept elsewhere go, too. */
  forget(ids: readonly string[]): Promise<void>;
}

const batch = 200;
/** A few large ones may be enough: the sum is looked at again after each of these. */
const batchOfBytes = 20;

export class Retention {
  readonly everyMs = 60_000;
  private readonly jobs: Jobs;
  private readonly clock: Clock;
  private readonly limits: RetentionLimits;
  private readonly share: RetentionShare | undefined;

  constructor(jobs: Jobs, clock: Clock, limits: RetentionLimits, share?: RetentionShare) {
    this.jobs = jobs;
    this.clock = clock;
    this.limits = limits;
    this.share = share;
  }

  /** Answers how many jobs were forgotten. */
  async prune(): Promise<number> {
    let forgotten = 0;
    for (;;) {
      const ids = await this.due();
      if (ids.length === 0) return forgotten;
      // Another node was faster: what is left is looked for at the next turn.
      if (!(await this.forget(ids))) return forgotten;
      forgotten += ids.length;
    }
  }

  /** False: somebody else forgot some of them meanwhile, or took one up again. */
  async forget(ids: readonly string[]): Promise<boolean> {
    const kinds = new Map<string, string[]>();
    const jobs = await this.jobs.ledger.findMany(ids);
    if (jobs.length < ids.length) return false;
    for (const job of jobs) {
      kinds.set(job.kind, [...(kinds.get(job.kind) ?? []), job.id]);
    }
    // The kind's files go first: a crash in between leaves a job without files, never files without a job.
    for (const [name, own] of kinds) await this.jobs.findKind(name)?.forget?.(own);
    await this.share?.forget(ids);
    const marks = ids.map(() => '?').join(', ');
    const steps: Step[] = [
      ...(this.share?.steps(ids) ?? []),
      ...deleteJobs(jobs),
      ...keepNewestEvent(marks, ids),
      { sql: `DELETE FROM events WHERE job_id IN (${marks})`, params: [...ids] },
      { sql: `DELETE FROM attempts WHERE job_id IN (${marks})`, params: [...ids] },
      { sql: `DELETE FROM dependencies WHERE job_id IN (${marks})`, params: [...ids] },
      { sql: `DELETE FROM webhooks WHERE job_id IN (${marks})`, params: [...ids] },
    ];
    return (await this.jobs.store.commit(steps)).applied;
  }

  private async due(): Promise<string[]> {
    const oldest = this.clock.now() - this.limits.ageMsMax;
    const aged = await this.candidates('AND finished_at < ?', [oldest], batch);
    if (aged.length > 0) return aged;
    const total = await this.countEnded();
    if (total > this.limits.countMax)
      return this.candidates('', [], Math.min(batch, total - this.limits.countMax));
    if ((await this.bytes()) > this.limits.bytesMax) return this.candidates('', [], batchOfBytes);
    return [];
  }

  /** Of the database, and of the files that ended jobs have here. */
  private async bytes(): Promise<number> {
    const files = this.jobs.listKinds().reduce((sum, kind) => sum + (kind.endedBytes?.() ?? 0), 0);
    return files + (await this.jobs.store.size());
  }

  private async countEnded(): Promise<number> {
    let total = 0;
    for (const queue of await this.jobs.ledger.queues()) {
      const counts = await this.jobs.store.counters(counterScope(queue.kind, queue.name));
      for (const status of finalStatuses) total += counts[status] ?? 0;
    }
    return total;
  }

  private async candidates(more: string, params: Value[], limit: number): Promise<string[]> {
    const kept = this.jobs
      .listKinds()
      .filter((kind) => kind.keeps)
      .map((kind) => kind.name);
    const notKept = kept.length > 0 ? `AND kind NOT IN (${kept.map(() => '?').join(', ')})` : '';
    const share = this.share ? [this.share.node, this.clock.now() - this.share.goneMs] : [];
    const ours = this.share
      ? `AND (j.node IS NULL OR j.node = ? OR NOT EXISTS
           (SELECT 1 FROM nodes n WHERE n.id = j.node AND n.seen_at > ?))`
      : '';
    const rows = await this.jobs.store.read<{ id: string }>(
      `SELECT j.id FROM jobs j WHERE j.finished_at IS NOT NULL AND j.pinned = 0 ${notKept} ${ours} ${more}
         AND NOT EXISTS (SELECT 1 FROM jobs p WHERE p.id = j.parent_id AND p.finished_at IS NULL)
         AND NOT EXISTS (SELECT 1 FROM dependencies d WHERE d.after_id = j.id)
       ORDER BY j.seq LIMIT ?`,
      [...kept, ...share, ...params, limit],
    );
    return rows.map(({ id }) => id);
  }
}

/** The global cursor only grows, and SQLite counts on from the newest event: that one stays, as nobody's. */
function keepNewestEvent(marks: string, ids: readonly string[]): Step[] {
  const newest = '(SELECT max(cursor) FROM events)';
  return [
    {
      sql: `UPDATE events SET job_id = '', n = cursor, type = 'forgotten', data = '{}'
            WHERE cursor = ${newest} AND job_id IN (${marks})`,
      params: [...ids],
    },
    { sql: `DELETE FROM events WHERE job_id = '' AND cursor < ${newest}` },
  ];
}
