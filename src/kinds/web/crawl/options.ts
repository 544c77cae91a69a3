// What a crawl can be told. The same schema is the input of the job, of crawl_site and of what dialects translate to.
import { z } from 'zod';
import { actionsMax, pageAction } from '../browser/actions.ts';
import { patternCharsMax, patternsMax } from './patterns.ts';
import { urlCharsMax } from './url.ts';

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

export const pagesMax = 1_000_000;
const seedsMax = 10_000;
const day = 86_400_000;

const pattern = z.string().min(1).max(patternCharsMax);
const webUrl = z.string().min(1).max(urlCharsMax);

export const reading = {
  onlyMainContent: z.boolean().optional().describe('Default true: no navigation and the like'),
  includeSelectors: z
    .array(z.string().max(500))
    .max(50)
    .optional()
    .describe('CSS: only these parts'),
  excludeSelectors: z
    .array(z.string().max(500))
    .max(50)
    .optional()
    .describe('CSS: without these parts'),
  includeImages: z.boolean().optional().describe('Pictures in markdown'),
  includeLinks: z.boolean().optional().describe('Link targets in markdown; default true'),
};

export const pageActions = z
  .array(pageAction)
  .min(1)
  .max(actionsMax)
  .describe('Done in the browser on each page before it is read (wait, click, scroll …)');

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
    .describe('Signs the body (HMAC-SHA256); not kept in the job'),
  headers: z.record(z.string().max(100), z.string().max(4000)).optional(),
  format: z.enum(['errand', 'searchclaw', 'firecrawl']).default('errand'),
  metadata: z.record(z.string(), z.unknown()).optional().describe('Given back with every message'),
});
export type WebhookWish = z.infer<typeof webhook>;

export const crawlOptions = z.strictObject({
  url: webUrl.optional().describe('Where to start'),
  urls: z
    .array(webUrl)
    .max(seedsMax)
    .optional()
    .describe('Several starts; with maxDepth 0: a list of pages'),
  maxPages: z.number().int().min(1).max(pagesMax).default(100).describe('Exact'),
  maxDepth: z.number().int().min(0).max(1000).optional().describe('Clicks from the start'),
  include: z
    .array(pattern)
    .max(patternsMax)
    .optional()
    .describe('RE2: any must match (starts are exempt)'),
  exclude: z.array(pattern).max(patternsMax).optional().describe('RE2: none may match'),
  patternsOn: z
    .enum(['url', 'path'])
    .default('url')
    .describe('What include and exclude look at: the whole address, or its path alone'),
  scope: z
    .enum(['path', 'host'])
    .default('host')
    .describe('path: only below the folder of the start'),
  subdomains: z.boolean().default(false).describe('Also other hosts of the same domain'),
  externalLinks: z.boolean().default(false).describe('Also pages of other sites, one click out'),
  linkSelectors: z
    .array(z.string().max(500))
    .min(1)
    .max(50)
    .optional()
    .describe('CSS: only links in these parts are followed, such as a button to the next page'),
  query: z.enum(['keep', 'strip']).default('keep').describe('strip: addresses without ?query'),
  sitemap: z.enum(['include', 'skip', 'only']).default('include'),
  robots: z.enum(['obey', 'ignore']).default('obey').describe('ignore: only for sites of your own'),
  delayMs: z
    .number()
    .int()
    .min(0)
    .max(day)
    .optional()
    .describe('Pause between requests to one host'),
  concurrency: z.number().int().min(1).max(100).optional().describe('Requests at once'),
  hostConcurrency: z
    .number()
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe('Requests at once per host'),
  pathBudgets: z
    .record(z.string().max(200), z.number().int().min(0))
    .optional()
    .describe('Path prefix → pages'),
  similarPagesMax: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Pages per path pattern (numbers alike): calendars'),
  timeMsMax: z.number().int().min(1000).optional().describe('Stop after this time'),
  bytesMax: z.number().int().min(1).optional().describe('Bytes of pages, unpacked: never more'),
  creditsMax: z.number().int().min(1).optional().describe('Stop after so many credits'),
  formats: z.array(z.enum(crawlFormats)).min(1).default(['markdown', 'metadata']),
  render: z
    .enum(renderModes)
    .default('never')
    .describe('Browser: auto only where a page is empty without it'),
  actions: pageActions.optional(),
  headers: z
    .record(z.string().max(100), z.string().max(4000))
    .optional()
    .describe('Sent to the hosts of the start only'),
  webhook: webhook.optional(),
  schema: z.looseObject({}).optional().describe('JSON Schema: data of each page'),
  selectors: z
    .record(z.string(), z.string().max(500))
    .optional()
    .describe('Field → CSS selector, with schema'),
  compareWith: z
    .string()
    .max(80)
    .optional()
    .describe('Earlier crawl: job id; tells new, same, changed, removed'),
  pageTimeoutMs: z.number().int().min(1000).max(300_000).default(30_000),
  ...reading,
});

export type CrawlOptions = z.infer<typeof crawlOptions>;
