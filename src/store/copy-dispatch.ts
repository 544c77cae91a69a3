// Reads and restores dispatcher state in one shape for both engines: waiting entries in order, and held entries with
// their leases.
import { queueFromBossName } from './postgres/dispatcher.ts';
import type { DispatchEntry, Store } from './store.ts';

export interface HeldEntry extends DispatchEntry {
  holder: string | null;
  leaseUntil: number | null;
}

const batch = 200;

/** Ready entries come in claim order. */
export async function dispatchedEntries(store: Store): Promise<HeldEntry[]> {
  if (store.engine === 'sqlite') {
    return store.read<HeldEntry>(
      `SELECT attempt_id AS "attemptId", job_id AS "jobId", queue, priority,
         CASE state WHEN 1 THEN run_at ELSE 0 END AS "runAt", holder, lease_until AS "leaseUntil"
       FROM dispatch ORDER BY seq`,
    );
  }
  const [{ schema } = { schema: '' }] = await store.read<{ schema: string }>(
    'SELECT current_schema() AS schema',
  );
  const ready = await store.read<HeldEntry>(
    `SELECT b.data ->> 'attemptId' AS "attemptId", b.data ->> 'jobId' AS "jobId", b.name AS queue,
       b.priority, 0 AS "runAt", NULL AS holder, NULL AS "leaseUntil"
     FROM ${schema}_boss.job b WHERE b.state = 'created' ORDER BY b.created_on, b.data ->> 'jobId'`,
  );
  const later = await store.read<HeldEntry>(
    `SELECT attempt_id AS "attemptId", job_id AS "jobId", queue, priority, run_at AS "runAt",
       NULL AS holder, NULL AS "leaseUntil" FROM scheduled ORDER BY run_at`,
  );
  const held = await store.read<HeldEntry>(
    `SELECT l.attempt_id AS "attemptId", l.job_id AS "jobId", l.queue, j.priority, 0 AS "runAt",
       l.holder, l.lease_until AS "leaseUntil" FROM leases l JOIN jobs j ON j.id = l.job_id`,
  );
  return [
    ...ready.map((one) => ({ ...one, queue: queueFromBossName(one.queue) })),
    ...later,
    ...held,
  ];
}

export async function restoreEntries(store: Store, entries: readonly HeldEntry[]): Promise<void> {
  const waiting = entries.filter(({ holder }) => holder === null);
  for (let i = 0; i < waiting.length; i += batch) {
    await store.commit(
      waiting.slice(i, i + batch).map(({ attemptId, jobId, queue, priority, runAt }) => ({
        dispatch: 'enqueue' as const,
        entry: { attemptId, jobId, queue, priority, runAt },
      })),
    );
  }
  for (const entry of entries) if (entry.holder !== null) await hold(store, entry);
}

async function hold(store: Store, entry: HeldEntry): Promise<void> {
  const { attemptId, jobId, queue, priority, holder, leaseUntil } = entry;
  const step =
    store.engine === 'sqlite'
      ? {
          sql: `INSERT INTO dispatch (attempt_id, job_id, queue, priority, run_at, state, holder, lease_until)
                VALUES (?, ?, ?, ?, 0, 2, ?, ?)`,
          params: [attemptId, jobId, queue, priority, holder, leaseUntil],
        }
      : {
          sql: `INSERT INTO leases (attempt_id, job_id, queue, holder, lease_until) VALUES (?, ?, ?, ?, ?)`,
          params: [attemptId, jobId, queue, holder, leaseUntil],
        };
  await store.commit([step]);
}
