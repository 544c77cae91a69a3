// Input schemas of the web actions.
import { z } from 'zod';
import { maxActions } from '../browser/actions.ts';
import { browseAction } from '../browser/page-action.ts';
import { crawlOptions, pageActions, reading, renderModes } from '../crawl/options.ts';
import { pageFormats } from '../read/types.ts';
import { freshnesses } from '../search/types.ts';
import { maxCount, maxQueryChars } from '../search/search.ts';

export const maxAddresses = 100_000;
const maxAgeMs = 30 * 86_400_000;
const url = z.string().min(1).max(2000).describe('URL of the page');
const schema = z
  .looseObject({})
  .describe('JSON Schema of the data to extract, or a flat map {"field": "type"}');
const render = z
  .enum(renderModes)
  .optional()
  .describe('Browser use; default auto: only for pages that are empty without scripts');
const robots = z.enum(['obey', 'ignore']).optional().describe('Default obey');
const headers = z.record(z.string().max(100), z.string().max(4000)).optional();
const timeoutMs = z.number().int().min(1000).max(120_000).optional();
const query = z.string().min(1).max(maxQueryChars);
const prompt = z
  .string()
  .max(10_000)
  .optional()
  .describe('Description of the data to extract; requires a model');
const maxBytes = z.number().int().min(500).max(1_000_000).optional();
const selector = z.string().max(500);
const selectors = z
  .record(
    z.string(),
    z.union([selector, z.strictObject({ selector, fields: z.record(z.string(), selector) })]),
  )
  .optional()
  .describe(
    'Field → CSS selector (a@href: attribute); lists: {"selector": ".card", "fields": {"name": "h3"}}',
  );

const readInput = z.strictObject({
  url,
  formats: z
    .array(z.enum([...pageFormats, 'raw']))
    .min(1)
    .default(['markdown', 'metadata']),
  render,
  actions: pageActions.optional(),
  robots,
  headers,
  timeoutMs,
  maxAgeMs: z
    .number()
    .int()
    .min(0)
    .max(maxAgeMs)
    .optional()
    .describe('Reuse your earlier reading if it is at most this old; default: always fetch'),
  reusable: z
    .boolean()
    .optional()
    .describe('false: later calls with maxAgeMs do not reuse this reading'),
  pdf: z
    .enum(['text', 'base64'])
    .optional()
    .describe('base64: return a PDF as base64 instead of text'),
  maxBytes: maxBytes.describe('Maximum bytes per response. Continue long pages with offset'),
  offset: z.number().int().min(0).optional().describe('nextOffset of the previous response'),
  ...reading,
});

const mapInput = z.strictObject({
  url,
  limit: z.number().int().min(1).max(maxAddresses).default(500).describe('Maximum number of URLs'),
  search: z
    .string()
    .max(200)
    .optional()
    .describe('Words to match in URL or title; best matches first'),
  sitemap: z.enum(['include', 'skip', 'only']).default('include'),
  subdomains: z.boolean().default(false),
  query: z.enum(['keep', 'strip']).default('keep').describe('strip: remove the query from URLs'),
  maxFetch: z
    .number()
    .int()
    .min(0)
    .max(1000)
    .default(30)
    .describe('Maximum pages to fetch for links'),
});

const extractInput = z.strictObject({
  url,
  schema: schema.optional(),
  prompt,
  selectors,
  render,
  robots,
  headers,
  timeoutMs,
});

const submissionInput = z.strictObject({
  extractionId: z.string().max(80),
  page: z.number().int().min(1).optional(),
  data: z.unknown(),
  sources: z.array(z.string().max(2000)).max(50).optional(),
});

const screenshotInput = z.strictObject({
  url,
  fullPage: z
    .boolean()
    .default(false)
    .describe('Capture the whole page instead of the first screen'),
  format: z.enum(['jpeg', 'png']).default('jpeg'),
  quality: z.number().int().min(1).max(100).optional(),
  width: z.number().int().min(320).max(3840).default(1280),
  height: z.number().int().min(240).max(2160).default(800),
  waitForSelector: z.string().max(500).optional(),
  timeoutMs,
  headers,
});

const browseInput = z.strictObject({
  url,
  actions: z
    .array(browseAction)
    .max(maxActions)
    .default([])
    .describe('Run in order; results have the same order'),
  width: z.number().int().min(320).max(3840).optional(),
  height: z.number().int().min(240).max(2160).optional(),
  maxBytes: maxBytes.describe('Maximum bytes of all contents together; the longest are truncated'),
  timeoutMs,
});

const searchInput = z.strictObject({
  query,
  type: z
    .enum(['web', 'news', 'images', 'suggest', 'answer', 'crawled'])
    .default('web')
    .describe(
      'answer: passages of the best pages with numbered sources; crawled: only your crawled pages',
    ),
  count: z.number().int().min(1).max(maxCount).default(10),
  offset: z.number().int().min(0).max(500).optional(),
  language: z.string().max(10).optional(),
  country: z.string().max(10).optional(),
  safesearch: z.union([z.literal(0), z.literal(1), z.literal(2)]).optional(),
  freshness: z.enum(freshnesses).optional(),
});

const pipelineInput = z.strictObject({
  query,
  schema,
  prompt,
  selectors,
  maxResults: z.number().int().min(1).max(50).default(10).describe('Search results to consider'),
  extractFrom: z
    .number()
    .int()
    .min(1)
    .max(50)
    .default(5)
    .describe('Pages to read from these results'),
  maxCredits: z.number().int().min(1).max(10_000).optional(),
});

const agentInput = z.strictObject({
  prompt: z.string().min(1).max(10_000).describe('The question to research'),
  schema: schema.optional(),
  urls: z.array(url).max(50).optional().describe('Pages to read first'),
  onlyUrls: z.boolean().default(false).describe('Read only `urls`, without a search'),
  maxCredits: z.number().int().min(1).max(10_000).default(10),
  maxSources: z.number().int().min(1).max(50).default(5),
});

export const actionInputs = {
  crawl: crawlOptions,
  map: mapInput,
  markdown: readInput,
  extract: extractInput,
  submission: submissionInput,
  screenshot: screenshotInput,
  browse: browseInput,
  search: searchInput,
  pipeline: pipelineInput,
  agent: agentInput,
} as const;
export type Action = keyof typeof actionInputs;
export type ActionInput<A extends Action> = z.infer<(typeof actionInputs)[A]>;
