// How far a crawl is, told to its job: now and then, and always when its stage changes.
import type { Run } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { isPassing } from './patience.ts';

export const reportEveryMs = 1000;

export class Progress {
  private readonly run: Run;
  private readonly clock: Clock;
  private toldAt = 0;

  constructor(run: Run, clock: Clock) {
    this.run = run;
    this.clock = clock;
  }

  get isDue(): boolean {
    return this.clock.now() - this.toldAt >= reportEveryMs;
  }

  async pages(stage: string, count: { done: number; queued: number; max: number }): Promise<void> {
    this.toldAt = this.clock.now();
    const { done, queued, max } = count;
    const total = Math.min(max, done + queued);
    const message = `${queued} addresses wait`;
    try {
      await this.run.report({ stage, progress: { done, total, unit: 'pages', message } });
    } catch (error) {
      // It can be told later: a disk that is full for now ends no crawl.
      if (!isPassing(error)) throw error;
    }
  }
}
