// Stores spending per owner, hour and action (older rows: per day), and per job, so that the totals can be recomputed.
// Charges are part of the transaction that stores the paid work. Hours and days are prefixes of ISO times, so they sort
// chronologically.
import type { Step, Store } from '../../../store/store.ts';
import { releaseStep } from './reservations.ts';

export interface Spent {
  calls?: number;
  credits: number;
  pages?: number;
  bytes?: number;
  browserMs?: number;
}

const usagePeriods = { day: 10, hour: 13 } as const;
export type UsagePeriod = keyof typeof usagePeriods;

/** The hour of a charge, such as `2026-01-31T09`. */
const hourOf = (at: number): string => new Date(at).toISOString().slice(0, usagePeriods.hour);

export interface UsageRow {
  /** The day, or the hour if requested. */
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

  /** Keeps the spending of deleted jobs under an empty job id. */
  async forget(jobIds: readonly string[]): Promise<void> {
    const steps = jobIds.flatMap((id) => [
      { sql: foldCharges, params: [id] },
      { sql: 'DELETE FROM web_charges WHERE job_id = ?', params: [id] },
    ]);
    await this.store.commit(steps);
  }

  /** Credits spent since a day, inclusive. */
  async creditsSince(owner: string, day: string): Promise<number> {
    const [row] = await this.store.read<{ n: number | string }>(
      'SELECT coalesce(sum(credits), 0) AS n FROM web_usage WHERE owner = ? AND day >= ?',
      [owner, day],
    );
    return Number(row!.n);
  }

  /** Usage between two days, both inclusive. */
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
    // PostgreSQL returns sums as text.
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

/** The job that pays, and its owner. */
export interface Payer {
  id: string;
  owner: string;
}

/** Statements that charge a job and release its reservation. */
export function chargeSteps(
  { id, owner }: Payer,
  action: string,
  { reserved, ...spent }: Spent & { reserved?: number | undefined },
  now: number,
): Step[] {
  const hour = hourOf(now);
  const numbers = [
    spent.calls ?? 0,
    spent.credits,
    spent.pages ?? 0,
    spent.bytes ?? 0,
    Math.round(spent.browserMs ?? 0),
  ];
  return [
    { sql: addUsage, params: [owner, hour, action, ...numbers] },
    { sql: addCharge, params: [id, owner, hour, action, ...numbers] },
    releaseStep(id, reserved ?? spent.credits, now),
  ];
}

const numberColumns = ['calls', 'credits', 'pages', 'bytes', 'browser_ms'];
const usageColumns = ['owner', 'day', 'action', ...numberColumns].join(', ');
const sumsInto = (table: string): string =>
  numberColumns.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ');

const addUsage = `INSERT INTO web_usage (${usageColumns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (owner, day, action) DO UPDATE SET ${sumsInto('web_usage')}`;
const chargeConflict = `ON CONFLICT (job_id, owner, day, action) DO UPDATE SET ${sumsInto('web_charges')}`;
const addCharge = `INSERT INTO web_charges (job_id, ${usageColumns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
  ${chargeConflict}`;
// Without WHERE, SQLite would parse the conflict clause as part of a join.
const foldCharges = `INSERT INTO web_charges (job_id, ${usageColumns})
  SELECT '', ${usageColumns} FROM web_charges WHERE job_id = ? ${chargeConflict}`;
