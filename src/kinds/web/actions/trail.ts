// The way of a pipeline or an agent: its steps as they are taken, what each found and cost, and when the money is gone. A
// step, what it found and its price are one command, so a job that is killed goes on behind its last step and pays for none
// of them twice.
import type { Run } from '../../../jobs/kind.ts';
import type { Services } from '../services.ts';
import { insertStep, type StepRow } from '../steps/store.ts';

export interface Step {
  phase: 'search' | 'read' | 'merge';
  detail: string;
  ok: boolean;
  credits: number;
}

/** What a step is known by later, what was kept for it, and what it found. */
interface Taken {
  key: string;
  kept?: number;
  found?: unknown;
  bytes?: number;
}

export class Trail {
  /** Why something was left undone. */
  short: 'credits' | 'budget' | undefined;
  private reserved = 0;
  private readonly run: Run;
  private readonly services: Pick<Services, 'usage' | 'steps'>;
  private readonly max: number;
  private readonly rows: StepRow[];
  /** Steps are written one after the other, each under the next number. */
  private written: Promise<unknown> = Promise.resolve();

  private constructor(
    run: Run,
    services: Pick<Services, 'usage' | 'steps'>,
    max: number,
    rows: StepRow[],
  ) {
    this.run = run;
    this.services = services;
    this.max = max;
    this.rows = rows;
  }

  /** With the steps that were taken before a restart. */
  static async of(run: Run, services: Services, max: number): Promise<Trail> {
    return new Trail(run, services, max, await services.steps.list(run.job.id));
  }

  get steps(): Step[] {
    return this.rows.map(({ step }) => step as Step);
  }

  get credits(): number {
    return this.steps.reduce((sum, { credits }) => sum + credits, 0);
  }

  /** What this step found already. One that failed is taken again only when the job was asked for again. */
  known<T>(key: string): T | undefined {
    const row = this.rows.findLast((one) => one.key === key);
    const isGood = row && ((row.step as Step).ok || row.trial === trialOf(this.run));
    return isGood ? (row.found as T) : undefined;
  }

  /** So much more may be spent, by the job's own limit. */
  affords(credits: number): boolean {
    return this.credits + this.reserved + credits <= this.max;
  }

  /** Keeps credits for a step; `note` spends them or gives them back. */
  async reserve(credits: number): Promise<boolean> {
    if (!this.affords(credits)) {
      this.short ??= 'credits';
      return false;
    }
    this.reserved += credits;
    if (await this.services.usage.hold(this.run.job, credits)) return true;
    this.reserved -= credits;
    this.short = 'budget';
    return false;
  }

  /** A step was taken: what was kept for it is given back, and the step says what it really cost. */
  note(step: Step, taken: Taken): Promise<void> {
    const noted = this.written.then(() => this.write(step, taken));
    this.written = noted.catch(() => {});
    return noted;
  }

  private async write(step: Step, { key, kept = 0, found, bytes = 0 }: Taken): Promise<void> {
    const { run, rows } = this;
    const row = { n: rows.length + 1, key, trial: trialOf(run), step, found };
    const pages = step.phase === 'read' && step.ok ? 1 : 0;
    const spent = { credits: step.credits, pages, bytes, calls: rows.length === 0 ? 1 : 0 };
    const steps = [insertStep(run.job.id, row)];
    const isMine = await this.services.usage.spend(run.job, run.job.action!, spent, {
      kept,
      steps,
    });
    this.reserved -= kept;
    if (!isMine) throw new Error('another server goes on with this job');
    rows.push(row);
    await run.report({
      stage: step.phase,
      progress: { done: rows.length, unit: 'steps', message: step.detail.slice(0, 200) },
      facts: { steps: this.steps },
    });
  }
}

/** Attempts that were lost with their server belong to one trial; a retry begins another. */
const trialOf = ({ job }: Run): number => job.attempt - job.lost;
