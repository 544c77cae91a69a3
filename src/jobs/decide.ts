// The job state machine: decide(job, fact) returns what changes. It is pure and shared by both stores, so backoff, TTL,
// timeouts, limits, cancel and dead letters are implemented once. A fact that no longer applies is refused as a whole.
import { stale, type Fact, type DecideResult } from './decision.ts';
import {
  decideEnded,
  endJob,
  resetAttempt,
  isExpired,
  isRunning,
  decideLost,
} from './attempt-end.ts';
import { enqueue, withdrawIntent } from './intents.ts';
import { attemptIdOf, isFinal, type Job, type JobError } from './job.ts';
import type { Status } from '../contracts/jobs.ts';

export function decide(job: Job, fact: Fact, now: number): DecideResult {
  switch (fact.type) {
    case 'started':
      return startAttempt(job, fact, now);
    case 'ended':
      return decideEnded(job, fact, now);
    case 'lost':
      return decideLost(job, fact, now);
    case 'cancel':
      return cancel(job, fact, now);
    case 'forceCancel':
      return forceCancel(job, now);
    case 'expired':
      return expire(job, now);
    case 'undecodable':
      return failUndecodable(job, now);
    case 'retry':
      return job.status === 'completed' ? completedStays : openAttempt(job, fact.by, now);
    case 'reopen':
      return openAttempt(job, fact.by, now);
    case 'dependencyMet':
      return meetDependency(job);
    case 'dependencyFailed':
      return failDependency(job, fact, now);
    case 'report':
      return applyReport(job, fact);
    case 'input':
      return setInputNeeded(job, fact);
  }
}

function startAttempt(
  job: Job,
  fact: Extract<Fact, { type: 'started' }>,
  now: number,
): DecideResult {
  // The sweep may not have ended an expired job yet.
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

function cancel(job: Job, fact: Extract<Fact, { type: 'cancel' }>, now: number): DecideResult {
  if (isFinal(job.status))
    return { refused: 'final', message: `The job has already ended: it is ${job.status}.` };
  const by = { by: fact.by, ...(fact.reason ? { reason: fact.reason } : {}) };
  if (job.status === 'queued') {
    const error: JobError = {
      code: 'cancelled',
      message: fact.reason ?? `Cancelled by ${fact.by} before it ran.`,
    };
    return endJob(job, {
      status: 'cancelled',
      now,
      error,
      more: {},
      intents: [withdrawIntent(job)],
      data: by,
    });
  }
  if (job.cancelRequestedAt !== null) return shortenGrace(job, fact.graceMs);
  return {
    patch: {
      cancelRequestedAt: now,
      // The kind reads this: how long the attempt may take to stop before it is killed.
      ...(fact.graceMs === undefined
        ? {}
        : { facts: { ...job.facts, cancelGraceMs: fact.graceMs } }),
    },
    events: [{ type: 'cancelRequested', data: by }],
    intents: [],
  };
}

/** A second cancel can only shorten the grace period of the first one. */
function shortenGrace(job: Job, graceMs: number | undefined): DecideResult {
  const { cancelGraceMs } = job.facts;
  const granted = typeof cancelGraceMs === 'number' ? cancelGraceMs : Infinity;
  if (graceMs === undefined || graceMs >= granted) return { patch: {}, events: [], intents: [] };
  return { patch: { facts: { ...job.facts, cancelGraceMs: graceMs } }, events: [], intents: [] };
}

function forceCancel(job: Job, now: number): DecideResult {
  if (!isRunning(job) || job.cancelRequestedAt === null) return stale;
  return endJob(job, {
    status: 'cancelled',
    now,
    error: {
      code: 'cancelled',
      message: 'The job was cancelled. It did not stop in time, so it was abandoned.',
    },
    more: {},
    intents: [withdrawIntent(job)],
  });
}

function expire(job: Job, now: number): DecideResult {
  if (job.status !== 'queued' || !isExpired(job, now)) return stale;
  return endJob(job, {
    status: 'timed_out',
    now,
    error: {
      code: 'queueTimeout',
      message:
        job.attempt === 1
          ? 'The job waited in the queue longer than its time to live and never ran.'
          : `The time to live of the job ended before attempt ${job.attempt} could start.`,
      hint: 'Retry it, or submit it with a longer ttlMs. list_queues shows what is ahead of it.',
    },
    more: {},
    intents: [withdrawIntent(job)],
  });
}

function failUndecodable(job: Job, now: number): DecideResult {
  if (job.status !== 'queued' || !job.undecodable) return stale;
  return endJob(job, {
    status: 'failed',
    now,
    error: {
      code: 'undecodable',
      message: `The job cannot run because its stored row cannot be decoded (${job.undecodable.join(', ')}).`,
      hint: 'Submit the work again.',
    },
    more: {},
    intents: [withdrawIntent(job)],
  });
}

const completedStays: DecideResult = {
  refused: 'wrongState',
  message: 'The job completed. Completed jobs cannot be retried.',
};

/** Opens a new attempt of an ended job. */
function openAttempt(job: Job, by: string, now: number): DecideResult {
  if (!isFinal(job.status)) {
    return {
      refused: 'wrongState',
      message: `The job is ${job.status}. Only ended jobs can be retried.`,
    };
  }
  const attempt = job.attempt + 1;
  const attemptId = attemptIdOf(job.id, attempt);
  // A manual retry adds one attempt and resets the count of lost attempts.
  const policy = {
    ...job.retry,
    maxAttempts: Math.max(job.retry.maxAttempts, attempt),
    ...(job.status === 'cancelled' ? { afterCancel: (job.retry.afterCancel ?? 0) + 1 } : {}),
  };
  return {
    patch: {
      ...resetAttempt(attempt, attemptId),
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

function meetDependency(job: Job): DecideResult {
  if (job.status !== 'queued' || job.waitingFor === 0) return stale;
  const waitingFor = job.waitingFor - 1;
  return {
    patch: { waitingFor },
    events: [{ type: 'dependencyMet', data: { waitingFor } }],
    intents: waitingFor === 0 ? [enqueue(job, job.runAt > job.createdAt ? job.runAt : 0)] : [],
  };
}

function failDependency(
  job: Job,
  fact: Extract<Fact, { type: 'dependencyFailed' }>,
  now: number,
): DecideResult {
  if (job.status !== 'queued' || job.waitingFor === 0) return stale;
  return endJob(job, {
    status: 'failed',
    now,
    error: {
      code: 'dependencyFailed',
      message: `The job depends on ${fact.jobId}, which ended with status ${fact.status}.`,
      hint: `Fix and retry ${fact.jobId}. When it has completed, retry this job.`,
      data: { jobId: fact.jobId, status: fact.status },
    },
    more: {},
    intents: [],
  });
}

function applyReport(job: Job, fact: Extract<Fact, { type: 'report' }>): DecideResult {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const patch: Partial<Job> = {};
  if (fact.progress) patch.progress = fact.progress;
  if (fact.stage !== undefined) patch.stage = fact.stage;
  if (fact.facts) patch.facts = { ...job.facts, ...fact.facts };
  const data = {
    ...(fact.progress ? { progress: fact.progress } : {}),
    ...(fact.stage ? { stage: fact.stage } : {}),
    ...(fact.notice ? { notice: fact.notice } : {}),
  };
  return { patch, events: [{ type: 'progress', data }], intents: [] };
}

function setInputNeeded(job: Job, fact: Extract<Fact, { type: 'input' }>): DecideResult {
  if (!isRunning(job) || job.attemptId !== fact.attemptId) return stale;
  const status: Status = fact.needed ? 'input_required' : 'running';
  if (job.status === status) return { patch: {}, events: [], intents: [] };
  const message = fact.message ? { message: fact.message } : {};
  return {
    patch: { status },
    events: [{ type: fact.needed ? 'input_required' : 'inputReceived', data: message }],
    intents: [],
  };
}
