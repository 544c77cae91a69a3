// Reports a crawl's progress to its job: at intervals, and whenever the stage changes.
import type { Run } from '../../../jobs/kind.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { isUnavailable } from './write/retry-writes.ts';

export const reportEveryMs = 1000;

export class Progress {
  private readonly run: Run;
  private readonly clock: Clock;
  private reportedAt = 0;

  constructor(run: Run, clock: Clock) {
    this.run = run;
    this.clock = clock;
  }

  get isDue(): boolean {
    return this.clock.now() - this.reportedAt >= reportEveryMs;
  }

  async pages(stage: string, count: { done: number; queued: number; max: number }): Promise<void> {
    this.reportedAt = this.clock.now();
    const { done, queued, max } = count;
    const total = Math.min(max, done + queued);
    const message = `${queued} URLs queued`;
    try {
      await this.run.report({ stage, progress: { done, total, unit: 'pages', message } });
    } catch (error) {
      // Progress can be reported later. A full disk must not end the crawl.
      if (!isUnavailable(error)) throw error;
    }
  }
}
