// What workers post: progress, chunks, results. Late, doubled and stale posts are answered like good ones and change
// nothing: an error would only make the worker drop or repeat what it has.
import type { Jobs } from '../../jobs/jobs.ts';
import type { Job } from '../../jobs/job.ts';
import { resultLimits } from '../../runtime/input-limits.ts';
import { parseLenientJson } from '../../runtime/json.ts';
import type { WorkerHub } from './hub.ts';
import type { Results } from './results.ts';
import type { EndpointRow } from './store.ts';
import type { Streams } from './stream/store.ts';
import type { Worker } from './worker.ts';

export interface ReportsNeeds {
  jobs: Jobs;
  hub: WorkerHub;
  results: Results;
  streams: Streams;
  /** The worker asked to be replaced after this job. */
  retire(worker: Worker, reason: string): void;
  /** A worker of this endpoint brought a result: whatever failed before, they work. */
  proven(endpointId: string): void;
}

const progressCharsMax = 200;

export class Reports {
  private readonly needs: ReportsNeeds;

  constructor(needs: ReportsNeeds) {
    this.needs = needs;
  }

  async done(wish: {
    endpoint: EndpointRow;
    worker: Worker;
    jobId: string;
    body: Buffer;
  }): Promise<boolean> {
    const { hub, results, jobs } = this.needs;
    const { worker, jobId } = wish;
    const attemptId = await hub.held(worker, jobId);
    if (!attemptId) {
      hub.release(worker, jobId);
      return false;
    }
    const report = results.read(attemptId, wish.body);
    if (report.type === 'progress') return this.progress(wish, attemptId, report.output);
    const { applied } = await jobs.finish({ jobId, attemptId }, report.outcome);
    hub.release(worker, jobId);
    this.needs.proven(worker.endpointId);
    if (report.stopWorker) this.needs.retire(worker, 'it asked to be replaced after its job');
    return applied;
  }

  async chunk(wish: {
    endpoint: EndpointRow;
    worker: Worker;
    jobId: string;
    body: Buffer;
    /** Which chunk it is, where the worker says so. */
    n?: number | undefined;
  }): Promise<boolean> {
    const { hub, streams } = this.needs;
    const { endpoint, worker, jobId } = wish;
    const attemptId = await hub.held(worker, jobId);
    if (!attemptId) return false;
    const applied = await streams.append({ jobId, attemptId }, chunkOutput(wish.body), wish.n);
    if (applied) await hub.extend(worker, endpoint, new Map([[jobId, attemptId]]));
    return applied;
  }

  private async progress(
    wish: { endpoint: EndpointRow; worker: Worker; jobId: string },
    attemptId: string,
    output: unknown,
  ): Promise<boolean> {
    const { jobs, hub } = this.needs;
    const { endpoint, worker, jobId } = wish;
    worker.acknowledged.add(jobId);
    const { applied } = await jobs.bring(jobId, {
      type: 'report',
      attemptId,
      stage: 'acknowledged',
      progress: { message: shortText(output) },
      facts: { progressOutput: output },
    });
    if (applied) await hub.extend(worker, endpoint, new Map([[jobId, attemptId]]));
    return applied;
  }
}

/** How long a job waited before its (last) attempt began. */
export function delayMs(job: Job): number | undefined {
  if (job.startedAt === null) return undefined;
  // A retry by hand starts the wait anew; a job handed out again after a loss still waits since its submit.
  const since = job.attempt > 1 && job.lost === 0 ? job.runAt : job.createdAt;
  return Math.max(job.startedAt - since, 0);
}

function chunkOutput(body: Buffer): unknown {
  const text = body.toString('utf8');
  const value = parsedChunk(text);
  if (value !== null && typeof value === 'object' && 'output' in value) return value.output;
  return value === undefined ? text : value;
}

/** Undefined: it is not JSON, or exceeds a limit; it is kept as text then. */
function parsedChunk(text: string): unknown {
  try {
    return parseLenientJson(text, resultLimits);
  } catch {
    return undefined;
  }
}

function shortText(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length <= progressCharsMax ? text : `${text.slice(0, progressCharsMax - 1)}…`;
}
