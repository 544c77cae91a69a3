// `errand store check` verifies every page, every row's encoding and every derived counter. It reads one consistent snapshot,
// works with and without running servers, and changes nothing.
import { existsSync } from 'node:fs';
import { kinds, searchIndexes } from './app.ts';
import { accessJsonColumns } from './access/keys.ts';
import { clusterJsonColumns } from './cluster/store.ts';
import { isPostgres, storeAddress } from './config.ts';
import { environment, homePlace } from './config-place.ts';
import { AppError } from './errors.ts';
import { databaseOf } from './home-ledger.ts';
import { checkJobs, jobJsonColumns } from './jobs/check.ts';
import { checkDispatch } from './store/check-dispatch.ts';
import { checkRows, type Snapshot } from './store/check.ts';
import { openPostgresSnapshot } from './store/postgres/snapshot.ts';
import { openSqliteSnapshot } from './store/sqlite/snapshot.ts';
import type { JsonColumns, Problem, StoreReader } from './store/store.ts';
import { webhookJsonColumns } from './webhooks/rows.ts';

interface StoreCheck {
  ok: boolean;
  store: string;
  tables: number;
  rows: number;
  problems: Problem[];
  /** Checks that this store does not support. */
  notes: string[];
}

export async function checkStore(options: { home?: string; store?: string }): Promise<StoreCheck> {
  const address = storeAddress(options);
  const isCluster = address !== undefined && isPostgres(address);
  const path = databaseOf(homePlace(options.home, environment()).home);
  if (!isCluster && !existsSync(path))
    throw new AppError('notFound', `There is no database at ${path}.`, {
      hint: 'Choose the home with --home, or a PostgreSQL store with --store.',
    });
  const snapshot = isCluster ? await openPostgresSnapshot(address) : openSqliteSnapshot(path);
  try {
    return { store: isCluster ? 'PostgreSQL' : path, ...(await checkSnapshot(snapshot)) };
  } finally {
    await snapshot.close();
  }
}

async function checkSnapshot(snapshot: Snapshot): Promise<Omit<StoreCheck, 'store'>> {
  const { problems: pages, notes } = await snapshot.verifyPages();
  const problems: Problem[] = pages.map((text) => ({ check: 'pages', text }));
  const json: JsonColumns = Object.assign(
    {},
    jobJsonColumns,
    webhookJsonColumns,
    accessJsonColumns,
    clusterJsonColumns,
    ...kinds.map((kind) => kind.jsonColumns ?? {}),
  );
  const rows = await checkRows(snapshot, json, searchIndexes());
  problems.push(...rows.problems);
  const undispatched = kinds.flatMap((kind) => kind.undispatched ?? []);
  const checks = [
    checkJobs,
    (reader: StoreReader) => checkDispatch(reader, undispatched),
    ...kinds.flatMap((kind) => kind.check ?? []),
  ];
  for (const check of checks) {
    try {
      problems.push(...(await check(snapshot)));
    } catch (error) {
      // The damage reported above may prevent this check.
      problems.push({ check: 'counters', text: `not verified: ${(error as Error).message}` });
    }
  }
  const { tables, rows: count } = rows;
  return { ok: problems.length === 0, tables, rows: count, problems, notes };
}
