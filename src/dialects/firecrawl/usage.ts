// Credits of this and earlier months, and the state of the queue.
import { webUsage } from '../../kinds/web/contracts.ts';
import type { OutputOf } from '../../contract.ts';
import type { Api, Asked } from './route.ts';
import { listJobs, type Status } from '../../contracts/jobs.ts';

type Usage = OutputOf<typeof webUsage>;

const usageOf = ({ call }: Asked, input: { from?: string } = {}): Promise<Usage> =>
  call.operations.call(webUsage, input, call.context);

export const creditUsage: Api = async (asked) => {
  const out = await usageOf(asked);
  const budget = out.budgets.find(({ period }) => period === 'month') ?? out.budgets[0];
  const { startDate, endDate } = monthOf(out.period);
  return {
    success: true,
    data: {
      // Without a budget there is no limit: the largest exact JSON number stands for it.
      remainingCredits: budget?.remaining ?? Number.MAX_SAFE_INTEGER,
      planCredits: budget?.limit ?? Number.MAX_SAFE_INTEGER,
      usedCredits: out.creditsUsed,
      billingPeriodStart: startDate,
      billingPeriodEnd: endDate,
    },
  };
};

/** By month. A caller sees only its own usage, so there is no breakdown by key. */
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

/** Firecrawl bills extractions in tokens. Here they cost credits. */
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

const maxConcurrency = 50;

async function countOf({ call }: Asked, state: Status): Promise<number> {
  const requested = { kind: ['web'], status: [state], limit: 200 };
  const out = await call.operations.call(listJobs, requested, call.context);
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
    maxConcurrency: maxConcurrency,
  };
};

export const concurrency: Api = async (asked) => ({
  success: true,
  concurrency: await countOf(asked, 'running'),
  maxConcurrency: maxConcurrency,
});
