// Types of a read page in every format: the contract between this folder and the crawl.

export const pageFormats = [
  'markdown',
  'text',
  'html',
  'links',
  'metadata',
  'structuredData',
  'images',
] as const;
export type PageFormat = (typeof pageFormats)[number];

export interface PageOptions {
  /** The final URL after redirects. Relative links are resolved against it. */
  url: string;
  /** The Content-Type header, if present. */
  contentType?: string;
  /**
   * Default: markdown and metadata. With only links, metadata and structured data, no tree is built, which is
   * much cheaper.
   */
  formats?: readonly PageFormat[];
  /**
   * Default true: navigation, advertising and similar parts are left out. False: everything a reader sees.
   */
  onlyMainContent?: boolean;
  /** Includes pictures in markdown. Default false. */
  includeImages?: boolean;
  /** Includes link targets in markdown. Default true; false keeps only the link text. */
  includeLinks?: boolean;
  /** CSS selectors. Only these parts are read, regardless of the main content. */
  includeSelectors?: readonly string[];
  /** CSS selectors. These parts are removed before anything else. */
  excludeSelectors?: readonly string[];
  /** CSS selectors. Only links in these parts are followed. */
  linkSelectors?: readonly string[];
  /** A robots meta tag name whose rules apply in addition to the general ones. */
  botName?: string;
  /** Longer bodies (in characters) are cut, and `truncated` is set. */
  maxChars?: number;
}

export type PageKind = 'html' | 'text' | 'json' | 'xml' | 'feed' | 'pdf' | 'binary';

export interface PageLink {
  url: string;
  text: string;
  /** Words of the rel attribute, in lower case. */
  rel: string[];
}

export interface PageRobots {
  noindex: boolean;
  nofollow: boolean;
}

export interface PageMetadata {
  title?: string;
  description?: string;
  language?: string;
  author?: string;
  published?: string;
  modified?: string;
  siteName?: string;
  image?: string;
  type?: string;
  keywords?: string[];
  canonical?: string;
  favicon?: string;
  feeds?: string[];
  /** Every og:, twitter: and article: tag as written. */
  social: Record<string, string>;
}

/** One JSON-LD node, microdata item or RDFa resource in a common shape: `@type` and properties. */
export type DataItem = { '@type'?: string | string[] } & Record<string, unknown>;

export interface StructuredData {
  jsonLd: DataItem[];
  microdata: DataItem[];
  rdfa: DataItem[];
  /** Number of JSON-LD blocks that did not parse. */
  broken: number;
}

/** The visible text of a page that a result does not contain. */
export interface Omitted {
  words: number;
  /** Share of all visible words, 0 to 1. */
  share: number;
  /**
   * `outsideMainContent`: navigation and similar; the part that the page marks as its main one is complete.
   * `insideMainContent`: also a piece of that part. `notMainContent`: the page marks no such part.
   * `selectors`: the caller's selectors. `tooLong`: the page exceeds the limits.
   */
  reason: 'outsideMainContent' | 'insideMainContent' | 'notMainContent' | 'selectors' | 'tooLong';
}

export interface Page {
  url: string;
  kind: PageKind;
  charset: string;
  title?: string;
  markdown?: string;
  text?: string;
  html?: string;
  links?: PageLink[];
  /** The links that a crawl with `linkSelectors` follows. */
  followed?: PageLink[];
  images?: { url: string; alt: string }[];
  metadata?: PageMetadata;
  structuredData?: StructuredData;
  /** From meta robots and the tag of `botName`. The crawler reads the X-Robots-Tag header. */
  robots: PageRobots;
  /** rel=canonical, absolute. */
  canonical?: string;
  /** Target of a meta refresh of at most `maxRefreshSeconds` seconds. */
  refresh?: string;
  /** Words of the main text, or of all visible text if no main text was requested. */
  wordCount: number;
  /** SHA-256 of the text that wordCount counts. */
  textHash: string;
  /** SHA-256 of the title and all visible text. Pages with the same hash are duplicates. */
  pageHash: string;
  /** The page has almost no text and is rendered by scripts: a browser is needed. */
  needsBrowser: boolean;
  /** The body was longer than maxChars. */
  truncated?: boolean;
  /** Number of PDF pages. */
  pages?: number;
  /** Set when the text is not the whole page. */
  omitted?: Omitted;
  /** Words that a reader of the page does not see. They are left out, and may be addressed to a model. */
  hiddenWords?: number;
  /** The origin of the text when it is not the visible page. */
  source?: 'embedded';
}
