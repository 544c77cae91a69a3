// The parts of web operations that these views show.
import type { Tone } from '../../parts/mark.tsx';
import type { Job } from '../../types.ts';

export interface Page {
  n: number;
  url: string;
  outcome: string;
  status?: number;
  title?: string;
  reason?: string;
  detail?: string;
  type?: string;
  bytes?: number;
  depth?: number;
  via?: string;
  from?: string;
  target?: string;
  change?: string;
  at?: string;
  markdown?: string;
  diff?: string;
  screenshot?: string;
  data?: unknown;
  nextOffset?: number;
}

export interface PageList {
  pages: Page[];
  nextCursor?: string;
  more: boolean;
}

export const outcomes = [
  'fetched',
  'unchanged',
  'errored',
  'skipped',
  'disallowed',
  'redirected',
  'duplicate',
  'queued',
] as const;

export const outcomeTones: Readonly<Record<string, Tone>> = {
  fetched: 'ok',
  unchanged: 'ok',
  errored: 'bad',
  skipped: 'off',
  disallowed: 'off',
  redirected: 'run',
  duplicate: 'off',
  queued: 'wait',
};

/** Counts of a crawl: in the job while it runs, in its result afterwards. */
export interface Counts {
  pages?: number;
  outcomes?: Record<string, number>;
  changes?: Record<string, number>;
  bytes?: number;
  stopReason?: string;
  warnings?: string[];
}

export function countsOf(job: Job): Counts {
  const { result } = job;
  return result !== null && typeof result === 'object' ? result : (job as Counts);
}

export interface CrawlInput {
  url?: string;
  urls?: string[];
  formats?: string[];
  schema?: unknown;
  compareWith?: string;
  maxPages?: number;
}
