// What was spent, in SearchClaw's shapes: the month, and the history by period.
import { AppError } from '../../errors.ts';
import { given, run, type Api, type Fields } from './api.ts';

interface UsageOut {
  period: string;
  creditsUsed: number;
  budgets: { period: string; limit: number; remaining: number }[];
  rows: { day: string; action: string; credits: number; calls: number; pages: number }[];
  creditTable: Fields;
}

export const usage: Api = async (call) => {
  const out = await run<UsageOut>(call, 'web_usage', {});
  const month = out.budgets.find(({ period }) => period === 'month') ?? out.budgets[0];
  return {
    plan: 'local',
    billing_period: out.period,
    credits_used: out.creditsUsed,
    credits_limit: month?.limit ?? null,
    credits_remaining: month?.remaining ?? null,
    rate_limit_per_sec: null,
    credit_table: out.creditTable,
  };
};

const periods = ['hour', 'day', 'week', 'month'];

export const usageHistory: Api = async (call, input) => {
  if (!periods.includes(String(input.group_by ?? 'day'))) {
    throw new AppError('invalidInput', `group_by cannot be ${String(input.group_by)}.`, {
      hint: `It is one of ${periods.join(', ')}.`,
    });
  }
  const by = input.group_by === 'hour' ? 'hour' : 'day';
  const out = await run<UsageOut>(call, 'web_usage', given({ from: input.from, to: input.to, by }));
  const rows = out.rows.filter(
    ({ action }) => input.endpoint === undefined || action === input.endpoint,
  );
  const key = (day: string) => periodOf(day, input.group_by);
  const groups = new Map<string, { period: string; credits: number; requests: number }>();
  for (const { day, credits, calls } of rows) {
    const group = groups.get(key(day)) ?? { period: key(day), credits: 0, requests: 0 };
    group.credits += credits;
    group.requests += calls;
    groups.set(key(day), group);
  }
  return { history: [...groups.values()] };
};

/** Weeks begin on Monday; what was written down by the day, by earlier versions, is its first hour. */
function periodOf(day: string, group: unknown): string {
  if (group === 'month') return day.slice(0, 7);
  if (group === 'hour') return `${day.includes('T') ? day : `${day}T00`}:00:00Z`;
  if (group !== 'week') return day;
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, 10);
}

export function historyCsv({ history }: Fields): string {
  const rows = history as { period: string; credits: number; requests: number }[];
  const lines = rows.map(({ period, credits, requests }) => `${period},${credits},${requests}`);
  return `${['period,credits,requests', ...lines].join('\n')}\n`;
}
