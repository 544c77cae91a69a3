// How a job moves: decide(job, fact) → what changes. Pure and written once for both stores, so backoff, TTL, timeouts,
// limits, cancel and dead letters exist in one place. A fact that no longer fits is refused, never half applied.
import { stale, type Fact, type Verdict } from './decision.ts';
import { ended, finish, freshAttempt, isExpired, isRunning, lost } from './ending.ts';
import { enqueue, withdrawOf } from './intents.ts';
import { attemptIdOf, isFinal, type Job, type JobError, type Status } from './job.ts';

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
    case 'undecodable':
      return undecodable(job, now);
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
  // The sweep may not have come by yet, or nothing ran for a while.
  if (job.status !== 'queued' || isExpired(job, now)) return stale;
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
  if (job.cancelRequestedAt !== null) return hurried(job, fact.graceMs);
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

/** A second cancel may only shorten the time that the first one granted. */
function hurried(job: Job, graceMs: number | undefined): Verdict {
  const { cancelGraceMs } = job.facts;
  const granted = typeof cancelGraceMs === 'number' ? cancelGraceMs : Infinity;
  if (graceMs === undefined || graceMs >= granted) return { patch: {}, events: [], intents: [] };
  return { patch: { facts: { ...job.facts, cancelGraceMs: graceMs } }, events: [], intents: [] };
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
  if (job.status !== 'queued' || !isExpired(job, now)) return stale;
  return finish(job, {
    status: 'timed_out',
    now,
    error: {
      code: 'queueTimeout',
      message:
        job.attempt === 1
          ? 'It waited in the queue longer than its time to live and never ran.'
          : `Its time to live ended before attempt ${job.attempt} could start.`,
      hint: 'Retry it, or submit it with a longer ttlMs; `errand queue list` shows what is ahead.',
    },
    more: {},
    intents: [withdrawOf(job)],
  });
}

function undecodable(job: Job, now: number): Verdict {
  if (job.status !== 'queued' || !job.undecodable) return stale;
  return finish(job, {
    status: 'failed',
    now,
    error: {
      code: 'undecodable',
      message: `Its stored row cannot be decoded (${job.undecodable.join(', ')}), so it cannot run.`,
      hint: 'Submit the work again.',
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
  return {
    patch: {
      ...freshAttempt(attempt, attemptId),
      status: 'queued',
      retry: policy,
      lost: 0,
      runAt: now,
      expiresAt: job.ttlMs === null ? null : now + job.ttlMs,
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
