// Decides what follows the end of an attempt: the job ends, or another attempt starts after a backoff. Pure; part of decide().
import { isoTime } from '../runtime/clock.ts';
import type { Intent } from '../store/store.ts';
import { stale, type Decision, type Fact, type DecideResult } from './decision.ts';
import { enqueue, settleIntent, withdrawIntent } from './intents.ts';
import { attemptIdOf, finalStatuses, type Job, type JobError } from './job.ts';

export function decideEnded(
  job: Job,
  fact: Extract<Fact, { type: 'ended' }>,
  now: number,
): DecideResult {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const { outcome } = fact;
  if (outcome.type === 'lost') {
    const message = outcome.message ? { message: outcome.message } : {};
    const withFacts = { ...job, facts: { ...job.facts, ...outcome.facts } };
    return decideLost(
      withFacts,
      { type: 'lost', attemptId: fact.attemptId, random: fact.random, ...message },
      now,
    );
  }
  if (outcome.type === 'snoozed') return snooze(job, outcome.untilMs);
  const facts = outcome.facts ? { ...job.facts, ...outcome.facts } : job.facts;
  const result = outcome.result === undefined ? {} : { result: outcome.result };
  const cost =
    'cost' in outcome && outcome.cost !== undefined ? { cost: (job.cost ?? 0) + outcome.cost } : {};
  const more = { facts, ...result, ...cost };
  const settle: Intent[] = [settleIntent(job)];
  switch (outcome.type) {
    case 'completed':
      return endJob(job, { status: 'completed', now, more, intents: settle });
    case 'cancelled':
      return endJob(job, { status: 'cancelled', now, error: outcome.error, more, intents: settle });
    case 'timed_out':
      return failOrRetry(job, {
        status: 'timed_out',
        error: outcome.error ?? timeoutError(job),
        now,
        random: fact.random,
        more,
        mayRetry: outcome.retry !== false,
      });
    case 'failed':
      return failOrRetry(job, {
        status: 'failed',
        error: outcome.error,
        now,
        random: fact.random,
        more,
        mayRetry: outcome.retry !== false,
      });
  }
}

/** A cancel takes precedence over a retry: a job that was asked to stop never starts again. */
function failOrRetry(
  job: Job,
  end: {
    status: 'failed' | 'timed_out';
    error: JobError;
    now: number;
    random: number;
    more: Partial<Job>;
    mayRetry: boolean;
  },
): Decision {
  const { status, error, now, more, mayRetry } = end;
  const intents: Intent[] = [settleIntent(job)];
  const isCancelled = job.cancelRequestedAt !== null;
  const runAt = nextAttemptAt(job, now, end.random);
  if (isCancelled || !mayRetry || runAt === undefined)
    return endJob(job, { status: isCancelled ? 'cancelled' : status, now, error, more, intents });
  return nextAttempt(job, { runAt, error, more, intents, event: 'attemptFailed' });
}

export function decideLost(
  job: Job,
  fact: Extract<Fact, { type: 'lost' }>,
  now: number,
): DecideResult {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const intents: Intent[] = [withdrawIntent(job)];
  const error: JobError = {
    code: 'lost',
    message:
      fact.message ??
      'The process or node that ran this attempt disappeared, so its outcome is unknown.',
    hint: 'Its output so far is readable. Retry the job to run it again.',
  };
  const more = { facts: job.facts, lost: job.lost + 1 };
  if (job.cancelRequestedAt !== null)
    return endJob(job, { status: 'cancelled', now, error, more, intents });
  // A job that keeps killing its worker fails instead of being assigned forever.
  const poison = job.lost + 1 > job.retry.maxLost;
  const runAt = nextAttemptAt(job, now, fact.random);
  if (poison || runAt === undefined)
    return endJob(job, { status: 'failed', now, error, more, intents });
  return nextAttempt(job, { runAt, error, more, intents, event: 'attemptLost' });
}

export function endJob(
  job: Job,
  end: {
    status: 'completed' | 'failed' | 'cancelled' | 'timed_out';
    now: number;
    error?: JobError | undefined;
    more: Partial<Job>;
    intents: Intent[];
    data?: Record<string, unknown>;
  },
): Decision {
  const error = end.error ?? null;
  return {
    patch: { ...end.more, status: end.status, error, finishedAt: end.now, waitingFor: 0 },
    events: [
      {
        type: end.status,
        data: { attempt: job.attempt, ...(error ? { error } : {}), ...end.data },
      },
    ],
    intents: end.intents,
  };
}

/** The events that end a job. Each has the name of the final status. */
export const finalEvents: ReadonlySet<string> = new Set(finalStatuses);

/** Starts the next attempt under a new id, so that late reports of the old attempt cannot affect it. */
function nextAttempt(
  job: Job,
  next: {
    runAt: number;
    error: JobError;
    more: Partial<Job>;
    intents: Intent[];
    event: 'attemptFailed' | 'attemptLost';
  },
): Decision {
  const attempt = job.attempt + 1;
  const attemptId = attemptIdOf(job.id, attempt);
  const { runAt } = next;
  return {
    patch: {
      ...resetAttempt(attempt, attemptId),
      ...(next.more.lost === undefined ? {} : { lost: next.more.lost }),
      ...(next.more.cost === undefined ? {} : { cost: next.more.cost }),
      status: 'queued',
      runAt,
    },
    events: [
      {
        type: next.event,
        data: { attempt: job.attempt, error: next.error, nextAttemptAt: isoTime(runAt) },
      },
    ],
    intents: [...next.intents, enqueue({ ...job, attemptId }, runAt)],
    archive: true,
    ...(next.more.facts ? { archiveFacts: next.more.facts } : {}),
    ...(next.more.result === undefined ? {} : { archiveResult: next.more.result }),
  };
}

export function resetAttempt(attempt: number, attemptId: string): Partial<Job> {
  return {
    attempt,
    attemptId,
    stage: null,
    holder: null,
    error: null,
    result: null,
    progress: null,
    facts: {},
    startedAt: null,
    deadlineAt: null,
    cancelRequestedAt: null,
  };
}

function snooze(job: Job, untilMs: number): Decision {
  return {
    patch: { status: 'queued', holder: null, startedAt: null, deadlineAt: null, runAt: untilMs },
    events: [{ type: 'snoozed', data: { until: isoTime(untilMs) } }],
    intents: [settleIntent(job), enqueue(job, untilMs)],
  };
}

/** When the next attempt is due. Undefined if none is left or the time to live ends first. */
function nextAttemptAt(job: Job, now: number, random: number): number | undefined {
  if (job.attempt >= job.retry.maxAttempts) return undefined;
  const { backoffMs, backoffFactor, maxBackoffMs, jitter } = job.retry;
  const delay = Math.min(backoffMs * backoffFactor ** (job.attempt - 1), maxBackoffMs);
  const runAt = now + Math.round(delay * (1 - jitter * random));
  return isExpired(job, runAt) ? undefined : runAt;
}

/** An expired job starts no further attempt. */
export const isExpired = ({ expiresAt }: Job, now: number): boolean =>
  expiresAt !== null && expiresAt <= now;

export const isRunning = (job: Job): boolean =>
  job.status === 'running' || job.status === 'input_required';

function timeoutError(job: Job): JobError {
  return {
    code: 'executionTimeout',
    message: `The job exceeded its time limit of ${job.timeoutMs ?? 0} ms and was stopped.`,
    hint: 'Its output so far is kept. If it needs more time, run it with a longer timeout.',
  };
}
