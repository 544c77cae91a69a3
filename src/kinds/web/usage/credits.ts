// The one credit table: what everything costs, printed by web_usage, charged by the actions, checked before they start.
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { WebSettings } from '../settings.ts';
import { hourOf, type Spent, type UsagePeriod, type UsageRow, type UsageStore } from './store.ts';

export const creditTable = {
  crawlPage: 1,
  renderedPage: 1,
  map: 1,
  markdown: 1,
  extract: 1,
  extractWithModel: 1,
  screenshot: 1,
  browse: 2,
  search: 1,
  news: 1,
  images: 1,
  searchAi: 2,
  suggest: 0,
  searchCrawled: 0,
  pipelineSearch: 1,
  pipelineExtraction: 1,
  agentSearch: 1,
  agentPage: 1,
  usage: 0,
  jobStatus: 0,
} as const;

export type Charge = keyof typeof creditTable;

export const creditNotes: Partial<Record<Charge, string>> = {
  crawlPage: 'per page fetched or unchanged',
  renderedPage: 'added for a page that the browser rendered or pictured',
  extractWithModel: 'added when a model endpoint was asked',
  pipelineExtraction: 'per page that gave data',
  agentPage: 'per page tried',
};

export interface Budget {
  period: 'day' | 'month';
  limit: number;
  used: number;
  remaining: number;
}

export class Usage {
  private readonly store: UsageStore;
  private readonly clock: Clock;
  private readonly limits: WebSettings['budget'];

  constructor(store: UsageStore, clock: Clock, limits: WebSettings['budget']) {
    this.store = store;
    this.clock = clock;
    this.limits = limits;
  }

  today(): string {
    return new Date(this.clock.now()).toISOString().slice(0, 10);
  }

  async spend(owner: string, action: string, spent: Spent): Promise<void> {
    await this.store.spend(owner, hourOf(this.clock.now()), action, { calls: 1, ...spent });
  }

  async budgets(owner: string): Promise<Budget[]> {
    const { creditsPerDay, creditsPerMonth } = this.limits;
    const today = this.today();
    const budgets: Budget[] = [];
    for (const [period, limit, from] of [
      ['day', creditsPerDay, today],
      ['month', creditsPerMonth, `${today.slice(0, 7)}-01`],
    ] as const) {
      if (limit === undefined) continue;
      const used = await this.store.creditsSince(owner, from);
      budgets.push({ period, limit, used, remaining: Math.max(0, limit - used) });
    }
    return budgets;
  }

  async left(owner: string): Promise<number> {
    return Math.min(Infinity, ...(await this.budgets(owner)).map(({ remaining }) => remaining));
  }

  /** Refuses before anything is done that could not be paid for. */
  async require(owner: string, credits: number): Promise<void> {
    const short = (await this.budgets(owner)).find(({ remaining }) => remaining < credits);
    if (!short) return;
    throw new AppError(
      'budgetExhausted',
      `This needs ${credits} credits; ${short.remaining} of ${short.limit} are left this ${short.period}.`,
      {
        hint: 'web_usage shows what was spent. The limits are web.budget.creditsPerDay and creditsPerMonth in config.json.',
        data: { ...short },
      },
    );
  }

  async month(owner: string): Promise<{ period: string; credits: number }> {
    const period = this.today().slice(0, 7);
    return { period, credits: await this.store.creditsSince(owner, `${period}-01`) };
  }

  async rows(owner: string, from: string, to: string, period?: UsagePeriod): Promise<UsageRow[]> {
    return this.store.rows(owner, from, to, period);
  }
}
