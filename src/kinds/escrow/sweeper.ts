// Deadlines: jobs that are due are evaluated or concluded as agreed. What happened while no server ran is late, not lost.
// An evaluation waits for other people's servers: it goes on by itself, and nobody's deadline waits for it.
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
  /** Evaluations that run or wait for their turn, by job. */
  private readonly evaluating = new Map<string, Promise<void>>();
  private readonly queue: (() => void)[] = [];
  private active = 0;

  constructor(escrow: Escrow, evaluation: Evaluation, log: Log) {
    this.escrow = escrow;
    this.evaluation = evaluation;
    this.log = log;
  }

  /** Looks once at everything that is due. A job that cannot go on is logged and leaves room for the others. */
  async turn(signal?: AbortSignal, seen = new Set<string>()): Promise<number> {
    const { store, clock } = this.escrow.parts;
    const now = clock.now();
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

  /** Until nothing is due and no evaluation runs any more. */
  async sweep(): Promise<number> {
    const seen = new Set<string>();
    while ((await this.turn(undefined, seen)) > 0 || this.evaluating.size > 0) await this.finish();
    return seen.size;
  }

  /** Waits for the evaluations that were started. */
  async finish(): Promise<void> {
    await Promise.all(this.evaluating.values());
  }

  /** In the client's name, as it asked when it posted the job. What it may not do is told in the log, once. */
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
      work = await this.escrow.extended(due);
      const now = this.escrow.parts.clock.now();
      if (momentOf(work, now) === 'after') {
        await this.escrow.act(work.jobId, { actor: { system: true }, action: 'conclude' });
      } else if (work.state.fundNext !== undefined) {
        await this.fund(work, work.state.fundNext);
      } else if (work.nextAt! > now) {
        // Somebody else has it in hand.
        return;
      } else if (!this.evaluating.has(work.jobId) && (await this.evaluation.take(work))) {
        this.evaluating.set(work.jobId, this.evaluate(work));
      }
    } catch (error) {
      this.tell(work, error);
    }
  }

  private async evaluate(work: Work): Promise<void> {
    const { evaluationsMax } = this.escrow.parts.settings;
    if (this.active < evaluationsMax) this.active += 1;
    else await new Promise<void>((resolve) => this.queue.push(resolve));
    try {
      await this.evaluation.run(work);
    } catch (error) {
      this.tell(work, error);
    } finally {
      const next = this.queue.shift();
      if (next) next();
      else this.active -= 1;
      this.evaluating.delete(work.jobId);
    }
  }

  private tell({ jobId }: Work, error: unknown): void {
    // Somebody else was faster, or the settlement has not answered yet: both are looked at again.
    if (error instanceof AppError && error.code !== 'escrowMismatch') {
      this.log.debug('escrow job was not moved', { jobId, code: error.code });
      return;
    }
    this.log.error('escrow job cannot be moved', { jobId, error });
  }
}
