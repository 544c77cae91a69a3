// Tests one job against a filter in memory, for streams. The ledger tests the same filter in SQL, for lists.
import type { Job } from './job.ts';
import type { JobFilter } from './ledger.ts';

/** Whether the job matches all parts of the filter that never change during its life. */
export function matchesFixed(job: Job, filter: JobFilter): boolean {
  const { owner, kinds, queue, queues, name, tags, parentId, createdAfter, createdBefore } = filter;
  return (
    (owner === undefined || job.owner === owner) &&
    (kinds === undefined || kinds.includes(job.kind)) &&
    (queue === undefined || job.queue === queue) &&
    (queues === undefined || queues.includes(job.queue)) &&
    (name === undefined || job.name === name) &&
    (tags === undefined || tags.every((tag) => job.tags.includes(tag))) &&
    (parentId === undefined || job.parentId === parentId) &&
    (createdAfter === undefined || job.createdAt >= createdAfter) &&
    (createdBefore === undefined || job.createdAt < createdBefore)
  );
}

/** Whether the job matches the parts that change: its status, and text that may occur in its error. */
export function matchesCurrent(job: Job, { statuses, text }: JobFilter): boolean {
  if (statuses !== undefined && !statuses.includes(job.status)) return false;
  return text === undefined || containsText(job, text);
}

function containsText({ name, input, error }: Job, text: string): boolean {
  const inJson = JSON.stringify(text).slice(1, -1).toLowerCase();
  return (
    (name ?? '').toLowerCase().includes(text.toLowerCase()) ||
    json(input).replaceAll('","', ' ').includes(inJson) ||
    json(error).includes(inJson)
  );
}

const json = (value: unknown): string => (JSON.stringify(value) ?? '').toLowerCase();
