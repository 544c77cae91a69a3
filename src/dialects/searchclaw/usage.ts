// Usage in SearchClaw's formats: this month, the headers of every response, and the history.
import { webUsage } from '../../kinds/web/contracts.ts';
import { textOf } from '../../runtime/json.ts';
import { byName } from '../../runtime/by-name.ts';
import type { OutputOf } from '../../contract.ts';
import type { CallRate, DialectCall, DialectRequest } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { systemClock } from '../../runtime/clock.ts';
import { given, run, type Api, type Fields } from './call.ts';

type UsageOut = OutputOf<typeof webUsage>;

export const usage: Api = async (call) => {
  const out = await run(call, webUsage, {});
  const budget = budgetOf(out);
  return {
    plan: 'local',
    billing_period: out.period,
    credits_used: out.creditsUsed,
    credits_limit: budget?.limit ?? null,
    credits_remaining: budget?.remaining ?? null,
    rate_limit_per_sec: null,
    credit_table: out.creditTable,
  };
};

const budgetOf = ({ budgets }: UsageOut) =>
  budgets.find(({ period }) => period === 'month') ?? budgets[0];

/** Usage of the month and the rate limit. Remaining credits are present only if there is a limit. */
export async function usageHeaders(
  { rate }: DialectRequest,
  call: DialectCall,
): Promise<Record<string, string>> {
  return { ...(await creditHeaders(call)), ...(rate ? rateHeaders(rate) : {}) };
}

async function creditHeaders(call: DialectCall): Promise<Record<string, string>> {
  const { scopes } = call.context.caller!;
  if (!scopes.has('read') && !scopes.has('admin')) return {};
  const out = await run(call, webUsage, {});
  const budget = budgetOf(out);
  return {
    'x-credits-used': String(out.creditsUsed),
    ...(budget ? { 'x-credits-remaining': String(budget.remaining) } : {}),
  };
}

function rateHeaders({ perSecond, burst, left }: CallRate): Record<string, string> {
  const full = systemClock.now() / 1000 + (burst - left) / perSecond;
  return {
    'x-ratelimit-limit': String(perSecond),
    'x-ratelimit-remaining': String(left),
    'x-ratelimit-reset': String(Math.ceil(full)),
  };
}

/** Paths of billed calls, by our action names. */
const paths: Record<string, string> = byName({ searchAi: 'search/ai', searchCrawled: 'search' });

const endpointOf = (action: string): string => `/v1/${paths[action] ?? action}`;

/** `search`, `/search` and `/v1/search` mean the same. */
const isOf = (endpoint: unknown) => (action: string) =>
  endpoint === undefined ||
  endpointOf(action) === `/v1/${String(endpoint).replace(/^\/?(?:v1\/)?/, '')}`;

interface Period {
  period: string;
  total_credits: number;
  requests: number;
  by_endpoint: Record<string, { credits: number; requests: number; cached_pct: null }>;
  /** Not recorded. */
  avg_response_ms: null;
}

const choices: Record<string, string[]> = byName({
  group_by: ['hour', 'day', 'week', 'month'],
  format: ['json', 'csv'],
});

/** Before anything could have been spent. */
const firstDay = '2020-01-01';

export const usageHistory: Api = async (call, input) => {
  for (const [name, values] of Object.entries(choices)) {
    if (values.includes(textOf(input[name] ?? values[0]))) continue;
    throw new AppError('invalidInput', `${name} cannot be ${textOf(input[name])}.`, {
      hint: `It is one of ${values.join(', ')}.`,
    });
  }
  const by = input.group_by === 'hour' ? 'hour' : 'day';
  const out = await run(call, webUsage, given({ from: input.from ?? firstDay, to: input.to, by }));
  const isWanted = isOf(input.endpoint);
  const periods = new Map<string, Period>();
  for (const { day, action, credits, calls } of out.rows.filter(({ action: of }) => isWanted(of))) {
    const period = periodOf(day, input.group_by);
    const sum: Period = periods.get(period) ?? { period, total_credits: 0, requests: 0, by_endpoint: {}, avg_response_ms: null }; // prettier-ignore
    const part = (sum.by_endpoint[endpointOf(action)] ??= { credits: 0, requests: 0, cached_pct: null }); // prettier-ignore
    sum.total_credits += credits;
    sum.requests += calls;
    part.credits += credits;
    part.requests += calls;
    periods.set(period, sum);
  }
  const all = [...periods.values()];
  return {
    usage: all,
    total_credits: all.reduce((sum, { total_credits: n }) => sum + n, 0),
    total_requests: all.reduce((sum, { requests: n }) => sum + n, 0),
    period: { from: input.from ?? '', to: input.to ?? '' },
  };
};

/** Weeks begin on Monday; daily rows of earlier versions count as the first hour of their day. */
function periodOf(day: string, group: unknown): string {
  if (group === 'month') return day.slice(0, 7);
  if (group === 'hour') return `${day.includes('T') ? day : `${day}T00`}:00:00Z`;
  if (group !== 'week') return day;
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, 10);
}

export function historyCsv({ usage: all }: Fields): string {
  const lines = (all as Period[]).flatMap(({ period, by_endpoint: parts }) =>
    Object.entries(parts).map(
      ([endpoint, { credits, requests }]) => `${period},${endpoint},${credits},${requests},,`,
    ),
  );
  return `${['date,endpoint,credits,requests,cached_pct,avg_response_ms', ...lines].join('\n')}\n`;
}
