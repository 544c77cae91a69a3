// Caches jobs that this process submitted and that have not started, so that starting one needs no read. The cache may be
// stale: the version check of the commit then reports a conflict, and the row is read.
import { decodeJson } from '../runtime/json.ts';
import type { Job } from './job.ts';

const maxRecent = 10_000;
const maxInputChars = 4096;

export class RecentJobs {
  private readonly jobs = new Map<string, { job: Job; input: string }>();

  private enabled = true;

  /** `input` is the stored JSON text of the job's input. */
  add(job: Job, input: string): void {
    if (!this.enabled || input.length > maxInputChars || Object.keys(job.facts).length > 0) return;
    this.jobs.set(job.id, { job: { ...job, input: null }, input });
    if (this.jobs.size <= maxRecent) return;
    for (const oldest of this.jobs.keys()) {
      this.jobs.delete(oldest);
      return;
    }
  }

  /** Disables the cache, for stores that return the row with each candidate. */
  disable(): void {
    this.enabled = false;
    this.jobs.clear();
  }

  /** Removes the job from the cache, so that a second claim reads the row. Later attempts are never cached. */
  take({ jobId, attemptId }: { jobId: string; attemptId: string }): Job | undefined {
    const known = this.jobs.get(jobId);
    if (!known) return undefined;
    this.jobs.delete(jobId);
    if (known.job.attemptId !== attemptId) return undefined;
    const input = decodeJson(known.input);
    return input && { ...known.job, input: input.value };
  }
}
