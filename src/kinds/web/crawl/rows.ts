// What a crawl remembers, as the rest of it sees it: fates, the crawl itself, its addresses and its hosts.
import { isRecord } from '../../../runtime/json.ts';

export const fates = [
  'queued',
  'fetched',
  'unchanged',
  'disallowed',
  'skipped',
  'errored',
  'redirected',
  'duplicate',
] as const;
export type Fate = (typeof fates)[number];

/** A page is an address with one of these fates. */
export const pageFates: ReadonlySet<Fate> = new Set(['fetched', 'unchanged']);

export interface CrawlState {
  /** Hosts that belong to the crawl: those of the starts and where they redirected to. */
  hosts: string[];
  /** Path folders for scope `path`, as origin + folder. */
  folders: string[];
  /** Sitemap files still to be read; undefined: not looked for yet. */
  sitemaps?: string[];
  /** Marks of those that were read: two that name each other would never end. */
  sitemapsRead?: string[];
  /** Pages there were when links of duplicates were followed last, and how often in a row that had brought none. */
  duplicates?: { pages: number; idle: number };
  /** Attempt of the job whose retry was prepared. */
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

/** A stored state that cannot be decoded becomes that of a new crawl: the addresses it has visited are rows of their own. */
export function crawlState(stored: unknown): CrawlState {
  const state = stored as CrawlState;
  const isState =
    isRecord(stored) &&
    [state.hosts, state.folders, state.warnings].every(isTexts) &&
    [state.sitemaps ?? [], state.sitemapsRead ?? []].every(isTexts) &&
    typeof state.attempt === 'number';
  if (isState) return state;
  return { ...newCrawlState(), warnings: ['The stored state of the crawl could not be decoded.'] };
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

/** Of `flags`: its canonical link is not believed. */
export const canonicalFlag = 1;
/** Of `flags`: it was sent away and back: asked as a browser would. */
export const walledFlag = 2;

/** An address that waits to be fetched. */
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
  fate: Fate;
  reason?: string;
  hops?: number;
}

/** What a request did to a row. */
export interface UrlChange {
  seq: number;
  fate: Fate;
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
  textHash?: string;
  change?: string;
  fetchedAt?: number;
  /** Of a page: the how manieth of its crawl it is, in the order in which they came in. */
  nth?: number;
}

export interface UrlRow extends UrlChange {
  key: string;
  url: string;
  depth: number;
  via: string;
  /** Redirects on the way there. */
  hops: number;
}

export interface HostRow {
  host: string;
  queued: number;
  readyAt: number;
  failures: number;
  rests: number;
}
