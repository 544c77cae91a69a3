// One page of a job list in a given order. The cursor is the position of the last job, so that pages never overlap.
import type { ListSort } from '../../contracts/jobs.ts';
import { AppError } from '../../errors.ts';
import type { Job } from '../job.ts';
import type { Jobs } from '../jobs.ts';
import type { JobFilter } from '../ledger.ts';
import { sortJobs, type Position, type SortKey } from '../scan.ts';

interface Page {
  jobs: Job[];
  next: string | undefined;
  /** One cursor per job, for pages that are truncated. */
  cursors: string[];
}

interface PageRequest {
  sort: ListSort;
  limit: number;
  cursor?: string | undefined;
}

export async function listPage(
  jobs: Jobs,
  filter: JobFilter,
  { sort, limit, cursor }: PageRequest,
): Promise<Page> {
  const [by, direction] = sort.split('-') as [SortKey | 'created', 'asc' | 'desc'];
  const ascending = direction === 'asc';
  if (by === 'created') {
    const at = cursor === undefined ? undefined : cursorNumber(cursor);
    const from = at === undefined ? {} : ascending ? { after: at } : { before: at };
    const page = await jobs.ledger.list(filter, { limit, ascending, ...from });
    const next = page.next === undefined ? undefined : String(page.next);
    return { jobs: page.jobs, next, cursors: page.cursors.map(String) };
  }
  const after = cursor === undefined ? undefined : position(cursor);
  const found = await sortJobs(jobs.store, filter, { by, ascending, after, limit: limit + 1 });
  const bySeq = await jobs.ledger.findBySeq(found.slice(0, limit).map(({ seq }) => seq));
  // A job that was deleted in the meantime is left out.
  const shown = found.slice(0, limit).filter(({ seq }) => bySeq.has(seq));
  const last = found.length > limit ? found[limit - 1] : undefined;
  return {
    jobs: shown.map(({ seq }) => bySeq.get(seq)!),
    next: last && cursorOf(last),
    cursors: shown.map(cursorOf),
  };
}

const cursorOf = ({ value, seq }: Position): string => `${value}.${seq}`;

function position(cursor: string): Position {
  const [value, seq, ...more] = cursor.split('.').map(Number);
  if (more.length === 0 && Number.isSafeInteger(value) && Number.isSafeInteger(seq))
    return { value: value!, seq: seq! };
  throw wrongCursor();
}

export function cursorNumber(cursor: string): number {
  const n = Number(cursor);
  if (Number.isSafeInteger(n) && n >= 0) return n;
  throw wrongCursor();
}

const wrongCursor = (): AppError =>
  new AppError('invalidInput', 'The cursor is not valid for this list.', {
    hint: 'Pass nextCursor of the previous page unchanged, with the same order.',
  });
