// What was spent: one row per owner, hour and action (older ones: per day). Added in the same command as the work it
// pays for. Hours and days are the beginnings of ISO times, so that the longer sorts after the shorter it begins with.
import type { Step, Store } from '../../../store/store.ts';
import { unholdStep } from '../holds/store.ts';

export interface Spent {
  calls?: number;
  credits: number;
  pages?: number;
  bytes?: number;
  browserMs?: number;
}

const usagePeriods = { day: 10, hour: 13 } as const;
export type UsagePeriod = keyof typeof usagePeriods;

/** `2026-01-31T09`: the hour that spending is written down under. */
const hourOf = (at: number): string => new Date(at).toISOString().slice(0, usagePeriods.hour);

export interface UsageRow {
  /** The day, or the hour where that was asked for. */
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

  async commit(steps: readonly Step[]): Promise<boolean> {
    return (await this.store.commit(steps)).applied;
  }

  /** Credits since a day, that day included. */
  async creditsSince(owner: string, day: string): Promise<number> {
    const [row] = await this.store.read<{ n: number | string }>(
      'SELECT coalesce(sum(credits), 0) AS n FROM web_usage WHERE owner = ? AND day >= ?',
      [owner, day],
    );
    return Number(row!.n);
  }

  /** From a day to a day, both included. */
  async rows(
    owner: string,
    from: string,
    to: string,
    period: UsagePeriod = 'day',
  ): Promise<UsageRow[]> {
    const rows = await this.store.read<Record<keyof UsageRow, string | number>>(
      `SELECT substr(day, 1, ${usagePeriods[period]}) AS day, action, sum(calls) AS calls, sum(credits) AS credits,
         sum(pages) AS pages, sum(bytes) AS bytes, sum(browser_ms) AS "browserMs" FROM web_usage
       WHERE owner = ? AND day >= ? AND day < ? GROUP BY 1, 2 ORDER BY 1, 2`,
      [owner, from, `${to}U`],
    );
    // Sums of one of the databases come as text.
    return rows.map(({ day, action, ...sums }) => ({
      day: String(day),
      action: String(action),
      calls: Number(sums.calls),
      credits: Number(sums.credits),
      pages: Number(sums.pages),
      bytes: Number(sums.bytes),
      browserMs: Number(sums.browserMs),
    }));
  }
}

/** Who pays: a job, for its owner. */
export interface Payer {
  id: string;
  owner: string;
}

/** Spends, and gives back what was kept for it. */
export function chargeSteps(
  { id, owner }: Payer,
  action: string,
  spent: Spent,
  now: number,
  kept = spent.credits,
): Step[] {
  return [spendStep(owner, hourOf(now), action, spent), unholdStep(id, kept, now)];
}

function spendStep(owner: string, hour: string, action: string, spent: Spent): Step {
  return {
    sql: `INSERT INTO web_usage (owner, day, action, calls, credits, pages, bytes, browser_ms)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (owner, day, action) DO UPDATE SET calls = web_usage.calls + excluded.calls,
            credits = web_usage.credits + excluded.credits, pages = web_usage.pages + excluded.pages,
            bytes = web_usage.bytes + excluded.bytes, browser_ms = web_usage.browser_ms + excluded.browser_ms`,
    params: [
      owner, hour, action, spent.calls ?? 0, spent.credits, spent.pages ?? 0, spent.bytes ?? 0,
      Math.round(spent.browserMs ?? 0),
    ], // prettier-ignore
  };
}
