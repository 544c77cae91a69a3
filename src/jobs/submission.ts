// What is asked for, and the job that comes of it.
import { AppError } from '../errors.ts';
import { isoTime } from '../runtime/clock.ts';
import { quoted } from '../runtime/foreign-text.ts';
import { currentTrace, traceparentOf } from '../runtime/trace.ts';
import type { Step } from '../store/store.ts';
import type { NewEvent } from './decision.ts';
import {
  attemptIdOf,
  defaultRetry,
  lifeMsMax,
  newJobId,
  type Job,
  type JobError,
  type RetryPolicy,
} from './job.ts';
import type { Kind } from './kind.ts';

export interface Submission {
  /** Chosen by the caller only where a dialect needs it; else made here. */
  id?: string;
  kind: string;
  action?: string;
  queue?: string;
  input: unknown;
  owner: string;
  name?: string;
  tags?: readonly string[];
  visibility?: 'private' | 'public';
  parentId?: string;
  /** Labels a node must have to run it. */
  labels?: readonly string[];
  idempotencyKey?: string;
  /** What counts as the same body, where `input` also holds where the caller stands (PATH, language). */
  idempotencyBody?: unknown;
  priority?: number;
  /** Epoch ms. */
  runAt?: number;
  /** No attempt starts later than this after the submit. */
  ttlMs?: number;
  timeoutMs?: number;
  retry?: Partial<RetryPolicy>;
  after?: readonly string[];
  /** First stage and status of kinds that are not dispatched. */
  stage?: string;
  status?: 'queued' | 'running' | 'input_required';
  /** Stored as failed for this reason; it never runs. */
  failed?: JobError;
  facts?: Record<string, unknown>;
  node?: string;
  /** Statements of the kind that must happen together with the submit. */
  steps?: (job: Job) => Step[];
}

/** A job as it is first written. */
export function newJob(
  submission: Submission,
  more: { now: number; hash: string | null; waitingFor: number },
): Job {
  const { now } = more;
  refuseEndless(submission);
  refuseNeverDue(submission, now);
  const id = submission.id ?? newJobId();
  return {
    id,
    kind: submission.kind,
    action: submission.action ?? null,
    queue: submission.queue ?? 'default',
    status: submission.failed ? 'failed' : (submission.status ?? 'queued'),
    stage: submission.stage ?? null,
    name: submission.name ?? null,
    tags: [...(submission.tags ?? [])],
    labels: [...(submission.labels ?? [])],
    trace: traceOfCall(),
    visibility: submission.visibility ?? 'private',
    owner: submission.owner,
    node: submission.node ?? null,
    parentId: submission.parentId ?? null,
    idempotencyKey: submission.idempotencyKey ?? null,
    idempotencyHash: more.hash,
    input: submission.input,
    result: null,
    error: submission.failed ?? null,
    progress: null,
    facts: submission.facts ?? {},
    cost: null,
    priority: submission.priority ?? 0,
    attempt: 1,
    attemptId: attemptIdOf(id, 1),
    lost: 0,
    retry: submission.retry ? { ...defaultRetry, ...submission.retry } : defaultRetry,
    holder: null,
    runAt: submission.runAt ?? now,
    ttlMs: submission.ttlMs ?? null,
    expiresAt: submission.ttlMs === undefined ? null : now + submission.ttlMs,
    timeoutMs: submission.timeoutMs ?? null,
    deadlineAt: null,
    waitingFor: more.waitingFor,
    cancelRequestedAt: null,
    createdAt: now,
    updatedAt: now,
    startedAt: submission.status === undefined || submission.status === 'queued' ? null : now,
    finishedAt: submission.failed ? now : null,
    pinned: false,
    // Its first event is its submission, its second one the failure.
    version: submission.failed ? 2 : 1,
  };
}

/** The same work once more: what a new job takes over from one that ended. */
export function sameJob(job: Job): Submission {
  return {
    kind: job.kind,
    input: job.input,
    owner: job.owner,
    queue: job.queue,
    tags: job.tags,
    labels: job.labels,
    visibility: job.visibility,
    priority: job.priority,
    retry: job.retry,
    ...(job.action === null ? {} : { action: job.action }),
    ...(job.name === null ? {} : { name: job.name }),
    ...(job.timeoutMs === null ? {} : { timeoutMs: job.timeoutMs }),
    ...(job.ttlMs === null ? {} : { ttlMs: job.ttlMs }),
  };
}

/** Its submission; of one that was stored as failed, its end too. */
export function firstEvents({ kind, error }: Job, named: { name?: string }): NewEvent[] {
  const submitted = { type: 'submitted', data: { kind, ...named } };
  return error ? [submitted, { type: 'failed', data: { attempt: 1, error } }] : [submitted];
}

function refuseEndless({ ttlMs = 0, timeoutMs = 0 }: Submission): void {
  for (const [name, ms] of Object.entries({ ttlMs, timeoutMs })) {
    if (ms <= lifeMsMax) continue;
    throw new AppError('invalidInput', `${name} may be at most ${lifeMsMax}, not ${ms}.`, {
      hint: `Leave ${name} out for no limit.`,
    });
  }
}

/** No attempt starts once the time to live is over: this one would only wait for its end. */
function refuseNeverDue({ ttlMs, runAt = 0 }: Submission, now: number): void {
  if (ttlMs === undefined || runAt < now + ttlMs) return;
  const start = isoTime(runAt);
  const message = `the time to live of ${ttlMs} ms counts from now and ends before it may start (${start}).`;
  throw new AppError('invalidInput', `It could never run: ${message}`, {
    hint: 'Give a longer ttlMs, or an earlier runAt.',
    data: { issues: [{ path: 'ttlMs', message, code: 'custom' }] },
  });
}

/** The call under way, or the job that this one is a part of. */
function traceOfCall(): string | null {
  const trace = currentTrace();
  return trace ? traceparentOf(trace) : null;
}

/** Where other parties read the events of a job, its name is quoted like everything that its owner wrote. */
export function eventName({ readableBy }: Kind, { name }: Job): { name?: string } {
  if (!name) return {};
  return { name: readableBy ? quoted(name) : name };
}
