// Applies deadlines: due jobs are evaluated or closed as agreed. Deadlines that passed while no server ran are applied late.
// Evaluations wait for foreign servers, so they run in the background and delay no deadline.
import type { Log } from '../../runtime/log.ts';
import { AppError, errorKind } from '../../errors.ts';
import type { Escrow } from './escrow.ts';
import type { Evaluation } from './evaluators/evaluation.ts';
import { momentOf, type Work } from './work.ts';

const batch = 100;

export class Sweeper {
  private readonly escrow: Escrow;
  private readonly evaluation: Evaluation;
  private readonly log: Log;
  /** Evaluations that are running or queued, by job. */
  private readonly evaluating = new Map<string, Promise<void>>();
  private readonly queue: (() => void)[] = [];
  private active = 0;

  constructor(escrow: Escrow, evaluation: Evaluation, log: Log) {
    this.escrow = escrow;
    this.evaluation = evaluation;
    this.log = log;
  }

  /** Handles everything that is due once. A job that fails is logged and does not block the others. */
  async turn(signal?: AbortSignal, seen = new Set<string>()): Promise<number> {
    const { store, clock } = this.escrow.deps;
    const now = clock.now();
    await this.evaluation.renew(this.evaluating.keys());
    let last: Work | undefined;
    let handled = 0;
    for (;;) {
      const due = await store.works.dueWork(now, batch, last);
      for (const work of due) {
        const moment = `${work.jobId}@${work.nextAt}`;
        if (signal?.aborted) return handled;
        if (seen.has(moment)) continue;
        seen.add(moment);
        handled += 1;
        await this.handle(work);
      }
      last = due.at(-1);
      if (due.length < batch) break;
    }
    await store.store.commit([store.forgetKeys(now)]);
    return handled;
  }

  /** Repeats until nothing is due and no evaluation is running. */
  async sweep(): Promise<number> {
    const seen = new Set<string>();
    while ((await this.turn(undefined, seen)) > 0 || this.evaluating.size > 0) await this.finish();
    return seen.size;
  }

  /** Waits for the running evaluations. */
  async finish(): Promise<void> {
    await Promise.all(this.evaluating.values());
  }

  /** Funds the job for the client, as requested when it was posted. A refusal is logged once. */
  private async fund(work: Work, expectedBudget: number): Promise<void> {
    const { jobId, client } = work;
    try {
      await this.escrow.act(jobId, { actor: { wallet: client }, action: 'fund', expectedBudget });
    } catch (error) {
      if (!(error instanceof AppError) || errorKind(error.code).retryable) throw error;
      const data = { action: 'fund', code: error.code, message: error.message };
      await this.escrow.note(jobId, (present) => {
        const { fundNext: _, ...state } = present.state;
        const event = { type: 'settlementFailed', data };
        return { work: { ...present, nextAt: present.deadlineAt, state }, event };
      });
    }
  }

  private async handle(due: Work): Promise<void> {
    let work = due;
    try {
      work = await this.escrow.extendDeadline(due);
      const now = this.escrow.deps.clock.now();
      if (momentOf(work, now) === 'after') {
        await this.escrow.act(work.jobId, { actor: { system: true }, action: 'conclude' });
      } else if (work.state.fundNext !== undefined) {
        await this.fund(work, work.state.fundNext);
      } else if (work.nextAt! > now) {
        // Another node holds the lease.
        return;
      } else if (!this.evaluating.has(work.jobId) && (await this.evaluation.take(work))) {
        this.evaluating.set(work.jobId, this.evaluate(work));
      }
    } catch (error) {
      this.logFailure(work, error);
    }
  }

  private async evaluate(work: Work): Promise<void> {
    const { maxEvaluations } = this.escrow.deps.settings;
    if (this.active < maxEvaluations) this.active += 1;
    else await new Promise<void>((resolve) => this.queue.push(resolve));
    try {
      await this.evaluation.run(work);
    } catch (error) {
      this.logFailure(work, error);
    } finally {
      const next = this.queue.shift();
      if (next) next();
      else this.active -= 1;
      this.evaluating.delete(work.jobId);
    }
  }

  private logFailure({ jobId }: Work, error: unknown): void {
    // Another caller was faster, or the settlement has not responded yet: the next turn checks both again.
    if (error instanceof AppError && error.code !== 'escrowMismatch') {
      this.log.debug('escrow job did not move', { jobId, code: error.code });
      return;
    }
    this.log.error('escrow job failed to move', { jobId, error });
  }
}
