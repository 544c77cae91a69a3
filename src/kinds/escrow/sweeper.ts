// Deadlines: jobs that are due are evaluated or concluded as agreed. What happened while no server ran is late, not lost.
import type { Log } from '../../runtime/log.ts';
import { AppError, errorKind } from '../../errors.ts';
import type { Escrow } from './escrow.ts';
import type { Evaluation } from './evaluators/evaluation.ts';
import type { Work } from './work.ts';

const batch = 100;

export class Sweeper {
  private readonly escrow: Escrow;
  private readonly evaluation: Evaluation;
  private readonly log: Log;

  constructor(escrow: Escrow, evaluation: Evaluation, log: Log) {
    this.escrow = escrow;
    this.evaluation = evaluation;
    this.log = log;
  }

  /** Until nothing is due. A job that cannot go on is logged and leaves room for the others. */
  async sweep(signal?: AbortSignal): Promise<number> {
    const { store, clock } = this.escrow.parts;
    const seen = new Set<string>();
    for (;;) {
      const due = await store.works.dueWork(clock.now(), batch);
      const fresh = due.filter(({ jobId, nextAt }) => !seen.has(`${jobId}@${nextAt}`));
      if (fresh.length === 0 || signal?.aborted) break;
      for (const work of fresh) {
        seen.add(`${work.jobId}@${work.nextAt}`);
        await this.handle(work);
      }
    }
    await store.store.commit([store.forgetKeys(clock.now())]);
    return seen.size;
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

  private async handle(work: Work): Promise<void> {
    try {
      const over = work.deadlineAt !== null && work.deadlineAt <= this.escrow.parts.clock.now();
      if (over) {
        await this.escrow.act(work.jobId, { actor: { system: true }, action: 'conclude' });
      } else if (work.state.fundNext !== undefined) {
        await this.fund(work, work.state.fundNext);
      } else {
        await this.evaluation.run(work);
      }
    } catch (error) {
      // Somebody else was faster, or the settlement has not answered yet: both are looked at again.
      if (error instanceof AppError && error.code !== 'escrowMismatch') {
        this.log.debug('escrow job was not moved', { jobId: work.jobId, code: error.code });
        return;
      }
      this.log.error('escrow job cannot be moved', { jobId: work.jobId, error });
    }
  }
}
