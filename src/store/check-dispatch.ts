// The dispatch part of `errand store check`: every dispatch entry belongs to the current attempt of a queued or running
// job, and every such job has one entry. Both engines are queried through one relation, so each rule is written once.
import { bossSchema } from './postgres/open.ts';
import { queueFromBossName } from './postgres/dispatcher.ts';
import type { Problem, StoreReader } from './store.ts';

const maxProblems = 50;
const running = `('running', 'input_required')`;

/** `undispatched`: job kinds that are never dispatched and therefore have no entries. */
export async function checkDispatch(
  reader: StoreReader,
  undispatched: readonly string[],
): Promise<Problem[]> {
  const entries = await entriesSql(reader);
  const texts = [
    ...(await findMisplaced(reader, entries)),
    ...(await findRepeated(reader, entries)),
    ...(await findMissing(reader, entries, undispatched)),
    ...(await findWrongQueues(reader, entries)),
  ];
  return texts.map((text) => ({ check: 'dispatch', text }));
}

/** Columns: attempt_id, job_id, queue (in the engine's spelling), held (0 or 1), holder. */
async function entriesSql(reader: StoreReader): Promise<string> {
  if (reader.engine === 'sqlite')
    return `SELECT attempt_id, job_id, queue, CASE state WHEN 2 THEN 1 ELSE 0 END AS held, holder FROM dispatch`;
  const [row] = await reader.read<{ schema: string }>('SELECT current_schema() AS schema');
  const boss = `${bossSchema(row!.schema)}.job`;
  // An active pg-boss job must have a lease. Without one, nobody notices that its holder is gone.
  return `SELECT b.data ->> 'attemptId' AS attempt_id, b.data ->> 'jobId' AS job_id, b.name AS queue,
      0 AS held, NULL AS holder FROM ${boss} b
      WHERE b.state < 'active' OR NOT EXISTS (SELECT 1 FROM leases l WHERE l.attempt_id = b.data ->> 'attemptId')
    UNION ALL SELECT attempt_id, job_id, queue, 0, NULL FROM scheduled
    UNION ALL SELECT attempt_id, job_id, queue, 1, holder FROM leases`;
}

async function findMisplaced(reader: StoreReader, entries: string): Promise<string[]> {
  const rows = await reader.read<{
    job: string;
    attempt: string;
    held: number;
    holder: string | null;
    status: string | null;
    current: string | null;
    waiting: number | null;
    runner: string | null;
  }>(
    `SELECT e.job_id AS job, e.attempt_id AS attempt, e.held, e.holder, j.status, j.attempt_id AS current,
       j.waiting_for AS waiting, j.holder AS runner
     FROM (${entries}) e LEFT JOIN jobs j ON j.id = e.job_id
     WHERE j.id IS NULL OR j.attempt_id <> e.attempt_id
       OR (e.held = 0 AND (j.status <> 'queued' OR j.waiting_for > 0))
       OR (e.held = 1 AND (j.status NOT IN ${running} OR e.holder IS NULL OR j.holder IS NULL OR j.holder <> e.holder))
     LIMIT ${maxProblems}`,
  );
  return rows.map(({ job, attempt, held, holder, status, current, waiting, runner }) => {
    const entry = `entry ${attempt}`;
    if (status === null) return `${entry}: job ${job} does not exist`;
    if (current !== attempt) return `${entry}: the current attempt of job ${job} is ${current}`;
    if (held && runner !== holder)
      return `${entry}: held by ${holder}, but the job is held by ${runner}`;
    if (waiting) return `${entry}: ready, but the job waits for ${waiting} other jobs`;
    return `${entry}: ${held ? 'held' : 'ready'}, but the job is ${status}`;
  });
}

async function findRepeated(reader: StoreReader, entries: string): Promise<string[]> {
  const rows = await reader.read<{ job: string; n: number | string }>(
    `SELECT e.job_id AS job, count(*) AS n FROM (${entries}) e GROUP BY e.job_id HAVING count(*) > 1
     LIMIT ${maxProblems}`,
  );
  return rows.map(({ job, n }) => `job ${job}: has ${n} dispatch entries`);
}

async function findMissing(
  reader: StoreReader,
  entries: string,
  undispatched: readonly string[],
): Promise<string[]> {
  const others = undispatched.map((kind) => `'${kind}'`).join(', ');
  const rows = await reader.read<{ id: string; status: string }>(
    `SELECT j.id, j.status FROM jobs j LEFT JOIN (${entries}) e ON e.attempt_id = j.attempt_id
     WHERE e.attempt_id IS NULL AND ((j.status = 'queued' AND j.waiting_for = 0) OR j.status IN ${running})
       ${others ? `AND j.kind NOT IN (${others})` : ''} LIMIT ${maxProblems}`,
  );
  return rows.map(({ id, status }) => `job ${id}: ${status}, but it has no dispatch entry`);
}

/** Groups first: queue names are decoded in JavaScript, and there are few queues. */
async function findWrongQueues(reader: StoreReader, entries: string): Promise<string[]> {
  const rows = await reader.read<Record<'written' | 'kind' | 'queue' | 'job', string>>(
    `SELECT e.queue AS written, j.kind, j.queue, min(j.id) AS job FROM (${entries}) e
     JOIN jobs j ON j.attempt_id = e.attempt_id GROUP BY e.queue, j.kind, j.queue`,
  );
  return rows
    .filter(({ written, kind, queue }) => {
      const names = [written, queueFromBossName(written)];
      return !names.includes(`${kind}:${queue}`);
    })
    .slice(0, maxProblems)
    .map(
      ({ written, kind, queue, job }) =>
        `job ${job}: its dispatch entry is in queue ${written}, but the job is in queue ${kind}:${queue}`,
    );
}
