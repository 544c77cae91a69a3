// Records the steps of a pipeline or agent job with their results and prices, and enforces the credit limits. Each step,
// its result and its charge are one transaction, so a killed job continues after its last step and pays for none twice.
import type { Run } from '../../../jobs/kind.ts';
import type { WebDeps } from '../deps.ts';
import { insertStep, type StepRow } from '../store/steps.ts';

export interface Step {
  phase: 'search' | 'read' | 'merge';
  detail: string;
  ok: boolean;
  credits: number;
}

/** Key of a step, the credits reserved for it, and its result. */
interface StepRecord {
  key: string;
  kept?: number;
  found?: unknown;
  bytes?: number;
}

export class StepLog {
  /** The limit that prevented some steps. */
  shortage: 'credits' | 'budget' | undefined;
  private reserved = 0;
  private readonly run: Run;
  private readonly services: Pick<WebDeps, 'usage' | 'steps'>;
  private readonly max: number;
  private readonly rows: StepRow[];
  /** Steps are stored one after another, with consecutive numbers. */
  private written: Promise<unknown> = Promise.resolve();

  private constructor(
    run: Run,
    services: Pick<WebDeps, 'usage' | 'steps'>,
    max: number,
    rows: StepRow[],
  ) {
    this.run = run;
    this.services = services;
    this.max = max;
    this.rows = rows;
  }

  /** Loads the steps that were completed before a restart. */
  static async of(run: Run, services: WebDeps, max: number): Promise<StepLog> {
    return new StepLog(run, services, max, await services.steps.list(run.job.id));
  }

  get steps(): Step[] {
    return this.rows.map(({ step }) => step as Step);
  }

  get credits(): number {
    return this.steps.reduce((sum, { credits }) => sum + credits, 0);
  }

  /** The stored result of a step. A failed step is repeated only when the job was retried explicitly. */
  find<T>(key: string): T | undefined {
    const row = this.rows.findLast((one) => one.key === key);
    const isGood = row && ((row.step as Step).ok || row.trial === trialOf(this.run));
    return isGood ? (row.found as T) : undefined;
  }

  /** Whether the job's own limit allows this many more credits. */
  canAfford(credits: number): boolean {
    return this.credits + this.reserved + credits <= this.max;
  }

  /** Reserves credits for a step. `record` spends or releases them. */
  async reserve(credits: number): Promise<boolean> {
    if (!this.canAfford(credits)) {
      this.shortage ??= 'credits';
      return false;
    }
    this.reserved += credits;
    if (await this.services.usage.reserve(this.run.job, credits)) return true;
    this.reserved -= credits;
    this.shortage = 'budget';
    return false;
  }

  /** Stores a completed step, charges its real price and releases its reservation. */
  record(step: Step, details: StepRecord): Promise<void> {
    const recorded = this.written.then(() => this.write(step, details));
    this.written = recorded.catch(() => {});
    return recorded;
  }

  private async write(step: Step, { key, kept = 0, found, bytes = 0 }: StepRecord): Promise<void> {
    const { run, rows } = this;
    const row = { n: rows.length + 1, key, trial: trialOf(run), step, found };
    const pages = step.phase === 'read' && step.ok ? 1 : 0;
    const spent = { credits: step.credits, pages, bytes, calls: rows.length === 0 ? 1 : 0 };
    const steps = [insertStep(run.job.id, row)];
    const isMine = await this.services.usage.spend(run.job, run.job.action!, spent, {
      reserved: kept,
      steps,
    });
    this.reserved -= kept;
    if (!isMine) throw new Error('another server has taken over this job');
    rows.push(row);
    await run.report({
      stage: step.phase,
      progress: { done: rows.length, unit: 'steps', message: step.detail.slice(0, 200) },
      facts: { steps: this.steps },
    });
  }
}

/** Attempts that were lost with their server belong to the same trial. A retry starts a new one. */
const trialOf = ({ job }: Run): number => job.attempt - job.lost;
