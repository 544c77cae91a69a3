// In which order a client reads what a crawl has: its pages, then those that are gone since the last time, then what the site
// answered where there is no page (404 …), as far as the limit has room. Each part is read with a cursor of its own.
import type { Fields } from './translate.ts';

type Part = 'pages' | 'removed' | 'answered';

export interface Counts {
  pages?: number;
  fates?: Record<string, number>;
  reasons?: Record<string, number>;
  changes?: { removed?: number };
  creditsUsed?: number;
}

export interface Reading {
  query: URLSearchParams;
  counts: Counts;
  limit: number;
  /** It compares with an earlier crawl. */
  tracks: boolean;
  ended: boolean;
}

const wishes: Record<Part, Fields> = {
  pages: {},
  removed: { change: 'removed' },
  answered: { fates: ['errored'] },
};

/** Which rows read_pages is asked for. */
export const wishOfPart = ({ query }: Reading): Fields => wishes[partOf(query)];

/** Those of the rows that are documents. */
export function documentsOf(reading: Reading, rows: Fields[]): Fields[] {
  if (partOf(reading.query) !== 'answered') return rows;
  // What is gone was told as such.
  return rows
    .filter((row) => isAnswer(`errored:${String(row.reason)}`) && row.change !== 'removed')
    .slice(0, answers(reading) - told(reading));
}

/** How many documents without a page there are, as soon as that is known. */
export function answers({ counts, limit, ended }: Reading): number {
  if (!ended) return 0;
  const all = Object.entries(counts.reasons ?? {}).filter(([name]) => isAnswer(name));
  const room = Math.max(limit - (counts.pages ?? 0), 0);
  return Math.min(
    all.reduce((sum, [, n]) => sum + n, 0),
    room,
  );
}

/** What to ask for after these rows; undefined: that was all so far. */
export function nextOf(
  reading: Reading,
  { position, cursor, documents }: { position: number; cursor?: string; documents: number },
): string | undefined {
  const part = partOf(reading.query);
  if (part === 'pages' && position < (reading.counts.pages ?? 0))
    return `skip=${cursor ?? position}`;
  if (part === 'removed' && cursor !== undefined) return `skip=${cursor}&removed=1`;
  const count = part === 'answered' ? told(reading) + documents : 0;
  if (part === 'answered')
    return cursor !== undefined && count < answers(reading)
      ? `skip=${cursor}&answered=${count}`
      : undefined;
  if (!reading.ended) return undefined;
  if (part === 'pages' && reading.tracks && reading.counts.changes?.removed)
    return 'skip=0&removed=1';
  return answers(reading) > 0 ? 'skip=0&answered=0' : undefined;
}

const partOf = (query: URLSearchParams): Part =>
  query.has('removed') ? 'removed' : query.has('answered') ? 'answered' : 'pages';

const told = ({ query }: Reading): number => Number(query.get('answered') ?? 0);

const isAnswer = (reason: string): boolean => /^errored:http\d{3}$/.test(reason);
