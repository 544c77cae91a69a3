// Recomputes everything the core derives from events: versions, states, attempts and queue counters. Each check lists
// the differences; an empty list means that the stored values are exact.
import { byName } from '../runtime/by-name.ts';
import { decodeJsonOr, isAnything, isRecord } from '../runtime/json.ts';
import { partScope, type JsonColumns, type Problem, type StoreReader } from '../store/store.ts';
import { counterScope, retryScope } from './intents.ts';
import { columnOf, hasExpectedType, jsonFields } from './job.ts';

/** The events that begin another attempt. */
const nextAttempt = `('attemptFailed', 'attemptLost', 'retried')`;

const maxProblems = 50;

export async function checkJobs(reader: StoreReader): Promise<Problem[]> {
  const texts = [
    ...(await checkHistories(reader)),
    ...(await checkStates(reader)),
    ...(await checkDependencies(reader)),
    ...(await checkCounters(reader)),
  ];
  return texts.map((text) => ({ check: 'counters', text }));
}

/** A job's version equals its number of events. Its attempt number is one more than the events that began another attempt. */
async function checkHistories(reader: StoreReader): Promise<string[]> {
  const rows = await reader.read<Record<'id' | 'version' | 'events' | 'last', string | number>>(
    `SELECT j.id, j.version, coalesce(e.events, 0) AS events, coalesce(e.last, 0) AS last
     FROM jobs j LEFT JOIN
       (SELECT job_id, count(*) AS events, max(n) AS last FROM events GROUP BY job_id) e ON e.job_id = j.id
     WHERE j.version <> coalesce(e.events, 0) OR j.version <> coalesce(e.last, 0) LIMIT ${maxProblems}`,
  );
  const attempts = await reader.read<Record<'id' | 'attempt' | 'begun' | 'kept', string | number>>(
    `SELECT j.id, j.attempt, coalesce(e.begun, 0) AS begun, coalesce(a.kept, 0) AS kept FROM jobs j
     LEFT JOIN (SELECT job_id, count(*) AS begun FROM events WHERE type IN ${nextAttempt} GROUP BY job_id) e
       ON e.job_id = j.id
     LEFT JOIN (SELECT job_id, count(*) AS kept FROM attempts GROUP BY job_id) a ON a.job_id = j.id
     WHERE j.attempt - 1 <> coalesce(e.begun, 0) OR j.attempt - 1 <> coalesce(a.kept, 0)
     LIMIT ${maxProblems}`,
  );
  return [
    ...rows.map(
      ({ id, version, events, last }) =>
        `job ${id}: version ${version}, but it has ${events} events and the last one is number ${last}`,
    ),
    ...attempts.map(
      ({ id, attempt, begun, kept }) =>
        `job ${id}: attempt ${attempt}, but its events began ${begun} further attempts and ${kept} are stored`,
    ),
  ];
}

/** The statuses a job may have after each event, if that event is the last one that changes the status. */
const statesAfter: Readonly<Record<string, readonly string[]>> = byName({
  started: ['running', 'input_required', 'queued'],
  attemptFailed: ['queued'],
  attemptLost: ['queued'],
  retried: ['queued'],
  completed: ['completed'],
  failed: ['failed'],
  cancelled: ['cancelled'],
  timed_out: ['timed_out'],
});

/** Checks only jobs that started at least once: other jobs follow the rules of their kind. */
async function checkStates(reader: StoreReader): Promise<string[]> {
  const types = Object.keys(statesAfter);
  const rows = await reader.read<{ id: string; status: string; type: string }>(
    `SELECT j.id, j.status, e.type FROM jobs j JOIN events e ON e.job_id = j.id
     WHERE e.n = (SELECT max(m.n) FROM events m WHERE m.job_id = j.id
         AND m.type IN (${types.map((type) => `'${type}'`).join(', ')}))
       AND EXISTS (SELECT 1 FROM events s WHERE s.job_id = j.id AND s.type = 'started')
       AND NOT (${types.map((type) => `(e.type = '${type}' AND j.status IN (${statesAfter[type]!.map((s) => `'${s}'`).join(', ')}))`).join(' OR ')})
     LIMIT ${maxProblems}`,
  );
  return rows.map(({ id, status, type }) => `job ${id}: ${status}, but its last event is ${type}`);
}

async function checkDependencies(reader: StoreReader): Promise<string[]> {
  const rows = await reader.read<Record<'id' | 'waiting' | 'open', string | number>>(
    `SELECT j.id, j.waiting_for AS waiting, coalesce(d.open, 0) AS open FROM jobs j
     LEFT JOIN (SELECT job_id, count(*) AS open FROM dependencies GROUP BY job_id) d ON d.job_id = j.id
     WHERE j.waiting_for > 0 AND j.waiting_for <> coalesce(d.open, 0) LIMIT ${maxProblems}`,
  );
  return rows.map(
    ({ id, waiting, open }) =>
      `job ${id}: waits for ${waiting} jobs, but ${open} dependencies are stored`,
  );
}

/** Checks queue counters (in total and per owner) and retry counters. */
async function checkCounters(reader: StoreReader): Promise<string[]> {
  const expected = new Map<string, number>();
  const add = (scope: string, key: string, n: number) => {
    const name = counterName(scope, key);
    expected.set(name, (expected.get(name) ?? 0) + n);
  };
  const jobs = await reader.read<Counted & { owner: string; status: string }>(
    `SELECT kind, queue, owner, status, count(*) AS n FROM jobs GROUP BY kind, queue, owner, status`,
  );
  for (const { kind, queue, owner, status, n } of jobs) {
    const scope = counterScope(kind, queue);
    add(scope, status, Number(n));
    add(partScope(scope, owner), status, Number(n));
  }
  const retries = await reader.read<Counted>(
    `SELECT j.kind, j.queue, count(*) AS n FROM events e JOIN jobs j ON j.id = e.job_id
     WHERE e.type IN ${nextAttempt} GROUP BY j.kind, j.queue`,
  );
  for (const { kind, queue, n } of retries) add(retryScope(kind, queue), 'retried', Number(n));
  const afterCancel = await reader.read<Omit<Counted, 'n'> & { retry: string }>(
    `SELECT kind, queue, retry FROM jobs WHERE retry LIKE '%"afterCancel"%'`,
  );
  for (const { kind, queue, retry } of afterCancel)
    add(retryScope(kind, queue), 'retried', -afterCancelOf(retry));
  const kept = await storedCounters(reader);
  const names = new Set([...expected.keys(), ...kept.keys()]);
  return [...names]
    .filter((name) => (expected.get(name) ?? 0) !== (kept.get(name) ?? 0))
    .toSorted()
    .slice(0, maxProblems)
    .map(
      (name) =>
        `counter ${name}: stored ${kept.get(name) ?? 0}, counted ${expected.get(name) ?? 0}`,
    );
}

interface Counted {
  kind: string;
  queue: string;
  n: number | string;
}

const counterName = (scope: string, key: string): string => `${scope} ${key}`;

async function storedCounters(reader: StoreReader): Promise<Map<string, number>> {
  const deltas =
    reader.engine === 'postgres' ? 'UNION ALL SELECT scope, key, n FROM counter_deltas' : '';
  const rows = await reader.read<{ scope: string; key: string; n: number | string }>(
    `SELECT scope, key, sum(n) AS n FROM (SELECT scope, key, n FROM counters ${deltas}) AS stored
     WHERE scope LIKE 'queue:%' OR scope LIKE 'retries:%' GROUP BY scope, key`,
  );
  return new Map(rows.map(({ scope, key, n }) => [counterName(scope, key), Number(n)]));
}

/** Core columns that contain JSON. */
export const jobJsonColumns: JsonColumns = {
  jobs: Object.fromEntries(
    [...jsonFields].map((field) => [
      columnOf(field),
      (value: unknown) => hasExpectedType(field, value),
    ]),
  ),
  attempts: { error: isRecord, result: isAnything, facts: isRecord },
  events: { data: isRecord },
};

/** Retries of a cancelled job do not count. */
function afterCancelOf(text: string): number {
  const policy = decodeJsonOr(text, {}) as { afterCancel?: unknown } | null;
  return typeof policy?.afterCancel === 'number' ? policy.afterCancel : 0;
}
