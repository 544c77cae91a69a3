// From a request to a job: the endpoint's limits and times, RunPod's policy over them, and what a worker will be given.
import { AppError } from '../../errors.ts';
import { finalEvents } from '../../jobs/ending.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Submission } from '../../jobs/submission.ts';
import type { Webhooks } from '../../jobs/webhooks.ts';
import type { Job, JobError } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import type { EndpointRow } from './store.ts';

/** What `job.input` of an endpoint job holds. */
export interface JobInput {
  input: unknown;
  webhook?: string;
  s3Config?: unknown;
  /** For a remote, which keeps the times itself. */
  policy?: { executionTimeout?: number; lowPriority?: boolean };
}

export interface RunWish {
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
  /** Only for requests of a batch, whose ids are known before they are queued. */
  id?: string;
  /** Only for requests of a batch that cannot be queued: the job is stored as failed. */
  failed?: JobError;
}

const lowPriority = -10;
const overEvents = [...finalEvents];
const windowMs = 10_000;
const countedMs = 1000;

export interface IntakeNeeds {
  jobs: Jobs;
  clock: Clock;
  webhooks: Pick<Webhooks, 'plan'>;
  /** What the webhooks of an endpoint's jobs are signed with, for receivers that know the endpoint and no webhook. */
  secretOf(endpointId: string): string;
}

export class Intake {
  private readonly jobs: Jobs;
  private readonly clock: Clock;
  private readonly webhooks: Pick<Webhooks, 'plan'>;
  private readonly secretOf: IntakeNeeds['secretOf'];
  /** Submits of the present ten seconds by endpoint. */
  private readonly windows = new Map<string, { startedAt: number; count: number }>();

  /** How many may wait at most: those that waited when it was counted, and all submitted since. */
  private readonly rooms = new Map<string, { countedAt: number; queuedMax: number }>();

  constructor(needs: IntakeNeeds) {
    this.jobs = needs.jobs;
    this.clock = needs.clock;
    this.webhooks = needs.webhooks;
    this.secretOf = needs.secretOf;
  }

  async submit(
    endpoint: EndpointRow,
    owner: string,
    wish: RunWish,
  ): Promise<{ job: Job; existing: boolean }> {
    await this.admit(endpoint, 1);
    return this.jobs.submit(this.submission(endpoint, owner, wish));
  }

  /** All or none. */
  async submitMany(
    endpoint: EndpointRow,
    owner: string,
    wishes: readonly RunWish[],
    /** What else happens in the same transaction. */
    steps: () => Step[] = () => [],
  ): Promise<Job[]> {
    const answers = await this.jobs.submitMany(
      wishes.map((wish, i) => ({
        ...this.submission(endpoint, owner, wish, i === 0 ? steps : undefined),
      })),
    );
    return answers.map(({ job }) => job);
  }

  /** Refuses what is over the endpoint's own limits, and says when to come again. */
  async admit(endpoint: EndpointRow, count: number): Promise<void> {
    const { runsPer10s, queueMax } = endpoint.spec;
    if (endpoint.undecodable)
      throw new AppError('wrongState', `The stored endpoint ${endpoint.id} cannot be decoded.`, {
        hint: 'Save it again with all its fields, or delete it.',
      });
    this.countRuns(endpoint.id, count, runsPer10s);
    if (await this.hasRoom(endpoint.id, count, queueMax)) return;
    throw new AppError('limitExceeded', `The queue of ${endpoint.id} is full (${queueMax}).`, {
      hint: 'Wait until some jobs have run, or raise queueMax of the endpoint.',
      data: { limit: 'queueMax', retryAfterMs: 5000 },
    });
  }

  /** Counts anew only now and then while there is room; a refusal always rests on a fresh count. */
  private async hasRoom(id: string, count: number, max: number): Promise<boolean> {
    const now = this.clock.now();
    let room = this.rooms.get(id);
    if (!room || now - room.countedAt >= countedMs || room.queuedMax + count > max) {
      const counts = await this.jobs.store.counters(`queue:endpoint:${id}`);
      room = { countedAt: now, queuedMax: counts.queued ?? 0 };
      this.rooms.set(id, room);
    }
    if (room.queuedMax + count > max) return false;
    room.queuedMax += count;
    return true;
  }

  private submission(
    endpoint: EndpointRow,
    owner: string,
    wish: RunWish,
    more?: () => Step[],
  ): Submission {
    const { webhook: url } = wish;
    if (url === undefined && !more) return submission(endpoint, owner, wish);
    const hook = (jobId: string) => {
      if (url === undefined) return [];
      const secret = this.secretOf(endpoint.id);
      const hook = { owner, url, events: overEvents, jobId, format: 'runpod', secret };
      return this.webhooks.plan(hook).steps;
    };
    return {
      ...submission(endpoint, owner, wish),
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
      throw new AppError('rateLimited', `More than ${max} submits to ${id} in ten seconds.`, {
        hint: `Wait ${retryAfterMs} ms, or raise runsPer10s of the endpoint.`,
        data: { limit: 'runsPer10s', retryAfterMs },
      });
    }
    window.count += count;
  }
}

function submission(endpoint: EndpointRow, owner: string, wish: RunWish): Submission {
  const { spec } = endpoint;
  const { id, name, tags, parentId, idempotencyKey } = wish;
  const body: JobInput = {
    input: wish.input,
    ...(wish.webhook === undefined ? {} : { webhook: wish.webhook }),
    ...(wish.s3Config === undefined ? {} : { s3Config: wish.s3Config }),
    ...(spec.remote ? { policy: remotePolicy(wish) } : {}),
  };
  // A remote job is not handed out again here: the remote has it.
  const redeliveries = spec.remote ? 0 : spec.redeliveries;
  return {
    kind: 'endpoint',
    queue: endpoint.id,
    input: body,
    owner,
    ttlMs: wish.ttlMs ?? spec.ttlMs,
    ...(spec.remote ? {} : { timeoutMs: wish.executionTimeoutMs ?? spec.executionTimeoutMs }),
    retry: { attemptsMax: 1 + redeliveries, lostMax: redeliveries, backoffMs: 0, jitter: 0 },
    ...(wish.lowPriority ? { priority: lowPriority } : {}),
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    ...(tags === undefined ? {} : { tags }),
    ...(parentId === undefined ? {} : { parentId }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(wish.failed === undefined ? {} : { failed: wish.failed }),
  };
}

function remotePolicy(wish: RunWish): NonNullable<JobInput['policy']> {
  return {
    ...(wish.executionTimeoutMs === undefined ? {} : { executionTimeout: wish.executionTimeoutMs }),
    ...(wish.lowPriority ? { lowPriority: true } : {}),
  };
}

export const isLowPriority = (job: Job): boolean => job.priority < 0;
