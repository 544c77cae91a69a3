// Types of a search request and its result. Every row names its engine, every engine that was used reports
// its outcome, and `notice` lists what could not be searched.
import type { Clock } from '../../../runtime/clock.ts';
import type { Egress } from '../../../runtime/egress/index.ts';
import type { EngineName, SearchSettings } from './settings.ts';

export type SearchKind = 'web' | 'news' | 'images';
export const freshnesses = ['day', 'week', 'month', 'year'] as const;
export type Freshness = (typeof freshnesses)[number];

export interface SearchRequest {
  query: string;
  kind: SearchKind;
  count: number;
  offset?: number;
  /** Two-letter code such as de or en. */
  language?: string;
  country?: string;
  safesearch?: 0 | 1 | 2;
  freshness?: Freshness;
}

/** Filters that an engine may not support. The report lists those it ignored. */
export const filters = ['language', 'country', 'safesearch', 'freshness'] as const;
type Filter = (typeof filters)[number];

export interface SearchRow {
  title: string;
  url: string;
  snippet: string;
  engine: EngineName;
  /** The engine that a metasearch engine got the row from. */
  source?: string;
  position: number;
  published?: string;
  /** Set for a page crawled here. Its publication date is unknown. */
  crawledAt?: string;
  imageUrl?: string;
  thumbnailUrl?: string;
  width?: number;
  height?: number;
  license?: string;
}

export interface Problem {
  code: string;
  message: string;
  hint?: string;
}

export interface EngineReport {
  engine: EngineName;
  rows: number;
  ms: number;
  problem?: Problem;
  /** Partial failures: engines of a metasearch engine that did not respond. */
  warnings?: string[];
  /** Requested filters that this engine does not support. */
  ignored?: Filter[];
}

interface Infobox {
  title: string;
  content: string;
  url?: string;
}

export interface SearchResult {
  query: string;
  kind: SearchKind;
  rows: SearchRow[];
  suggestions: string[];
  infobox?: Infobox;
  engines: EngineReport[];
  /** Limits of the result, such as a missing general engine or failed engines. */
  notice?: string;
}

export type EngineRow = Omit<SearchRow, 'engine' | 'position'>;

export interface EngineResult {
  rows: EngineRow[];
  suggestions?: string[];
  infobox?: Infobox;
  warnings?: string[];
}

export interface Engine {
  name: EngineName;
  /** Searches the whole web, not one source. */
  general: boolean;
  kinds: readonly SearchKind[];
  supports: readonly Filter[];
  search(request: SearchRequest, signal: AbortSignal): Promise<EngineResult>;
  suggest?(query: string, signal: AbortSignal, language?: string): Promise<string[]>;
}

/** Full-text search over crawled pages. The crawl store implements it. */
export interface PageSearch {
  searchPages(query: string, window: { limit: number; offset: number }): Promise<PageHit[]>;
}

interface PageHit {
  url: string;
  title?: string;
  snippet: string;
  /** Time of the fetch in epoch milliseconds. */
  fetchedAt?: number;
}

export interface SearchDeps {
  settings: SearchSettings;
  egress: Egress;
  clock: Clock;
  /** Returns the value of a named key, if it is set. */
  secret(name: string): string | undefined;
  pages?: PageSearch;
}
