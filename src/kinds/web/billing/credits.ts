// Credit prices and budgets: the price table, charging, reservations and budget checks.
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import type { WebSettings } from '../settings.ts';
import type { ReservationStore, Span } from '../store/reservations.ts';
import {
  chargeSteps,
  type Payer,
  type Spent,
  type UsagePeriod,
  type UsageRow,
  type UsageStore,
} from '../store/usage.ts';

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
  renderedPage: 'added for a page that the browser rendered or captured',
  extractWithModel: 'added when a model was used',
  pipelineExtraction: 'per page with extracted data',
  agentPage: 'per page tried',
};

export interface Budget {
  period: 'day' | 'month';
  limit: number;
  used: number;
  remaining: number;
}

const maxHoldTries = 5;

export class Usage {
  private readonly store: UsageStore;
  private readonly reservations: ReservationStore;
  private readonly clock: Clock;
  private readonly limits: WebSettings['budget'];

  constructor(
    { store, reservations }: { store: UsageStore; reservations: ReservationStore },
    clock: Clock,
    limits: WebSettings['budget'],
  ) {
    this.store = store;
    this.reservations = reservations;
    this.clock = clock;
    this.limits = limits;
  }

  today(): string {
    return new Date(this.clock.now()).toISOString().slice(0, 10);
  }

  /**
   * Charges a job step in one transaction with `steps`, and releases its reservation. Returns false, without any change,
   * if `steps` conflict because the step was already charged.
   */
  async spend(
    payer: Payer,
    action: string,
    spent: Spent,
    { reserved, steps }: { reserved?: number; steps: Step[] },
  ): Promise<boolean> {
    const charge = chargeSteps(payer, action, { ...spent, reserved }, this.clock.now());
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

  /** Credits that are neither spent nor reserved. */
  async left(owner: string): Promise<number> {
    const free = (await this.budgets(owner)).map(({ remaining }) => remaining);
    if (free.length === 0) return Infinity;
    return Math.max(
      0,
      Math.min(...free) - (await this.reservations.reserved(owner, this.clock.now())),
    );
  }

  /** Reserves credits for a job's next step. `spend` releases them. */
  async reserve({ id, owner }: Payer, credits: number): Promise<boolean> {
    const spans = this.spans();
    if (spans.length === 0 || credits === 0) return true;
    return this.reservations.reserve({ jobId: id, owner, credits }, spans, this.clock.now());
  }

  /** Reserves up to this many credits and returns the number. */
  async reserveUpTo(payer: Payer, credits: number): Promise<number> {
    if (this.spans().length === 0) return Infinity;
    for (let tries = 0; tries < maxHoldTries; tries++) {
      const some = Math.min(credits, await this.left(payer.owner));
      if (some === 0 || (await this.reserve(payer, some))) return some;
    }
    return 0;
  }

  /** Releases all reservations of a job, when it ends or starts again. */
  async release(jobId: string): Promise<void> {
    if (this.spans().length > 0) await this.reservations.release([jobId]);
  }

  /** Keeps the spending of deleted jobs without their ids. */
  async forget(jobIds: readonly string[]): Promise<void> {
    await this.store.forget(jobIds);
  }

  /** Throws if the budget does not cover these credits. */
  async require(owner: string, credits: number): Promise<void> {
    if (credits > 0 && (await this.left(owner)) < credits)
      throw await this.exhausted(owner, credits);
  }

  async exhausted(owner: string, credits: number): Promise<AppError> {
    const budgets = await this.budgets(owner);
    const [short] = budgets.toSorted((a, b) => a.remaining - b.remaining);
    const { remaining, limit, period } = short!;
    const reserved = await this.reservations.reserved(owner, this.clock.now());
    const busy = reserved > 0 ? `, ${reserved} of them reserved for running jobs` : '';
    return new AppError(
      'budgetExhausted',
      `This needs ${credits} credits; ${remaining} of ${limit} are left this ${period}${busy}.`,
      {
        hint: 'Call web_usage to see what was spent. Change the limits with web.budget.creditsPerDay and creditsPerMonth in config.json.',
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
