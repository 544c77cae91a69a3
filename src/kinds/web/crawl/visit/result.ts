// The result of visiting one URL, before the writer decides the final outcome and stores it.
import type { PageBody } from '../../store/pages.ts';
import type { UrlChange, Waiting } from '../../store/rows.ts';

export interface Result {
  row: Waiting;
  change: Omit<UrlChange, 'seq'>;
  /** Page content in the requested formats. */
  body?: Omit<PageBody, 'seq' | 'owner' | 'at' | 'url'>;
  /** Markdown or text to compare with an earlier crawl, even if it is not stored. */
  compared?: string;
  /** Links that may be followed. */
  links?: readonly string[];
  /** Links marked as nofollow. */
  nofollow?: readonly string[];
  /** Redirect target. */
  redirect?: string;
  /** Target of the canonical link. */
  canonical?: string;
  /** The row of the earlier crawl that is still current (304 Not Modified). */
  unchangedSince?: { crawl: number; seq: number };
  /** What the request shows about the host. `restMs`: the host asked for a pause. */
  host: 'works' | 'fails' | 'unknown' | { restMs: number };
  /** Uncompressed size of all responses of the visit. */
  bytes: number;
  credits: number;
  browserMs?: number;
}

/** A crawl result with its final outcome. */
export interface PageReport {
  result: Result;
  change: Omit<UrlChange, 'seq'>;
}
