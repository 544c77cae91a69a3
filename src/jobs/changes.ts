// From a decision to the steps of one transaction: the guarded update of the job's row, its events, the kept counters,
// the archived attempt. The version in the WHERE clause is the fence: whoever decided on an older row gets a conflict.
import type { Step } from '../store/store.ts';
import type { Decision, NewEvent } from './decision.ts';
import { counterScope, retryScope } from './intents.ts';
import { columnOf, columnValue, jobFields, type Job, type JobField, type Status } from './job.ts';

export function insertJob(job: Job, events: NewEvent[]): Step[] {
  return [
    {
      sql: insertSql,
      params: jobFields.map((field) => columnValue(field, job[field])),
      expect: 1,
    },
    ...insertEvents({ job, after: 0, events, at: job.createdAt }),
    countStep(job, job.status, 1),
  ];
}

const insertSql = `INSERT INTO jobs (${jobFields.map(columnOf).join(', ')})
  VALUES (${jobFields.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`;

/** The text that was written as the input of a new job. */
export function writtenInput([insert]: readonly Step[]): string {
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
  // The version says that the row is as we know it: what stays the same is not written (and no index looked at).
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
  }
  if (patch.attempt !== undefined) steps.push(...retrySteps(job, patch.attempt - job.attempt));
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

/** The job as it is after the update, so that nobody has to read it again. */
export function patched(job: Job, decision: Decision, now: number): Job {
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
  // For a retry by hand the row already holds the end; for an automatic one the event does.
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

/** A job more or less of this status, in its queue and among its owner's jobs there. */
function countStep({ kind, queue, owner }: Job, key: Status, delta: number): Step {
  return { count: { scope: counterScope(kind, queue), part: owner, key, delta } };
}

/** Every attempt after the first counts as a retry. */
function retrySteps({ kind, queue }: Job, delta: number): Step[] {
  return delta === 0 ? [] : [{ count: { scope: retryScope(kind, queue), key: 'retried', delta } }];
}

/**
 * Deletes ended jobs and removes them from the counters. The versions prove that the counts are right: a job that was
 * retried meanwhile is a conflict.
 */
export function deleteJobs(jobs: readonly Job[]): Step[] {
  return jobs.flatMap((job) => [
    {
      sql: 'DELETE FROM jobs WHERE id = ? AND version = ? AND finished_at IS NOT NULL',
      params: [job.id, job.version],
      expect: 1,
    },
    countStep(job, job.status, -1),
    ...retrySteps(job, 1 - job.attempt),
  ]);
}
