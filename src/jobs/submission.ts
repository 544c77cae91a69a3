// Submissions, and the new jobs created from them.
import { AppError } from '../errors.ts';
import { isoTime } from '../runtime/clock.ts';
import { callerFolder } from '../runtime/caller-folder.ts';
import { quoted } from '../runtime/untrusted-text.ts';
import { currentTrace, formatTraceparent } from '../runtime/trace.ts';
import type { Step } from '../store/store.ts';
import type { NewEvent } from './decision.ts';
import { attemptIdOf, defaultRetry, type Job, type JobError, type RetryPolicy } from './job.ts';
import { maxLifeMs } from '../contracts/jobs.ts';
import { newJobId } from '../runtime/id.ts';
import type { Kind } from './kind.ts';

export interface Submission {
  /** Set only if a dialect requires its own id. */
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
  /** Labels a node must have to run the job. */
  labels?: readonly string[];
  idempotencyKey?: string;
  /** The body to compare for idempotency, if `input` also contains the caller's environment (PATH, language). */
  idempotencyBody?: unknown;
  priority?: number;
  /** Epoch ms. */
  runAt?: number;
  /** No attempt starts later than this after submission. */
  ttlMs?: number;
  timeoutMs?: number;
  retry?: Partial<RetryPolicy>;
  after?: readonly string[];
  /** First stage and status of kinds that are not dispatched. */
  stage?: string;
  status?: 'queued' | 'running' | 'input_required';
  /** Stores the job as failed with this error. It never runs. */
  failed?: JobError;
  facts?: Record<string, unknown>;
  node?: string;
  /** Statements of the kind for the same transaction. */
  steps?: (job: Job) => Step[];
}

/** Creates the job row of a submission. */
export function newJob(
  submission: Submission,
  more: { now: number; hash: string | null; waitingFor: number },
): Job {
  const { now } = more;
  refuseExcessiveTimes(submission);
  refuseExpiredStart(submission, now);
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
    trace: callTrace(),
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
    // A job stored as failed has two events: submitted and failed.
    version: submission.failed ? 2 : 1,
  };
}

/** The submission that repeats an ended job. */
export function copySubmission(job: Job): Submission {
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

/** The events of a new job: submitted, and failed if it was stored as failed. */
export function firstEvents(job: Job, kind: Kind): NewEvent[] {
  const { error } = job;
  const data = { kind: job.kind, ...nameForOthers(kind, job), ...startedFrom(kind, job) };
  const submitted = { type: 'submitted', data };
  return error ? [submitted, { type: 'failed', data: { attempt: 1, error } }] : [submitted];
}

/** The folder of the client, for `errand watch --mine`. Other parties must not see it. */
function startedFrom({ readableBy }: Kind, { visibility }: Job): { folder?: string } {
  const folder = callerFolder();
  return folder === undefined || readableBy || visibility === 'public' ? {} : { folder };
}

function refuseExcessiveTimes({ ttlMs = 0, timeoutMs = 0 }: Submission): void {
  for (const [name, ms] of Object.entries({ ttlMs, timeoutMs })) {
    if (ms <= maxLifeMs) continue;
    throw new AppError('invalidInput', `${name} is ${ms}, but the maximum is ${maxLifeMs}.`, {
      hint: `Omit ${name} for no limit.`,
    });
  }
}

/** Refuses a job whose time to live ends before it may start. */
function refuseExpiredStart({ ttlMs, runAt = 0 }: Submission, now: number): void {
  if (ttlMs === undefined || runAt < now + ttlMs) return;
  const start = isoTime(runAt);
  const message = `the time to live of ${ttlMs} ms starts now and ends before the job may start (${start}).`;
  throw new AppError('invalidInput', `The job could never run: ${message}`, {
    hint: 'Use a longer ttlMs or an earlier runAt.',
    data: { issues: [{ path: 'ttlMs', message, code: 'custom' }] },
  });
}

/** The trace of the current call, or of the job that submits this one. */
function callTrace(): string | null {
  const trace = currentTrace();
  return trace ? formatTraceparent(trace) : null;
}

/** If other parties can read the job, its name is quoted like all text that its owner wrote. */
export function nameForOthers(kind: Kind | undefined, { name }: Job): { name?: string } {
  if (!name) return {};
  return { name: kind?.readableBy ? quoted(name) : name };
}
