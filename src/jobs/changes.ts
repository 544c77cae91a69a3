// Converts a decision into the steps of one transaction: the guarded update of the job row, its events, the counters and
// the archived attempt. The version in the WHERE clause is the fence: a decision based on an older row conflicts.
import { AppError } from '../errors.ts';
import type { Step } from '../store/store.ts';
import type { Decision, NewEvent } from './decision.ts';
import { counterScope, retryScope } from './intents.ts';
import { countEnded, countSubmitted } from './stats.ts';
import { columnOf, columnValue, jobFields, type Job, type JobField } from './job.ts';
import type { Status } from '../contracts/jobs.ts';

export function insertJob(job: Job, events: NewEvent[]): Step[] {
  return [
    {
      sql: insertSql,
      params: jobFields.map((field) => columnValue(field, job[field])),
      expect: 1,
    },
    ...insertEvents({ job, after: 0, events, at: job.createdAt }),
    countStep(job, job.status, 1),
    ...countSubmitted(job),
  ];
}

const insertSql = `INSERT INTO jobs (${jobFields.map(columnOf).join(', ')})
  VALUES (${jobFields.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`;

/** The input of a new job, as the JSON text in its insert step. */
export function storedInput([insert]: readonly Step[]): string {
  const params = insert && 'sql' in insert ? insert.params : undefined;
  return (params?.[inputAt] as string | null | undefined) ?? 'null';
}

const inputAt = jobFields.indexOf('input');

export function updateJob(job: Job, decision: Decision, now: number): Step[] {
  const patch: Partial<Job> = {
    ...decision.patch,
    updatedAt: now,
    version: job.version + decision.events.length,
  };
  // The version guarantees that the row equals `job`, so unchanged fields are not written and their indexes not touched.
  const fields = (Object.keys(patch) as JobField[]).filter((field) => patch[field] !== job[field]);
  const steps: Step[] = [
    {
      sql: updateSql(fields),
      params: [...fields.map((field) => columnValue(field, patch[field])), job.id, job.version],
      expect: 1,
    },
    ...insertEvents({ job, after: job.version, events: decision.events, at: now }),
  ];
  if (decision.archive) steps.push(archiveAttempt(job, decision, now));
  if (patch.status !== undefined && patch.status !== job.status) {
    steps.push(countStep(job, job.status, -1), countStep(job, patch.status, 1));
    steps.push(...countEnded(job, { ...job, ...patch }, now));
  }
  steps.push(...retrySteps(job, retriesOf({ ...job, ...patch }) - retriesOf(job)));
  steps.push(...decision.intents);
  return steps;
}

const updateSqls = new Map<string, string>();

function updateSql(fields: readonly JobField[]): string {
  const key = fields.join();
  let sql = updateSqls.get(key);
  if (sql === undefined) {
    const assignments = fields.map((field) => `${columnOf(field)} = ?`).join(', ');
    sql = `UPDATE jobs SET ${assignments} WHERE id = ? AND version = ?`;
    updateSqls.set(key, sql);
  }
  return sql;
}

/** The job after the update, so that callers need not read it again. */
export function applyDecision(job: Job, decision: Decision, now: number): Job {
  return {
    ...job,
    ...decision.patch,
    updatedAt: now,
    version: job.version + decision.events.length,
  };
}

function insertEvents(batch: { job: Job; after: number; events: NewEvent[]; at: number }): Step[] {
  return batch.events.map((event, i) => ({
    event: {
      jobId: batch.job.id,
      n: batch.after + i + 1,
      type: event.type,
      at: batch.at,
      data: JSON.stringify(event.data),
    },
  }));
}

function archiveAttempt(job: Job, decision: Decision, now: number): Step {
  // For a manual retry the row already contains the end of the attempt; for an automatic one the event does.
  const final = job.finishedAt !== null;
  const error = final ? job.error : (decision.events[0]?.data.error ?? null);
  return {
    sql: `INSERT INTO attempts (job_id, attempt, attempt_id, status, holder, node, error, result, facts, started_at, finished_at)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    params: [
      job.id,
      job.attempt,
      job.attemptId,
      final ? job.status : 'failed',
      job.holder,
      job.node,
      asJson(error),
      asJson(decision.archiveResult ?? job.result),
      asJson(decision.archiveFacts ?? job.facts),
      job.startedAt,
      job.finishedAt ?? now,
    ],
  };
}

const asJson = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));

/** Changes the status counter of the job's queue, in total and for its owner. */
function countStep({ kind, queue, owner }: Job, key: Status, delta: number): Step {
  return { count: { scope: counterScope(kind, queue), part: owner, key, delta } };
}

/** Every attempt after the first counts as a retry, except after a cancel. */
const retriesOf = ({ attempt, retry }: Pick<Job, 'attempt' | 'retry'>): number =>
  attempt - 1 - (retry.afterCancel ?? 0);

function retrySteps({ kind, queue }: Job, delta: number): Step[] {
  return delta === 0 ? [] : [{ count: { scope: retryScope(kind, queue), key: 'retried', delta } }];
}

/**
 * Deletes ended jobs and removes them from the counters. The versions keep the counters exact: a job that was retried in
 * the meantime causes a conflict.
 */
export function deleteJobs(jobs: readonly Job[]): Step[] {
  return jobs.flatMap((job) => [
    {
      sql: 'DELETE FROM jobs WHERE id = ? AND version = ? AND finished_at IS NOT NULL',
      params: [job.id, job.version],
      expect: 1,
    },
    countStep(job, job.status, -1),
    ...retrySteps(job, -retriesOf(job)),
  ]);
}

/** The last event of a job, which outlives it. Its data decides who may see that the job was deleted. */
export function deletedEvents(jobs: readonly Job[], at: number): Step[] {
  return jobs.map(({ id, version, owner, kind, queue }) => ({
    event: {
      jobId: id,
      n: version + 1,
      type: 'deleted',
      at,
      data: JSON.stringify({ owner, kind, queue }),
    },
  }));
}

/** For changes that still conflict after many tries. */
export function tooBusy(): AppError {
  return new AppError('unavailable', 'The job kept changing while this was being applied.', {
    hint: 'Try again.',
  });
}
