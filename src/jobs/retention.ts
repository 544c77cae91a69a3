// Deletes ended jobs by age, count and bytes, oldest first, in small batches. Keeps pinned jobs, jobs of exempt kinds and
// children of jobs that have not ended.
import type { Clock } from '../runtime/clock.ts';
import type { Step, Value } from '../store/store.ts';
import { deletedEvents, deleteJobs } from './changes.ts';
import { counterScope } from './intents.ts';
import { finalStatuses } from './job.ts';
import type { Jobs } from './jobs.ts';

export interface RetentionLimits {
  maxAgeMs: number;
  maxCount: number;
  maxBytes: number;
}

/** In a cluster, every node deletes the jobs whose files it has, and the jobs of nodes that are gone. */
export interface RetentionShare {
  node: string;
  /** A node that was silent for this long counts as gone. */
  goneMs: number;
  /** Statements for the same transaction: what other nodes must delete when they return. */
  steps(ids: readonly string[]): Step[];
  /** Deletes the files that are stored elsewhere. */
  forget(ids: readonly string[]): Promise<void>;
}

const batch = 200;
/** Few large jobs may be enough, so the total size is checked again after each small batch. */
const bytesBatch = 20;
/** How long the event log says that a job was deleted. */
const keepDeletedMs = 24 * 3_600_000;

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

  /** Returns the number of deleted jobs. */
  async prune(): Promise<number> {
    await this.pruneDeletedEvents();
    let deleted = 0;
    for (;;) {
      const ids = await this.due();
      if (ids.length === 0) return deleted;
      // Another node deleted some of them. The next run continues.
      if (!(await this.forget(ids))) return deleted;
      deleted += ids.length;
    }
  }

  /** Returns false if some of the jobs were deleted or retried in the meantime. */
  async forget(ids: readonly string[]): Promise<boolean> {
    const kinds = new Map<string, string[]>();
    const jobs = await this.jobs.ledger.findMany(ids);
    if (jobs.length < ids.length) return false;
    for (const job of jobs) {
      kinds.set(job.kind, [...(kinds.get(job.kind) ?? []), job.id]);
    }
    // Deletes the files first: a crash in between leaves a job without files, never files without a job.
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
      ...deletedEvents(jobs, this.clock.now()),
    ];
    return (await this.jobs.store.commit(steps)).applied;
  }

  /** Readers that were away for longer load their list again. The newest event stays: see `keepNewestEvent`. */
  private async pruneDeletedEvents(): Promise<void> {
    const oldest = this.clock.now() - keepDeletedMs;
    const where = `type = 'deleted' AND at < ? AND cursor < (SELECT max(cursor) FROM events)`;
    const { store } = this.jobs;
    const [due] = await store.read(`SELECT 1 AS due FROM events WHERE ${where} LIMIT 1`, [oldest]);
    if (due) await store.commit([{ sql: `DELETE FROM events WHERE ${where}`, params: [oldest] }]);
  }

  private async due(): Promise<string[]> {
    const oldest = this.clock.now() - this.limits.maxAgeMs;
    const aged = await this.candidates('AND finished_at < ?', [oldest], batch);
    if (aged.length > 0) return aged;
    const total = await this.countEnded();
    if (total > this.limits.maxCount)
      return this.candidates('', [], Math.min(batch, total - this.limits.maxCount));
    if ((await this.bytes()) > this.limits.maxBytes) return this.candidates('', [], bytesBatch);
    return [];
  }

  /** Size of the database and of the files of ended jobs on this node. */
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
      .filter((kind) => kind.exemptFromRetention)
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

/** SQLite assigns cursors after the newest event, so that event stays as a placeholder and the cursor never goes back. */
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
