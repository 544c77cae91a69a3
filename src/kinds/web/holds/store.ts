// Credits kept for work under way: jobs that run at once, on one server or several, never spend the same last credit.
import type { Step, Store } from '../../../store/store.ts';

export interface Hold {
  jobId: string;
  owner: string;
  credits: number;
}

/** A limit, and the day from which spending counts against it. */
export interface Span {
  limit: number;
  from: string;
}

/** A job that vanished with its server gives back what it kept after this; every step renews it. */
const keptMs = 600_000;

const spent = '(SELECT coalesce(sum(credits), 0) FROM web_usage WHERE owner = ? AND day >= ?)';
const kept = '(SELECT coalesce(sum(credits), 0) FROM web_holds WHERE owner = ? AND until > ?)';

export class HoldStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** All or nothing: whether it fits is decided in the transaction that takes it. */
  async take(
    { jobId, owner, credits }: Hold,
    spans: readonly Span[],
    now: number,
  ): Promise<boolean> {
    const fits = spans.map(() => `${spent} + ${kept} + ? <= ?`).join(' AND ');
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

  async kept(owner: string, now: number): Promise<number> {
    const [row] = await this.store.read<{ n: number | string }>(`SELECT ${kept} AS n`, [
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

/** What was kept for this has been spent or is not needed; in the command that spends it. */
export function unholdStep(jobId: string, credits: number, now: number): Step {
  return {
    sql: `UPDATE web_holds SET credits = CASE WHEN credits > ? THEN credits - ? ELSE 0 END, until = ? WHERE job_id = ?`,
    params: [credits, credits, now + keptMs, jobId],
  };
}
