// What a search is and what it answers. Every row names its engine; every engine that was asked
// says how it went; what could not be searched is said in `notice`.
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
  /** Two letters, as de or en. */
  language?: string;
  country?: string;
  safesearch?: 0 | 1 | 2;
  freshness?: Freshness;
}

/** What an engine may not know how to narrow its rows by; then it is said. */
export const narrowings = ['language', 'country', 'safesearch', 'freshness'] as const;
export type Narrowing = (typeof narrowings)[number];

export interface SearchRow {
  title: string;
  url: string;
  snippet: string;
  engine: EngineName;
  /** Where a meta engine has it from. */
  source?: string;
  position: number;
  published?: string;
  /** Of a page crawled here; when it was published is not known. */
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
  /** Partial trouble: a meta engine's own engines that did not answer. */
  warnings?: string[];
  /** Wishes that this engine does not know. */
  ignored?: Narrowing[];
}

export interface Infobox {
  title: string;
  content: string;
  url?: string;
}

export interface SearchAnswer {
  query: string;
  kind: SearchKind;
  rows: SearchRow[];
  suggestions: string[];
  infobox?: Infobox;
  engines: EngineReport[];
  /** What the reader must know to trust the rows: no general engine, none that answered … */
  notice?: string;
}

export type FoundRow = Omit<SearchRow, 'engine' | 'position'>;

export interface Found {
  rows: FoundRow[];
  suggestions?: string[];
  infobox?: Infobox;
  warnings?: string[];
}

export interface Engine {
  name: EngineName;
  /** Searches the whole web, not one source. */
  general: boolean;
  kinds: readonly SearchKind[];
  takes: readonly Narrowing[];
  search(request: SearchRequest, signal: AbortSignal): Promise<Found>;
  suggest?(query: string, signal: AbortSignal, language?: string): Promise<string[]>;
}

/** Full text over the pages crawled here; implemented by the crawl's store. */
export interface PageSearch {
  searchPages(query: string, window: { limit: number; offset: number }): Promise<PageHit[]>;
}

export interface PageHit {
  url: string;
  title?: string;
  snippet: string;
  /** Epoch milliseconds of the fetch. */
  fetchedAt?: number;
}

export interface SearchParts {
  settings: SearchSettings;
  egress: Egress;
  clock: Clock;
  /** The value of a named key, if it is set. */
  secret(name: string): string | undefined;
  pages?: PageSearch;
}
