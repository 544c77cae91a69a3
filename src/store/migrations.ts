// Rejects a database that a newer version has migrated. Both stores use it.
import { AppError } from '../errors.ts';
import type { Migration } from './store.ts';

/** An unknown migration of a known owner comes from a newer version. Migrations of kinds that are not installed are ignored. */
export function rejectNewer(applied: ReadonlySet<string>, known: readonly Migration[]): void {
  const ids = new Set(known.map(({ id }) => id));
  const owners = new Set(known.map(({ id }) => id.split('/')[0]));
  const newer = [...applied].filter((id) => !ids.has(id) && owners.has(id.split('/')[0]));
  if (newer.length === 0) return;
  throw new AppError(
    'unavailable',
    `The database was written by a newer version of Errand (${newer.join(', ')}).`,
    {
      hint: 'Start the newer version, or restore a backup from before the upgrade. Nothing was changed.',
    },
  );
}
