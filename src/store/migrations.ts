// What both stores say about a database that is newer than the program.
import { AppError } from '../errors.ts';
import type { Migration } from './store.ts';

/** Unknown steps of owners we know mean a newer program wrote here; a kind that is not installed is no reason to refuse. */
export function refuseNewer(applied: ReadonlySet<string>, known: readonly Migration[]): void {
  const ids = new Set(known.map(({ id }) => id));
  const owners = new Set(known.map(({ id }) => id.split('/')[0]));
  const newer = [...applied].filter((id) => !ids.has(id) && owners.has(id.split('/')[0]));
  if (newer.length === 0) return;
  throw new AppError(
    'unavailable',
    `The database was written by a newer Errand (${newer.join(', ')}).`,
    {
      hint: 'Start the newer version, or restore a backup from before the upgrade. Nothing was changed.',
    },
  );
}
