// What a page is after reading, for every format: the contract between this folder and the crawl.

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
  /** The final address after redirects: relative links are resolved against it. */
  url: string;
  /** The Content-Type header, if there was one. */
  contentType?: string;
  /**
   * Default: markdown and metadata. Only links, metadata and structured data: no tree is built,
   * which is far cheaper.
   */
  formats?: readonly PageFormat[];
  /**
   * Default true: navigation, advertising and the rest are left out. False: everything a reader
   * sees.
   */
  onlyMainContent?: boolean;
  /** Pictures in markdown. Default false. */
  includeImages?: boolean;
  /** Link targets in markdown. Default true; false keeps their text. */
  includeLinks?: boolean;
  /** CSS selectors: only these parts are read, whatever the main content is. */
  includeSelectors?: readonly string[];
  /** CSS selectors: these parts are left out before anything else. */
  excludeSelectors?: readonly string[];
  /** CSS selectors: of the links only those in these parts are for following. */
  linkSelectors?: readonly string[];
  /** Whose robots rules count beside those for everybody: the name of a meta tag. */
  botName?: string;
  /** Longer bodies (characters) are cut, and `truncated` says so. */
  charsMax?: number;
}

export type PageKind = 'html' | 'text' | 'json' | 'xml' | 'feed' | 'pdf' | 'binary';

export interface PageLink {
  url: string;
  text: string;
  /** Words of the rel attribute, lower case. */
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

/** One JSON-LD node, microdata item or RDFa resource, in one shape: `@type` and properties. */
export type DataItem = { '@type'?: string | string[] } & Record<string, unknown>;

export interface StructuredData {
  jsonLd: DataItem[];
  microdata: DataItem[];
  rdfa: DataItem[];
  /** JSON-LD blocks that did not parse: said, not hidden. */
  broken: number;
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
  /** Those that a crawl with `linkSelectors` follows. */
  followed?: PageLink[];
  images?: { url: string; alt: string }[];
  metadata?: PageMetadata;
  structuredData?: StructuredData;
  /** From meta robots and the tag of `botName`; the X-Robots-Tag header is the crawler's to read. */
  robots: PageRobots;
  /** rel=canonical, absolute. */
  canonical?: string;
  /** Target of a meta refresh of at most `refreshSecondsMax` seconds. */
  refresh?: string;
  /** Words of the main text (of all visible text where no main text was asked for). */
  wordCount: number;
  /** SHA-256 of the normalised text that wordCount counts: equal texts are duplicates. */
  textHash: string;
  /** Hardly any text but scripts that would bring it: a browser is needed. */
  needsBrowser: boolean;
  /** The body was longer than charsMax. */
  truncated?: boolean;
  /** Number of pages of a PDF. */
  pages?: number;
  /** Where the text came from when not from the visible page. */
  source?: 'embedded';
}
