// Crawl options. The same schema validates the job input, crawl_site and the requests that dialects translate.
import { z } from 'zod';
import { maxActions } from '../browser/actions.ts';
import { pageAction } from '../browser/page-action.ts';
import { maxPatternChars, maxPatterns } from './frontier/patterns.ts';
import { maxUrlChars } from '../url.ts';

const crawlFormats = [
  'markdown',
  'text',
  'html',
  'raw',
  'links',
  'metadata',
  'structuredData',
  'images',
  'screenshot',
] as const;

const maxPages = 1_000_000;
const maxSeeds = 10_000;
const day = 86_400_000;

const pattern = z.string().min(1).max(maxPatternChars);
const webUrl = z.string().min(1).max(maxUrlChars);

export const reading = {
  onlyMainContent: z
    .boolean()
    .optional()
    .describe('Default true: omits navigation, footers and similar parts'),
  includeSelectors: z
    .array(z.string().max(500))
    .max(50)
    .optional()
    .describe('CSS selectors: read only these parts'),
  excludeSelectors: z
    .array(z.string().max(500))
    .max(50)
    .optional()
    .describe('CSS selectors: omit these parts'),
  includeImages: z.boolean().optional().describe('Keep images in Markdown'),
  includeLinks: z.boolean().optional().describe('Keep link targets in Markdown; default true'),
};

export const pageActions = z
  .array(pageAction)
  .min(1)
  .max(maxActions)
  .describe('Browser actions on each page before it is read (wait, click, scroll …)');

export const renderModes = ['never', 'auto', 'always'] as const;

export const webhook = z.strictObject({
  url: webUrl,
  events: z
    .array(z.enum(['start', 'page', 'end', 'completed', 'failed']))
    .default(['end'])
    .describe('end: completed or failed'),
  secret: z
    .string()
    .max(200)
    .optional()
    .describe('Signs the body (HMAC-SHA256). Not stored with the job'),
  headers: z.record(z.string().max(100), z.string().max(4000)).optional(),
  format: z
    .string()
    .regex(/^[a-z-]{1,40}$/)
    .default('errand')
    .describe('Format of the body: errand, or the name of a dialect'),
  metadata: z.record(z.string(), z.unknown()).optional().describe('Included in every message'),
});
export type WebhookOptions = z.infer<typeof webhook>;

export const crawlOptions = z.strictObject({
  url: webUrl.optional().describe('URL to start at'),
  urls: z
    .array(webUrl)
    .max(maxSeeds)
    .optional()
    .describe('Several start URLs; with maxDepth 0 a list of pages'),
  maxPages: z
    .number()
    .int()
    .min(1)
    .max(maxPages)
    .default(100)
    .describe('Maximum number of pages to store, 1 to 1,000,000'),
  maxDepth: z
    .number()
    .int()
    .min(0)
    .max(1000)
    .optional()
    .describe('Maximum clicks from the start, 0 to 1,000; 0: only the start'),
  include: z
    .array(pattern)
    .max(maxPatterns)
    .optional()
    .describe('Regular expressions (RE2): follow only URLs that match one'),
  exclude: z
    .array(pattern)
    .max(maxPatterns)
    .optional()
    .describe('Regular expressions (RE2): skip URLs that match one'),
  startsMatch: z
    .boolean()
    .optional()
    .describe('Read start URLs that include and exclude reject only for their links'),
  patternsOn: z
    .enum(['url', 'path'])
    .default('url')
    .describe('What include and exclude match: the whole URL or only its path'),
  scope: z
    .enum(['path', 'host'])
    .default('host')
    .describe('path: only below the folder of the start URL'),
  subdomains: z.boolean().default(false).describe('Include other hosts of the same domain'),
  externalLinks: z.boolean().default(false).describe('Include pages of other sites, one click out'),
  linkSelectors: z
    .array(z.string().max(500))
    .min(1)
    .max(50)
    .optional()
    .describe('CSS selectors: follow only links in these parts, such as a next-page button'),
  query: z.enum(['keep', 'strip']).default('keep').describe('strip: remove the query from URLs'),
  sitemap: z
    .enum(['include', 'skip', 'only'])
    .default('include')
    .describe('Whether to read sitemaps'),
  robots: z.enum(['obey', 'ignore']).default('obey').describe('ignore: only for your own sites'),
  delayMs: z
    .number()
    .int()
    .min(0)
    .max(day)
    .optional()
    .describe('Pause between requests to one host'),
  concurrency: z.number().int().min(1).max(100).optional().describe('Concurrent requests'),
  hostConcurrency: z
    .number()
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe('Concurrent requests per host'),
  pathBudgets: z
    .record(z.string().max(200), z.number().int().min(0))
    .optional()
    .describe('Path prefix → maximum number of pages'),
  maxSimilarPages: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Maximum pages per path pattern, with numbers treated as equal; limits calendars'),
  maxTimeMs: z.number().int().min(1000).optional().describe('Stop after this many ms'),
  maxBytes: z.number().int().min(1).optional().describe('Maximum uncompressed bytes of all pages'),
  maxCredits: z.number().int().min(1).optional().describe('Maximum credits to spend'),
  formats: z
    .array(z.enum(crawlFormats))
    .min(1)
    .default(['markdown', 'metadata'])
    .describe('Formats to store for each page'),
  render: z
    .enum(renderModes)
    .default('never')
    .describe('auto: use a browser only for pages that are empty without scripts'),
  actions: pageActions.optional(),
  headers: z
    .record(z.string().max(100), z.string().max(4000))
    .optional()
    .describe('Sent only to the hosts of the start URLs'),
  webhook: webhook.optional(),
  schema: z
    .looseObject({})
    .optional()
    .describe('JSON Schema of the data to extract from each page'),
  selectors: z
    .record(z.string(), z.string().max(500))
    .optional()
    .describe('Field → CSS selector; requires schema'),
  compareWith: z
    .string()
    .max(80)
    .optional()
    .describe('Job id of an earlier crawl; reports pages as new, same, changed or removed'),
  pageTimeoutMs: z
    .number()
    .int()
    .min(1000)
    .max(300_000)
    .default(30_000)
    .describe('Maximum ms per page'),
  ...reading,
});

export type CrawlOptions = z.infer<typeof crawlOptions>;
