// How an attempt ends: the job is over, or another attempt follows after a pause. Pure, a part of decide().
import { isoTime } from '../runtime/clock.ts';
import type { Intent } from '../store/store.ts';
import { stale, type Decision, type Fact, type Verdict } from './decision.ts';
import { enqueue, settleOf, withdrawOf } from './intents.ts';
import { attemptIdOf, type Job, type JobError } from './job.ts';

export function ended(job: Job, fact: Extract<Fact, { type: 'ended' }>, now: number): Verdict {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const { outcome } = fact;
  if (outcome.type === 'lost') {
    const message = outcome.message ? { message: outcome.message } : {};
    const withFacts = { ...job, facts: { ...job.facts, ...outcome.facts } };
    return lost(
      withFacts,
      { type: 'lost', attemptId: fact.attemptId, random: fact.random, ...message },
      now,
    );
  }
  if (outcome.type === 'snoozed') return snoozed(job, outcome.untilMs);
  const facts = outcome.facts ? { ...job.facts, ...outcome.facts } : job.facts;
  const result = outcome.result === undefined ? {} : { result: outcome.result };
  const cost =
    'cost' in outcome && outcome.cost !== undefined ? { cost: (job.cost ?? 0) + outcome.cost } : {};
  const more = { facts, ...result, ...cost };
  const settle: Intent[] = [settleOf(job)];
  switch (outcome.type) {
    case 'completed':
      return finish(job, { status: 'completed', now, more, intents: settle });
    case 'cancelled':
      return finish(job, { status: 'cancelled', now, error: outcome.error, more, intents: settle });
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

/** A cancel wins over a retry: whatever the attempt's end was, a job told to stop is not started again. */
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
  const intents: Intent[] = [settleOf(job)];
  const isCancelled = job.cancelRequestedAt !== null;
  const runAt = nextStart(job, now, end.random);
  if (isCancelled || !mayRetry || runAt === undefined)
    return finish(job, { status: isCancelled ? 'cancelled' : status, now, error, more, intents });
  return again(job, { runAt, error, more, intents, event: 'attemptFailed' });
}

export function lost(job: Job, fact: Extract<Fact, { type: 'lost' }>, now: number): Verdict {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const intents: Intent[] = [withdrawOf(job)];
  const error: JobError = {
    code: 'lost',
    message: fact.message ?? 'Whoever ran this attempt is gone, and nobody saw its end.',
    hint: 'Its output so far can be read; retry the job to run it again.',
  };
  const more = { facts: job.facts, lost: job.lost + 1 };
  if (job.cancelRequestedAt !== null)
    return finish(job, { status: 'cancelled', now, error, more, intents });
  // A job that keeps killing its worker ends; it is not handed out for ever.
  const poison = job.lost + 1 > job.retry.lostMax;
  const runAt = nextStart(job, now, fact.random);
  if (poison || runAt === undefined)
    return finish(job, { status: 'failed', now, error, more, intents });
  return again(job, { runAt, error, more, intents, event: 'attemptLost' });
}

export function finish(
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
        type: finalEvent[end.status],
        data: { attempt: job.attempt, ...(error ? { error } : {}), ...end.data },
      },
    ],
    intents: end.intents,
  };
}

const finalEvent = {
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
  timed_out: 'timedOut',
} as const;

/** The events after which a job is over. */
export const finalEvents: ReadonlySet<string> = new Set(Object.values(finalEvent));

/** The next attempt: a new id, so that nothing of the old one can reach it. */
function again(
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
      ...freshAttempt(attempt, attemptId),
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

export function freshAttempt(attempt: number, attemptId: string): Partial<Job> {
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

function snoozed(job: Job, untilMs: number): Decision {
  return {
    patch: { status: 'queued', holder: null, startedAt: null, deadlineAt: null, runAt: untilMs },
    events: [{ type: 'snoozed', data: { until: isoTime(untilMs) } }],
    intents: [settleOf(job), enqueue(job, untilMs)],
  };
}

/** When the next attempt is due; undefined: none is left, or its time to live ends before. */
function nextStart(job: Job, now: number, random: number): number | undefined {
  if (job.attempt >= job.retry.attemptsMax) return undefined;
  const { backoffMs, backoffFactor, backoffMsMax, jitter } = job.retry;
  const delay = Math.min(backoffMs * backoffFactor ** (job.attempt - 1), backoffMsMax);
  const runAt = now + Math.round(delay * (1 - jitter * random));
  return isExpired(job, runAt) ? undefined : runAt;
}

/** No attempt starts any more. */
export const isExpired = ({ expiresAt }: Job, now: number): boolean =>
  expiresAt !== null && expiresAt <= now;

export const isRunning = (job: Job): boolean =>
  job.status === 'running' || job.status === 'input_required';

function timeoutError(job: Job): JobError {
  return {
    code: 'executionTimeout',
    message: `It ran longer than its time limit of ${job.timeoutMs ?? 0} ms and was stopped.`,
    hint: 'Its output so far is kept. Retry it with a longer timeout if it needs more time.',
  };
}
