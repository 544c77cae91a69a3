// Types of stored crawl data: outcomes, the crawl, its URLs and its hosts.
import { isRecord } from '../../../runtime/json.ts';

export const urlOutcomes = [
  'queued',
  'fetched',
  'unchanged',
  'disallowed',
  'skipped',
  'errored',
  'redirected',
  'duplicate',
] as const;
export type UrlOutcome = (typeof urlOutcomes)[number];

/** A URL with one of these outcomes is a page. */
export const pageOutcomes: ReadonlySet<UrlOutcome> = new Set(['fetched', 'unchanged']);

export interface CrawlState {
  /** Hosts of the start URLs and of their redirect targets. */
  hosts: string[];
  /** Path folders for scope `path`, as origin + folder. */
  folders: string[];
  /** Sitemap files still to be read. Undefined before discovery. */
  sitemaps?: string[];
  /** Hashes of sitemap files that were read. Prevents endless loops between files. */
  sitemapsRead?: string[];
  /** Page count when links of duplicates were last followed, and the number of consecutive rounds without a new page. */
  duplicates?: { pages: number; idle: number };
  /** The job attempt whose retry was prepared. */
  attempt: number;
  stopReason?: string;
  warnings: string[];
}

export const newCrawlState = (): CrawlState => ({
  hosts: [],
  folders: [],
  attempt: 1,
  warnings: [],
});

/** Replaces an invalid stored state with an initial one. Visited URLs are not lost, because they have their own rows. */
export function crawlState(stored: unknown): CrawlState {
  const state = stored as CrawlState;
  const isState =
    isRecord(stored) &&
    [state.hosts, state.folders, state.warnings].every(isTexts) &&
    [state.sitemaps ?? [], state.sitemapsRead ?? []].every(isTexts) &&
    typeof state.attempt === 'number';
  if (isState) return state;
  return { ...newCrawlState(), warnings: ['The stored crawl state was invalid and was reset.'] };
}

const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

export interface CrawlRow {
  crawl: number;
  jobId: string;
  owner: string;
  seqNext: number;
  bytes: number;
  credits: number;
  activeMs: number;
  state: CrawlState;
  paused: boolean;
}

/** Bit of `flags`: ignore the canonical link. */
export const canonicalFlag = 1;
/** Bit of `flags`: send cookies, because a redirect led back to this URL. */
export const cookieFlag = 2;

/** A queued URL. */
export interface Waiting {
  seq: number;
  key: string;
  url: string;
  host: string;
  depth: number;
  via: string;
  tries: number;
  hops: number;
  flags: number;
}

export interface NewUrl {
  seq: number;
  key: string;
  url: string;
  host: string;
  depth: number;
  parent: number | null;
  via: string;
  outcome: UrlOutcome;
  reason?: string;
  hops?: number;
}

/** The change that a request makes to a row. */
export interface UrlChange {
  seq: number;
  outcome: UrlOutcome;
  reason?: string;
  detail?: string;
  readyAt?: number;
  tries?: number;
  target?: string;
  status?: number;
  bytes?: number;
  type?: string;
  title?: string;
  etag?: string;
  modified?: string;
  /** Hash of the main text. Shows whether the page changed since an earlier crawl. */
  textHash?: string;
  /** Hash of title and full text. Pages with the same hash are duplicates. */
  pageHash?: string;
  change?: string;
  fetchedAt?: number;
  /** Number of the page in its crawl, in order of arrival. */
  nth?: number;
  /** The page's `Omitted` value as JSON. */
  omitted?: string;
  hiddenWords?: number;
}

export interface UrlRow extends UrlChange {
  key: string;
  url: string;
  depth: number;
  via: string;
  /** Number of redirects that led here. */
  hops: number;
}

export interface HostRow {
  host: string;
  queued: number;
  readyAt: number;
  failures: number;
  rests: number;
}
