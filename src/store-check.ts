// `errand store check`: every page, every row's encoding, and every derived number against what it is derived from. Reads
// one consistent view, so it gives the same answer with and without running servers, and changes nothing.
import { existsSync } from 'node:fs';
import { kinds, searchIndexes } from './app.ts';
import { isPostgres, storeAddress } from './config.ts';
import { environment, homePlace } from './config-place.ts';
import { AppError } from './errors.ts';
import { databaseOf } from './home-ledger.ts';
import { checkJobs, jobJsonColumns } from './jobs/check.ts';
import { checkRows, type Snapshot } from './store/check.ts';
import { openPostgresSnapshot } from './store/postgres/snapshot.ts';
import { openSqliteSnapshot } from './store/sqlite/snapshot.ts';
import type { Problem } from './store/store.ts';

export interface StoreCheck {
  ok: boolean;
  store: string;
  tables: number;
  rows: number;
  problems: Problem[];
  /** What this store does not let us verify. */
  notes: string[];
}

export async function checkStore(wish: { home?: string; store?: string }): Promise<StoreCheck> {
  const address = storeAddress(wish);
  const isCluster = address !== undefined && isPostgres(address);
  const path = databaseOf(homePlace(wish.home, environment()).home);
  if (!isCluster && !existsSync(path))
    throw new AppError('notFound', `There is no database at ${path}.`, {
      hint: 'Name the home with --home, or a PostgreSQL store with --store.',
    });
  const snapshot = isCluster ? await openPostgresSnapshot(address) : openSqliteSnapshot(path);
  try {
    return { store: isCluster ? 'PostgreSQL' : path, ...(await checkSnapshot(snapshot)) };
  } finally {
    await snapshot.close();
  }
}

export async function checkSnapshot(snapshot: Snapshot): Promise<Omit<StoreCheck, 'store'>> {
  const { problems: pages, notes } = await snapshot.verifyPages();
  const problems: Problem[] = pages.map((text) => ({ check: 'pages', text }));
  const json = Object.assign({}, jobJsonColumns, ...kinds.map((kind) => kind.jsonColumns ?? {}));
  const rows = await checkRows(snapshot, json, searchIndexes());
  problems.push(...rows.problems);
  for (const check of [checkJobs, ...kinds.flatMap((kind) => kind.check ?? [])]) {
    try {
      problems.push(...(await check(snapshot)));
    } catch (error) {
      // Damage that is listed above may make this impossible.
      problems.push({ check: 'counters', text: `not verified: ${(error as Error).message}` });
    }
  }
  const { tables, rows: count } = rows;
  return { ok: problems.length === 0, tables, rows: count, problems, notes };
}
