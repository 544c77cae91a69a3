// What a visit to one address brought, before it is decided (against what the crawl has already) and written.
import type { PageBody } from '../pages/store.ts';
import type { UrlChange, Waiting } from './rows.ts';

export interface Result {
  row: Waiting;
  change: Omit<UrlChange, 'seq'>;
  /** Body of a page, in the wished formats. */
  body?: Omit<PageBody, 'seq' | 'owner' | 'at' | 'url'>;
  /** Markdown or text for the comparison with an earlier crawl, whether or not it is stored. */
  compared?: string;
  /** Addresses the page links to, if they may be followed. */
  links?: readonly string[];
  /** Where it redirects to. */
  redirect?: string;
  /** What it calls its own address. */
  canonical?: string;
  /** «Not modified» since this row of the earlier crawl. */
  unchangedSince?: { crawl: number; seq: number };
  /** What the request says about the host: it works, it failed, it wants to be left alone for so long. */
  host: 'works' | 'fails' | 'unknown' | { restMs: number };
  /** Of all answers of the visit, unpacked. */
  bytes: number;
  credits: number;
  browserMs?: number;
}
