// Turns a request into a job: checks the limits of the endpoint, applies its timeouts and RunPod's policy, and builds
// the worker input.
import { AppError } from '../../../errors.ts';
import { finalEvents } from '../../../jobs/attempt-end.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Submission } from '../../../jobs/submission.ts';
import type { Webhooks } from '../../../webhooks/webhooks.ts';
import type { Job, JobError } from '../../../jobs/job.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import type { EndpointRow } from '../store/endpoints.ts';

/** The dialect of this kind defines the body. */
const webhookFormat = 'endpoint';

/** The content of `job.input`. */
export interface JobInput {
  input: unknown;
  webhook?: string;
  s3Config?: unknown;
  /** For a remote, which enforces these limits itself. */
  policy?: { executionTimeout?: number; lowPriority?: boolean };
}

export interface RunRequest {
  input: unknown;
  webhook?: string;
  s3Config?: unknown;
  executionTimeoutMs?: number;
  ttlMs?: number;
  lowPriority?: boolean;
  idempotencyKey?: string;
  name?: string;
  tags?: readonly string[];
  parentId?: string;
  /** Only for batch requests, whose ids are known before they are queued. */
  id?: string;
  /** Only for batch requests that cannot be queued. The job is stored as failed. */
  failed?: JobError;
}

const lowPriority = -10;
const finalEventTypes = [...finalEvents];
const windowMs = 10_000;
const countCacheMs = 1000;

interface JobSubmitterDeps {
  jobs: Jobs;
  clock: Clock;
  webhooks: Pick<Webhooks, 'plan'>;
  /**
   * Returns the key that signs webhooks of the endpoint's jobs, for receivers that know the endpoint but not the
   * webhook.
   */
  secretOf(endpointId: string): string;
}

export class JobSubmitter {
  private readonly jobs: Jobs;
  private readonly clock: Clock;
  private readonly webhooks: Pick<Webhooks, 'plan'>;
  private readonly secretOf: JobSubmitterDeps['secretOf'];
  /** Submissions in the current ten seconds, by endpoint. */
  private readonly windows = new Map<string, { startedAt: number; count: number }>();

  /** Upper bound of waiting jobs: the last count plus all submissions since then. */
  private readonly queueEstimates = new Map<string, { countedAt: number; maxWaiting: number }>();

  constructor(deps: JobSubmitterDeps) {
    this.jobs = deps.jobs;
    this.clock = deps.clock;
    this.webhooks = deps.webhooks;
    this.secretOf = deps.secretOf;
  }

  async submit(
    endpoint: EndpointRow,
    owner: string,
    request: RunRequest,
  ): Promise<{ job: Job; existing: boolean }> {
    await this.admit(endpoint, 1);
    return this.jobs.submit(this.submission(endpoint, owner, request));
  }

  /** Submits all requests or none. */
  async submitMany(
    endpoint: EndpointRow,
    owner: string,
    requests: readonly RunRequest[],
    /** Further steps of the same transaction. */
    steps: () => Step[] = () => [],
  ): Promise<Job[]> {
    const results = await this.jobs.submitMany(
      requests.map((request, i) => ({
        ...this.submission(endpoint, owner, request, i === 0 ? steps : undefined),
      })),
    );
    return results.map(({ job }) => job);
  }

  /** Rejects requests over the endpoint's limits and says when to retry. */
  async admit(endpoint: EndpointRow, count: number): Promise<void> {
    const { runsPer10s, maxQueue } = endpoint.spec;
    if (endpoint.undecodable)
      throw new AppError(
        'wrongState',
        `The stored settings of endpoint ${endpoint.id} cannot be decoded.`,
        {
          hint: 'Save the endpoint again with all its fields, or delete it.',
        },
      );
    this.countRuns(endpoint.id, count, runsPer10s);
    if (await this.hasRoom(endpoint.id, count, maxQueue)) return;
    throw new AppError(
      'limitExceeded',
      `The queue of endpoint ${endpoint.id} is full (${maxQueue} jobs).`,
      {
        hint: 'Wait until some jobs have ended, or raise maxQueue of the endpoint.',
        data: { limit: 'maxQueue', retryAfterMs: 5000 },
      },
    );
  }

  /** Recounts at a limited rate while there is room. A rejection is always based on a fresh count. */
  private async hasRoom(id: string, count: number, max: number): Promise<boolean> {
    const now = this.clock.now();
    let estimate = this.queueEstimates.get(id);
    if (
      !estimate ||
      now - estimate.countedAt >= countCacheMs ||
      estimate.maxWaiting + count > max
    ) {
      const counts = await this.jobs.store.counters(`queue:endpoint:${id}`);
      estimate = { countedAt: now, maxWaiting: counts.queued ?? 0 };
      this.queueEstimates.set(id, estimate);
    }
    if (estimate.maxWaiting + count > max) return false;
    estimate.maxWaiting += count;
    return true;
  }

  private submission(
    endpoint: EndpointRow,
    owner: string,
    request: RunRequest,
    more?: () => Step[],
  ): Submission {
    const { webhook: url } = request;
    if (url === undefined && !more) return submission(endpoint, owner, request);
    const hook = (jobId: string) => {
      if (url === undefined) return [];
      const secret = this.secretOf(endpoint.id);
      const hook = { owner, url, events: finalEventTypes, jobId, format: webhookFormat, secret };
      return this.webhooks.plan(hook).steps;
    };
    return {
      ...submission(endpoint, owner, request),
      steps: (job) => [...hook(job.id), ...(more?.() ?? [])],
    };
  }

  private countRuns(id: string, count: number, max: number): void {
    const now = this.clock.now();
    let window = this.windows.get(id);
    if (!window || now - window.startedAt >= windowMs) {
      window = { startedAt: now, count: 0 };
      this.windows.set(id, window);
    }
    if (window.count + count > max) {
      const retryAfterMs = window.startedAt + windowMs - now;
      throw new AppError(
        'rateLimited',
        `More than ${max} submissions to endpoint ${id} within ten seconds.`,
        {
          hint: `Wait ${retryAfterMs} ms, or raise runsPer10s of the endpoint.`,
          data: { limit: 'runsPer10s', retryAfterMs },
        },
      );
    }
    window.count += count;
  }
}

function submission(endpoint: EndpointRow, owner: string, request: RunRequest): Submission {
  const { spec } = endpoint;
  const { id, name, tags, parentId, idempotencyKey } = request;
  const body: JobInput = {
    input: request.input,
    ...(request.webhook === undefined ? {} : { webhook: request.webhook }),
    ...(request.s3Config === undefined ? {} : { s3Config: request.s3Config }),
    ...(spec.remote ? { policy: remotePolicy(request) } : {}),
  };
  // The remote already has the job, so it is not redelivered here.
  const redeliveries = spec.remote ? 0 : spec.redeliveries;
  return {
    kind: 'endpoint',
    queue: endpoint.id,
    input: body,
    owner,
    ttlMs: request.ttlMs ?? spec.ttlMs,
    ...(spec.remote ? {} : { timeoutMs: request.executionTimeoutMs ?? spec.executionTimeoutMs }),
    retry: { maxAttempts: 1 + redeliveries, maxLost: redeliveries, backoffMs: 0, jitter: 0 },
    ...(request.lowPriority ? { priority: lowPriority } : {}),
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    ...(tags === undefined ? {} : { tags }),
    ...(parentId === undefined ? {} : { parentId }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(request.failed === undefined ? {} : { failed: request.failed }),
  };
}

function remotePolicy(request: RunRequest): NonNullable<JobInput['policy']> {
  return {
    ...(request.executionTimeoutMs === undefined
      ? {}
      : { executionTimeout: request.executionTimeoutMs }),
    ...(request.lowPriority ? { lowPriority: true } : {}),
  };
}

export const isLowPriority = (job: Job): boolean => job.priority < 0;
