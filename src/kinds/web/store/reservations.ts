// Reserves credits for running work, so that concurrent jobs, on one or several servers, never spend the same credit twice.
import type { Step, Store } from '../../../store/store.ts';

interface Reservation {
  jobId: string;
  owner: string;
  credits: number;
}

/** A budget limit and its first day. */
export interface Span {
  limit: number;
  from: string;
}

/** A reservation expires after this time, in case its server dies. Every step renews it. */
const keptMs = 600_000;

const spent = '(SELECT coalesce(sum(credits), 0) FROM web_usage WHERE owner = ? AND day >= ?)';
const reserved = '(SELECT coalesce(sum(credits), 0) FROM web_holds WHERE owner = ? AND until > ?)';

export class ReservationStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** Reserves all credits or none. The transaction itself checks the limits. */
  async reserve(
    { jobId, owner, credits }: Reservation,
    spans: readonly Span[],
    now: number,
  ): Promise<boolean> {
    const fits = spans.map(() => `${spent} + ${reserved} + ? <= ?`).join(' AND ');
    const params = spans.flatMap(({ limit, from }) => [owner, from, owner, now, credits, limit]);
    const { applied } = await this.store.commit([
      {
        sql: `INSERT INTO web_budgets (owner, holds) VALUES (?, 1)
              ON CONFLICT (owner) DO UPDATE SET holds = web_budgets.holds + 1`,
        params: [owner],
      },
      {
        sql: `INSERT INTO web_holds (job_id, owner, credits, until) SELECT ?, ?, ?, ? WHERE ${fits}
              ON CONFLICT (job_id) DO UPDATE SET credits = web_holds.credits + excluded.credits, until = excluded.until`,
        params: [jobId, owner, credits, now + keptMs, ...params],
        expect: 1,
      },
    ]);
    return applied;
  }

  async reserved(owner: string, now: number): Promise<number> {
    const [row] = await this.store.read<{ n: number | string }>(`SELECT ${reserved} AS n`, [
      owner,
      now,
    ]);
    return Number(row!.n);
  }

  async release(jobIds: readonly string[]): Promise<void> {
    const steps = jobIds.map((id) => ({
      sql: 'DELETE FROM web_holds WHERE job_id = ?',
      params: [id],
    }));
    await this.store.commit(steps);
  }
}

/** Releases reserved credits in the transaction that charges them. */
export function releaseStep(jobId: string, credits: number, now: number): Step {
  return {
    sql: `UPDATE web_holds SET credits = CASE WHEN credits > ? THEN credits - ? ELSE 0 END, until = ? WHERE job_id = ?`,
    params: [credits, credits, now + keptMs, jobId],
  };
}
