// What was spent and what is under way: credits of this month and of those before, the queue.
import type { Api, Asked } from './index.ts';

interface Usage {
  period: string;
  creditsUsed: number;
  budgets: { limit: number; remaining: number; period: string }[];
  rows: { day: string; credits: number }[];
}

const usageOf = ({ call }: Asked, input: { from?: string } = {}): Promise<Usage> =>
  call.operations.call<Usage>('web_usage', input, call.context);

export const creditUsage: Api = async (asked) => {
  const out = await usageOf(asked);
  const budget = out.budgets.find(({ period }) => period === 'month') ?? out.budgets[0];
  const { startDate, endDate } = monthOf(out.period);
  return {
    success: true,
    data: {
      // Without a budget nothing limits: the largest number that JSON keeps exactly says so.
      remainingCredits: budget?.remaining ?? Number.MAX_SAFE_INTEGER,
      planCredits: budget?.limit ?? Number.MAX_SAFE_INTEGER,
      usedCredits: out.creditsUsed,
      billingPeriodStart: startDate,
      billingPeriodEnd: endDate,
    },
  };
};

/** By month; the caller sees what its own key spent, so there is nothing to part by key. */
export const creditHistory: Api = async (asked) => {
  const { rows } = await usageOf(asked, { from: '2020-01-01' });
  const months = new Map<string, number>();
  for (const { day, credits } of rows) {
    const month = day.slice(0, 7);
    months.set(month, (months.get(month) ?? 0) + credits);
  }
  const sorted = [...months].toSorted(([one], [other]) => one.localeCompare(other));
  const periods = sorted.map(([month, totalCredits]) => ({
    ...monthOf(month),
    totalCredits,
    creditsUsed: totalCredits,
  }));
  return { success: true, periods };
};

/** Tokens are what extractions were paid with; here they cost credits like everything. */
export const tokenUsage: Api = async (asked) => {
  const { data } = (await creditUsage(asked)) as { data: Record<string, unknown> };
  const { remainingCredits, planCredits, billingPeriodStart, billingPeriodEnd } = data;
  return {
    success: true,
    data: {
      remainingTokens: remainingCredits,
      planTokens: planCredits,
      billingPeriodStart,
      billingPeriodEnd,
    },
  };
};

export const tokenHistory: Api = async (asked) => {
  const { periods } = (await creditHistory(asked)) as { periods: Record<string, unknown>[] };
  return {
    success: true,
    periods: periods.map(({ startDate, endDate, totalCredits }) => ({
      startDate,
      endDate,
      totalTokens: totalCredits,
      tokensUsed: totalCredits,
    })),
  };
};

function monthOf(month: string): { startDate: string; endDate: string } {
  const start = new Date(`${month}-01T00:00:00Z`);
  const end = new Date(Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 1));
  return { startDate: start.toISOString(), endDate: end.toISOString() };
}

const concurrencyMax = 50;

async function countOf({ call }: Asked, state: string): Promise<number> {
  const wish = { kind: ['web'], status: [state], limit: 200 };
  const out = await call.operations.call<{ jobs: unknown[] }>('list_jobs', wish, call.context);
  return out.jobs.length;
}

export const queueStatus: Api = async (asked) => {
  const running = await countOf(asked, 'running');
  const queued = await countOf(asked, 'queued');
  return {
    success: true,
    jobsInQueue: running + queued,
    activeJobsInQueue: running,
    waitingJobsInQueue: queued,
    maxConcurrency: concurrencyMax,
  };
};

export const concurrency: Api = async (asked) => ({
  success: true,
  concurrency: await countOf(asked, 'running'),
  maxConcurrency: concurrencyMax,
});
