// The way of a pipeline or an agent: its steps as they are taken, what each cost, and when the money is gone. What is
// spent is in the ledger with the step, so a job that is killed has paid for what it did and no more.
import type { Run } from '../../../jobs/kind.ts';
import type { Usage } from '../usage/credits.ts';

export interface Step {
  phase: 'search' | 'read' | 'merge';
  detail: string;
  ok: boolean;
  credits: number;
}

export class Trail {
  readonly steps: Step[] = [];
  /** Why something was left undone. */
  short: 'credits' | 'budget' | undefined;
  private spent = 0;
  private reserved = 0;
  private readonly run: Run;
  private readonly usage: Usage;
  private readonly max: number;

  constructor(run: Run, usage: Usage, max: number) {
    this.run = run;
    this.usage = usage;
    this.max = max;
  }

  get credits(): number {
    return this.spent;
  }

  /** So much more may be spent, by the job's own limit. */
  affords(credits: number): boolean {
    return this.spent + this.reserved + credits <= this.max;
  }

  /** Keeps credits for a step; `note` spends them or gives them back. */
  async reserve(credits: number): Promise<boolean> {
    if (!this.affords(credits)) {
      this.short ??= 'credits';
      return false;
    }
    this.reserved += credits;
    if ((await this.usage.left(this.run.job.owner)) >= this.reserved) return true;
    this.reserved -= credits;
    this.short = 'budget';
    return false;
  }

  /** A step was taken: `kept` was reserved for it, the step says what it really cost. */
  async note(step: Step, kept = 0): Promise<void> {
    const first = this.steps.length === 0;
    this.steps.push(step);
    this.reserved -= kept;
    this.spent += step.credits;
    const { owner, action } = this.run.job;
    const pages = step.phase === 'read' && step.ok ? 1 : 0;
    const spent = { credits: step.credits, pages, bytes: 0, calls: first ? 1 : 0 };
    await this.usage.spend(owner, action!, spent);
    await this.run.report({
      stage: step.phase,
      progress: {
        done: this.steps.length,
        unit: 'steps',
        message: step.detail.slice(0, 200),
      },
      facts: { steps: this.steps },
    });
  }
}
