// What was spent: one row per owner, day and action. Added in the same command as the work it pays for.
import type { Step, Store } from '../../../store/store.ts';

export interface Spent {
  calls?: number;
  credits: number;
  pages?: number;
  bytes?: number;
  browserMs?: number;
}

export interface UsageRow {
  day: string;
  action: string;
  calls: number;
  credits: number;
  pages: number;
  bytes: number;
  browserMs: number;
}

export class UsageStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async spend(owner: string, day: string, action: string, spent: Spent): Promise<void> {
    await this.store.commit([spendStep(owner, day, action, spent)]);
  }

  /** Credits since a day, that day included. */
  async creditsSince(owner: string, day: string): Promise<number> {
    const [row] = await this.store.read<{ n: number | string }>(
      'SELECT coalesce(sum(credits), 0) AS n FROM web_usage WHERE owner = ? AND day >= ?',
      [owner, day],
    );
    return Number(row!.n);
  }

  async rows(owner: string, from: string, to: string): Promise<UsageRow[]> {
    return this.store.read<UsageRow>(
      `SELECT day, action, calls, credits, pages, bytes, browser_ms AS "browserMs" FROM web_usage
       WHERE owner = ? AND day >= ? AND day <= ? ORDER BY day, action`,
      [owner, from, to],
    );
  }
}

export function spendStep(owner: string, day: string, action: string, spent: Spent): Step {
  return {
    sql: `INSERT INTO web_usage (owner, day, action, calls, credits, pages, bytes, browser_ms)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (owner, day, action) DO UPDATE SET calls = web_usage.calls + excluded.calls,
            credits = web_usage.credits + excluded.credits, pages = web_usage.pages + excluded.pages,
            bytes = web_usage.bytes + excluded.bytes, browser_ms = web_usage.browser_ms + excluded.browser_ms`,
    params: [
      owner, day, action, spent.calls ?? 0, spent.credits, spent.pages ?? 0, spent.bytes ?? 0,
      Math.round(spent.browserMs ?? 0),
    ], // prettier-ignore
  };
}
