// The one credit table: what everything costs, printed by web_usage, charged by the actions, checked before they start.
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import type { WebSettings } from '../settings.ts';
import type { HoldStore, Span } from '../holds/store.ts';
import {
  chargeSteps,
  type Payer,
  type Spent,
  type UsagePeriod,
  type UsageRow,
  type UsageStore,
} from './store.ts';

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

const holdTriesMax = 5;

export class Usage {
  private readonly store: UsageStore;
  private readonly holds: HoldStore;
  private readonly clock: Clock;
  private readonly limits: WebSettings['budget'];

  constructor(
    { store, holds }: { store: UsageStore; holds: HoldStore },
    clock: Clock,
    limits: WebSettings['budget'],
  ) {
    this.store = store;
    this.holds = holds;
    this.clock = clock;
    this.limits = limits;
  }

  today(): string {
    return new Date(this.clock.now()).toISOString().slice(0, 10);
  }

  /**
   * Writes down what a step of a job cost, with whatever else must be true at the same time; what was kept for it is
   * given back. False: the rest found that it was written already, and nothing happened.
   */
  async spend(
    payer: Payer,
    action: string,
    spent: Spent,
    { kept, steps }: { kept?: number; steps: Step[] },
  ): Promise<boolean> {
    const charge = chargeSteps(payer, action, spent, this.clock.now(), kept);
    return this.store.commit([...steps, ...charge]);
  }

  async budgets(owner: string): Promise<Budget[]> {
    const budgets: Budget[] = [];
    for (const { period, limit, from } of this.spans()) {
      const used = await this.store.creditsSince(owner, from);
      budgets.push({ period, limit, used, remaining: Math.max(0, limit - used) });
    }
    return budgets;
  }

  /** Neither spent nor kept for work under way. */
  async left(owner: string): Promise<number> {
    const free = (await this.budgets(owner)).map(({ remaining }) => remaining);
    if (free.length === 0) return Infinity;
    return Math.max(0, Math.min(...free) - (await this.holds.kept(owner, this.clock.now())));
  }

  /** Keeps credits for a job's next step; `spend` gives back what it did not need. */
  async hold({ id, owner }: Payer, credits: number): Promise<boolean> {
    const spans = this.spans();
    if (spans.length === 0 || credits === 0) return true;
    return this.holds.take({ jobId: id, owner, credits }, spans, this.clock.now());
  }

  /** As many of them as there are; how many. */
  async holdSome(payer: Payer, credits: number): Promise<number> {
    if (this.spans().length === 0) return Infinity;
    for (let tries = 0; tries < holdTriesMax; tries++) {
      const some = Math.min(credits, await this.left(payer.owner));
      if (some === 0 || (await this.hold(payer, some))) return some;
    }
    return 0;
  }

  /** The job is over, or begins anew. */
  async release(jobId: string): Promise<void> {
    if (this.spans().length > 0) await this.holds.release([jobId]);
  }

  /** Refuses before anything is done that could not be paid for. */
  async require(owner: string, credits: number): Promise<void> {
    if (credits > 0 && (await this.left(owner)) < credits)
      throw await this.exhausted(owner, credits);
  }

  async exhausted(owner: string, credits: number): Promise<AppError> {
    const budgets = await this.budgets(owner);
    const [short] = budgets.toSorted((a, b) => a.remaining - b.remaining);
    const { remaining, limit, period } = short!;
    const kept = await this.holds.kept(owner, this.clock.now());
    const busy = kept > 0 ? `, ${kept} of them kept for jobs that run` : '';
    return new AppError(
      'budgetExhausted',
      `This needs ${credits} credits; ${remaining} of ${limit} are left this ${period}${busy}.`,
      {
        hint: 'web_usage shows what was spent. The limits are web.budget.creditsPerDay and creditsPerMonth in config.json.',
        data: { ...short },
      },
    );
  }

  private spans(): (Span & { period: Budget['period'] })[] {
    const { creditsPerDay, creditsPerMonth } = this.limits;
    const today = this.today();
    const all = [
      { period: 'day', limit: creditsPerDay, from: today },
      { period: 'month', limit: creditsPerMonth, from: `${today.slice(0, 7)}-01` },
    ] as const;
    return all.flatMap(({ limit, ...span }) => (limit === undefined ? [] : [{ ...span, limit }]));
  }

  async month(owner: string): Promise<{ period: string; credits: number }> {
    const period = this.today().slice(0, 7);
    return { period, credits: await this.store.creditsSince(owner, `${period}-01`) };
  }

  async rows(owner: string, from: string, to: string, period?: UsagePeriod): Promise<UsageRow[]> {
    return this.store.rows(owner, from, to, period);
  }
}
