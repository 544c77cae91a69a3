// Handles worker posts: progress, chunks, results. Late, duplicate and stale posts succeed and change nothing,
// because an error would make the worker drop or repeat its result.
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Job } from '../../../jobs/job.ts';
import { resultLimits } from '../../../runtime/input-limits.ts';
import { parseLenientJson } from '../../../runtime/json.ts';
import type { Endpoints } from '../endpoints.ts';
import type { WorkerRegistry } from '../workers/registry.ts';
import type { Post } from '../relay/outbox.ts';
import type { Results } from './results.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import type { Streams } from '../store/streams.ts';
import type { Worker } from '../workers/worker.ts';

interface ReportsDeps {
  jobs: Jobs;
  registry: WorkerRegistry;
  endpoints: Pick<Endpoints, 'find'>;
  results: Results;
  streams: Streams;
  /** The worker asked to be replaced after this job. */
  retire(worker: Worker, reason: string): void;
  /** A worker of this endpoint delivered a result, so earlier failures no longer count. */
  markWorking(endpointId: string): void;
}

interface WorkerPost {
  endpoint: EndpointRow;
  worker: Worker;
  jobId: string;
  body: Buffer;
  /** The attempt of the post, if the worker reports it. */
  attemptId?: string | undefined;
  /** The number of the chunk, if the worker reports it. */
  n?: number | undefined;
}

const maxProgressChars = 200;

export class Reports {
  private readonly deps: ReportsDeps;

  constructor(deps: ReportsDeps) {
    this.deps = deps;
  }

  /** Handles a post that a relay stored. Its endpoint may be gone. */
  async recover(worker: Worker, { verb, ...post }: Post): Promise<void> {
    const endpoint = await this.deps.endpoints.find(worker.endpointId);
    if (endpoint) await this[verb === 'job-done' ? 'done' : 'chunk']({ endpoint, worker, ...post });
  }

  async done(post: WorkerPost): Promise<boolean> {
    const { registry, results, jobs } = this.deps;
    const { worker, jobId } = post;
    const attemptId = await registry.heldAttempt(worker, jobId);
    if (attemptId && isOther(post, attemptId)) return false;
    if (!attemptId) {
      registry.release(worker, jobId);
      return false;
    }
    const report = results.read(attemptId, post.body);
    if (report.type === 'progress') return this.progress(post, attemptId, report.output);
    const { applied } = await jobs.finish({ jobId, attemptId }, report.outcome);
    registry.release(worker, jobId);
    this.deps.markWorking(worker.endpointId);
    if (report.stopWorker)
      this.deps.retire(worker, 'the worker asked to be replaced after its job');
    return applied;
  }

  async chunk(post: WorkerPost): Promise<boolean> {
    const { registry, streams } = this.deps;
    const { endpoint, worker, jobId } = post;
    const attemptId = await registry.heldAttempt(worker, jobId);
    if (!attemptId || isOther(post, attemptId)) return false;
    const applied = await streams.append({ jobId, attemptId }, chunkOutput(post.body), post.n);
    if (applied) await registry.extend(worker, endpoint, new Map([[jobId, attemptId]]));
    return applied;
  }

  private async progress(
    post: { endpoint: EndpointRow; worker: Worker; jobId: string },
    attemptId: string,
    output: unknown,
  ): Promise<boolean> {
    const { jobs, registry } = this.deps;
    const { endpoint, worker, jobId } = post;
    worker.acknowledged.add(jobId);
    const { applied } = await jobs.applyFact(jobId, {
      type: 'report',
      attemptId,
      stage: 'acknowledged',
      progress: { message: shortText(output) },
      facts: { progressOutput: output },
    });
    if (applied) await registry.extend(worker, endpoint, new Map([[jobId, attemptId]]));
    return applied;
  }
}

/** The post belongs to an earlier attempt than the one the worker holds. */
const isOther = (post: WorkerPost, held: string): boolean =>
  post.attemptId !== undefined && post.attemptId !== held;

/** How long a job waited before its (last) attempt started. */
export function delayMs(job: Job): number | undefined {
  if (job.startedAt === null) return undefined;
  // A manual retry restarts the wait. A job redelivered after a loss still waits since its submission.
  const since = job.attempt > 1 && job.lost === 0 ? job.runAt : job.createdAt;
  return Math.max(job.startedAt - since, 0);
}

function chunkOutput(body: Buffer): unknown {
  const text = body.toString('utf8');
  const value = parsedChunk(text);
  if (value !== null && typeof value === 'object' && 'output' in value) return value.output;
  return value === undefined ? text : value;
}

/** Returns undefined if it is not JSON or exceeds a limit. It is then kept as text. */
function parsedChunk(text: string): unknown {
  try {
    return parseLenientJson(text, resultLimits);
  } catch {
    return undefined;
  }
}

function shortText(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length <= maxProgressChars ? text : `${text.slice(0, maxProgressChars - 1)}…`;
}
