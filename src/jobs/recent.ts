// Jobs that were submitted here and not started yet: starting one need not read it back. Only its version proves that
// what is known still holds, so a change that others made in between shows as a conflict, and the row is read then.
import { decodeJson } from '../runtime/json.ts';
import type { Job } from './job.ts';

const recentMax = 10_000;
const inputCharsMax = 4096;

export class Recent {
  private readonly jobs = new Map<string, { job: Job; input: string }>();

  private wanted = true;

  /** `job` as it was written, its input as the text that was. */
  add(job: Job, input: string): void {
    if (!this.wanted || input.length > inputCharsMax || Object.keys(job.facts).length > 0) return;
    this.jobs.set(job.id, { job: { ...job, input: null }, input });
    if (this.jobs.size <= recentMax) return;
    for (const oldest of this.jobs.keys()) {
      this.jobs.delete(oldest);
      return;
    }
  }

  /** Nobody asks here. */
  stop(): void {
    this.wanted = false;
    this.jobs.clear();
  }

  /** Forgets it, so that whoever asks again gets the row. Of a later attempt nothing is known here. */
  take({ jobId, attemptId }: { jobId: string; attemptId: string }): Job | undefined {
    const known = this.jobs.get(jobId);
    if (!known) return undefined;
    this.jobs.delete(jobId);
    if (known.job.attemptId !== attemptId) return undefined;
    const input = decodeJson(known.input);
    return input && { ...known.job, input: input.value };
  }
}
