// The order of a crawl's documents: its pages, then pages removed since the last crawl, then error responses of the site (404 …),
// as far as the limit allows. Each part has its own cursor.
import type { Fields } from './translate.ts';

type Part = 'pages' | 'removed' | 'answered';

/** Where a response starts or ends. `sent` counts the documents of the last part that earlier responses contained. */
export interface Place {
  part: Part;
  skip: number;
  sent: number;
}

export interface Counts {
  pages?: number;
  outcomes?: Record<string, number>;
  reasons?: Record<string, number>;
  changes?: { removed?: number };
  creditsUsed?: number;
}

export interface Reading {
  counts: Counts;
  limit: number;
  /** The crawl is compared with an earlier one. */
  tracks: boolean;
  ended: boolean;
}

const filters: Record<Part, Fields> = {
  pages: {},
  removed: { change: 'removed' },
  answered: { outcomes: ['errored'] },
};

/** The rows to request from read_pages. */
export const filterOf = ({ part }: Place): Fields => filters[part];

/** The rows that are documents. */
export function documentsOf(reading: Reading, { part, sent }: Place, rows: Fields[]): Fields[] {
  if (part !== 'answered') return rows;
  // Removed pages have their own part.
  return rows
    .filter((row) => isAnswer(`errored:${String(row.reason)}`) && row.change !== 'removed')
    .slice(0, answers(reading) - sent);
}

/** The number of documents without a page, once it is known. */
export function answers({ counts, limit, ended }: Reading): number {
  if (!ended) return 0;
  const all = Object.entries(counts.reasons ?? {}).filter(([name]) => isAnswer(name));
  const room = Math.max(limit - (counts.pages ?? 0), 0);
  return Math.min(
    all.reduce((sum, [, n]) => sum + n, 0),
    room,
  );
}

/** The position after these rows, or undefined if there is nothing more to read now. */
export function placeAfter(
  reading: Reading,
  { part, skip, sent }: Place,
  { rows, cursor, documents }: { rows: number; cursor: number | undefined; documents: number },
): Place | undefined {
  const position = skip + rows;
  if (part === 'pages' && rows > 0 && position < (reading.counts.pages ?? 0))
    return { part, skip: cursor ?? position, sent };
  if (part === 'removed' && cursor !== undefined) return { part, skip: cursor, sent };
  if (part === 'answered') {
    const all = sent + documents;
    return cursor !== undefined && all < answers(reading)
      ? { part, skip: cursor, sent: all }
      : undefined;
  }
  if (!reading.ended) return undefined;
  if (part === 'pages' && reading.tracks && reading.counts.changes?.removed)
    return { part: 'removed', skip: 0, sent: 0 };
  return answers(reading) > 0 ? { part: 'answered', skip: 0, sent: 0 } : undefined;
}

export const queryOf = ({ part, skip, sent }: Place): string =>
  `skip=${skip}${part === 'pages' ? '' : part === 'removed' ? '&removed=1' : `&answered=${sent}`}`;

/** The caller has validated `skip`. */
export const placeOf = (query: URLSearchParams, skip: number): Place => ({
  part: query.has('removed') ? 'removed' : query.has('answered') ? 'answered' : 'pages',
  skip,
  sent: Number(query.get('answered') ?? 0),
});

const isAnswer = (reason: string): boolean => /^errored:http\d{3}$/.test(reason);
