// How a job moves: decide(job, fact) → what changes. Pure and written once for both stores, so backoff, TTL, timeouts,
// limits, cancel and dead letters exist in one place. A fact that no longer fits is refused, never half applied.
import type { Intent } from '../store/store.ts';
import {
  attemptIdOf,
  isFinal,
  type Job,
  type JobError,
  type Progress,
  type Status,
} from './job.ts';
import type { Outcome } from './kind.ts';

export type Fact =
  | { type: 'started'; holder: string; node: string | null; stage?: string }
  | { type: 'ended'; attemptId: string; outcome: Outcome; random: number }
  | { type: 'lost'; attemptId: string; random: number; message?: string }
  | { type: 'cancel'; by: string; reason?: string; graceMs?: number }
  /** The running attempt did not stop in time after a cancel: it is declared over. */
  | { type: 'forceCancel' }
  | { type: 'expired' }
  | { type: 'retry'; by: string }
  | { type: 'dependencyMet' }
  | { type: 'dependencyFailed'; jobId: string; status: Status }
  | {
      type: 'report';
      attemptId: string;
      progress?: Progress;
      stage?: string;
      facts?: Record<string, unknown>;
    }
  | { type: 'input'; attemptId: string; needed: boolean; message?: string };

export interface NewEvent {
  type: string;
  data: Record<string, unknown>;
}

export interface Decision {
  patch: Partial<Job>;
  events: NewEvent[];
  intents: Intent[];
  /** Facts and result of the attempt that is archived, where they are newer than the row. */
  archiveFacts?: Record<string, unknown>;
  archiveResult?: unknown;
  /** Keep the present attempt's row, because a new one begins. */
  archive?: boolean;
}

/** `refused`: the fact does not apply (any more); the reason is for the caller who brought it. */
export type Verdict = Decision | { refused: 'stale' | 'final' | 'wrongState'; message: string };

export const isRefused = (v: Verdict): v is Extract<Verdict, { refused: string }> => 'refused' in v;

const stale = { refused: 'stale', message: 'This attempt is over.' } as const;

export function decide(job: Job, fact: Fact, now: number): Verdict {
  switch (fact.type) {
    case 'started':
      return started(job, fact, now);
    case 'ended':
      return ended(job, fact, now);
    case 'lost':
      return lost(job, fact, now);
    case 'cancel':
      return cancel(job, fact, now);
    case 'forceCancel':
      return forceCancel(job, now);
    case 'expired':
      return expired(job, now);
    case 'retry':
      return retry(job, fact.by, now);
    case 'dependencyMet':
      return dependencyMet(job);
    case 'dependencyFailed':
      return dependencyFailed(job, fact, now);
    case 'report':
      return report(job, fact);
    case 'input':
      return input(job, fact);
  }
}

function started(job: Job, fact: Extract<Fact, { type: 'started' }>, now: number): Verdict {
  if (job.status !== 'queued') return stale;
  return {
    patch: {
      status: 'running',
      stage: fact.stage ?? null,
      holder: fact.holder,
      node: fact.node,
      startedAt: now,
      deadlineAt: job.timeoutMs === null ? null : now + job.timeoutMs,
      facts: {},
      progress: null,
    },
    events: [{ type: 'started', data: { attempt: job.attempt, holder: fact.holder } }],
    intents: [],
  };
}

function ended(job: Job, fact: Extract<Fact, { type: 'ended' }>, now: number): Verdict {
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
  const intents: Intent[] = [settleOf(job)];
  if (job.cancelRequestedAt !== null) {
    return finish(job, {
      status: 'cancelled',
      now: end.now,
      error: end.error,
      more: end.more,
      intents,
    });
  }
  if (!end.mayRetry || job.attempt >= job.retry.attemptsMax) {
    return finish(job, {
      status: end.status,
      now: end.now,
      error: end.error,
      more: end.more,
      intents,
    });
  }
  const delayMs = backoff(job, end.random);
  return again(job, {
    now: end.now,
    delayMs,
    error: end.error,
    more: end.more,
    intents,
    event: 'attemptFailed',
  });
}

function lost(job: Job, fact: Extract<Fact, { type: 'lost' }>, now: number): Verdict {
  if (job.attemptId !== fact.attemptId || isFinal(job.status)) return stale;
  const settle: Intent[] = [withdrawOf(job)];
  if (job.status === 'queued') return stale;
  const error: JobError = {
    code: 'lost',
    message: fact.message ?? 'Whoever ran this attempt is gone, and nobody saw its end.',
    hint: 'Its output so far can be read; retry the job to run it again.',
  };
  const more = { facts: job.facts, lost: job.lost + 1 };
  if (job.cancelRequestedAt !== null) {
    return finish(job, { status: 'cancelled', now, error, more, intents: settle });
  }
  // A job that keeps killing its worker ends; it is not handed out for ever.
  const poison = job.lost + 1 > job.retry.lostMax;
  if (poison || job.attempt >= job.retry.attemptsMax) {
    return finish(job, { status: 'failed', now, error, more, intents: settle });
  }
  const delayMs = backoff(job, fact.random);
  return again(job, { now, delayMs, error, more, intents: settle, event: 'attemptLost' });
}

function cancel(job: Job, fact: Extract<Fact, { type: 'cancel' }>, now: number): Verdict {
  if (isFinal(job.status))
    return { refused: 'final', message: `The job is already ${job.status}.` };
  const by = { by: fact.by, ...(fact.reason ? { reason: fact.reason } : {}) };
  if (job.status === 'queued') {
    const error: JobError = {
      code: 'cancelled',
      message: fact.reason ?? `Cancelled by ${fact.by} before it ran.`,
    };
    return finish(job, {
      status: 'cancelled',
      now,
      error,
      more: {},
      intents: [withdrawOf(job)],
      data: by,
    });
  }
  if (job.cancelRequestedAt !== null) return { patch: {}, events: [], intents: [] };
  return {
    patch: {
      cancelRequestedAt: now,
      // For the kind that stops it: how long it may take to stop by itself.
      ...(fact.graceMs === undefined
        ? {}
        : { facts: { ...job.facts, cancelGraceMs: fact.graceMs } }),
    },
    events: [{ type: 'cancelRequested', data: by }],
    intents: [],
  };
}

function forceCancel(job: Job, now: number): Verdict {
  if (!isRunning(job) || job.cancelRequestedAt === null) return stale;
  return finish(job, {
    status: 'cancelled',
    now,
    error: { code: 'cancelled', message: 'Cancelled; it did not stop in time and was given up.' },
    more: {},
    intents: [withdrawOf(job)],
  });
}

function expired(job: Job, now: number): Verdict {
  if (job.status !== 'queued' || job.expiresAt === null || job.expiresAt > now) return stale;
  return finish(job, {
    status: 'timed_out',
    now,
    error: {
      code: 'queueTimeout',
      message: 'It waited in the queue longer than its time to live and never ran.',
      hint: 'Retry it, or submit it with a longer ttlMs; `errand queue list` shows what is ahead.',
    },
    more: {},
    intents: [withdrawOf(job)],
  });
}

function retry(job: Job, by: string, now: number): Verdict {
  if (!isFinal(job.status)) {
    return {
      refused: 'wrongState',
      message: `The job is ${job.status}; only an ended one can be retried.`,
    };
  }
  if (job.status === 'completed') {
    return {
      refused: 'wrongState',
      message: 'The job completed; a completed job is never run again.',
    };
  }
  const attempt = job.attempt + 1;
  const attemptId = attemptIdOf(job.id, attempt);
  // A retry by hand buys one more attempt, and forgives earlier losses.
  const policy = { ...job.retry, attemptsMax: Math.max(job.retry.attemptsMax, attempt) };
  const ttl = job.expiresAt === null ? null : now + (job.expiresAt - job.createdAt);
  return {
    patch: {
      ...freshAttempt(attempt, attemptId),
      status: 'queued',
      retry: policy,
      lost: 0,
      runAt: now,
      expiresAt: ttl,
      finishedAt: null,
    },
    events: [{ type: 'retried', data: { attempt, by } }],
    intents: [enqueue({ ...job, attemptId }, 0)],
    archive: true,
  };
}

function dependencyMet(job: Job): Verdict {
  if (job.status !== 'queued' || job.waitingFor === 0) return stale;
  const waitingFor = job.waitingFor - 1;
  return {
    patch: { waitingFor },
    events: [{ type: 'dependencyMet', data: { waitingFor } }],
    intents: waitingFor === 0 ? [enqueue(job, job.runAt > job.createdAt ? job.runAt : 0)] : [],
  };
}

function dependencyFailed(
  job: Job,
  fact: Extract<Fact, { type: 'dependencyFailed' }>,
  now: number,
): Verdict {
  if (job.status !== 'queued' || job.waitingFor === 0) return stale;
  return finish(job, {
    status: 'failed',
    now,
    error: {
      code: 'dependencyFailed',
      message: `It was to run after ${fact.jobId}, which ended ${fact.status}.`,
      hint: `Look at ${fact.jobId}; once it has completed, retry this job.`,
      data: { jobId: fact.jobId, status: fact.status },
    },
    more: {},
    intents: [],
  });
}

function report(job: Job, fact: Extract<Fact, { type: 'report' }>): Verdict {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const patch: Partial<Job> = {};
  if (fact.progress) patch.progress = fact.progress;
  if (fact.stage !== undefined) patch.stage = fact.stage;
  if (fact.facts) patch.facts = { ...job.facts, ...fact.facts };
  const data = {
    ...(fact.progress ? { progress: fact.progress } : {}),
    ...(fact.stage ? { stage: fact.stage } : {}),
  };
  return { patch, events: [{ type: 'progress', data }], intents: [] };
}

function input(job: Job, fact: Extract<Fact, { type: 'input' }>): Verdict {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const status: Status = fact.needed ? 'input_required' : 'running';
  if (job.status === status) return { patch: {}, events: [], intents: [] };
  const message = fact.message ? { message: fact.message } : {};
  return {
    patch: { status },
    events: [{ type: fact.needed ? 'inputRequired' : 'inputReceived', data: message }],
    intents: [],
  };
}

function finish(
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
    now: number;
    delayMs: number;
    error: JobError;
    more: Partial<Job>;
    intents: Intent[];
    event: 'attemptFailed' | 'attemptLost';
  },
): Decision {
  const attempt = job.attempt + 1;
  const attemptId = attemptIdOf(job.id, attempt);
  const runAt = next.now + next.delayMs;
  return {
    patch: {
      ...freshAttempt(attempt, attemptId),
      ...(next.more.lost === undefined ? {} : { lost: next.more.lost }),
      ...(next.more.cost === undefined ? {} : { cost: next.more.cost }),
      status: 'queued',
      runAt,
    },
    events: [
      { type: next.event, data: { attempt: job.attempt, error: next.error, nextAttemptAt: runAt } },
    ],
    intents: [...next.intents, enqueue({ ...job, attemptId }, runAt)],
    archive: true,
    ...(next.more.facts ? { archiveFacts: next.more.facts } : {}),
    ...(next.more.result === undefined ? {} : { archiveResult: next.more.result }),
  };
}

function freshAttempt(attempt: number, attemptId: string): Partial<Job> {
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
    events: [{ type: 'snoozed', data: { until: untilMs } }],
    intents: [settleOf(job), enqueue(job, untilMs)],
  };
}

function backoff(job: Job, random: number): number {
  const { backoffMs, backoffFactor, backoffMsMax, jitter } = job.retry;
  const delay = Math.min(backoffMs * backoffFactor ** (job.attempt - 1), backoffMsMax);
  return Math.round(delay * (1 - jitter * random));
}

export function enqueue(job: Job, runAt: number): Intent {
  const { id: jobId, attemptId, kind, queue, priority } = job;
  return {
    dispatch: 'enqueue',
    entry: { attemptId, jobId, queue: queueKey(kind, queue), priority, runAt },
  };
}

const settleOf = (job: Job): Intent => ({
  dispatch: 'settle',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

const withdrawOf = (job: Job): Intent => ({
  dispatch: 'withdraw',
  attemptId: job.attemptId,
  queue: queueKey(job.kind, job.queue),
});

/** A queue belongs to a kind: the dispatcher's name for it. */
export const queueKey = (kind: string, queue: string): string => `${kind}:${queue}`;

const isRunning = (job: Job): boolean =>
  job.status === 'running' || job.status === 'input_required';

function timeoutError(job: Job): JobError {
  return {
    code: 'executionTimeout',
    message: `It ran longer than its time limit of ${job.timeoutMs ?? 0} ms and was stopped.`,
    hint: 'Its output so far is kept. Retry it with a longer timeout if it needs more time.',
  };
}
