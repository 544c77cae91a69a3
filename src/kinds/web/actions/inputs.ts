// Inputs of the web kind's actions: what a job of each action carries.
import { z } from 'zod';
import { actionsMax, browseAction } from '../browser/actions.ts';
import { crawlOptions, pageActions, reading, renderModes } from '../crawl/options.ts';
import { pageFormats } from '../content/types.ts';
import { freshnesses } from '../search/types.ts';
import { countMax, queryCharsMax } from '../search/search.ts';

export const addressesMax = 100_000;
const ageMsMax = 30 * 86_400_000;
const url = z.string().min(1).max(2000).describe('Address of the page');
const schema = z
  .looseObject({})
  .describe('JSON Schema of the wished data, or a flat map {"field": "type"}');
const render = z
  .enum(renderModes)
  .optional()
  .describe('Browser: default auto (only where a page is empty without)');
const robots = z.enum(['obey', 'ignore']).optional().describe('Default obey');
const headers = z.record(z.string().max(100), z.string().max(4000)).optional();
const timeoutMs = z.number().int().min(1000).max(120_000).optional();
const query = z.string().min(1).max(queryCharsMax);
const prompt = z.string().max(10_000).optional().describe('The wish in words (needs a model)');
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
    .max(ageMsMax)
    .optional()
    .describe('An earlier reading of yours will do if it is no older; default: always fetched'),
  maxBytes: maxBytes.describe('Long pages in pieces of so many bytes; go on with offset'),
  offset: z.number().int().min(0).optional().describe('nextOffset of the answer before'),
  ...reading,
});

const mapInput = z.strictObject({
  url,
  limit: z
    .number()
    .int()
    .min(1)
    .max(addressesMax)
    .default(500)
    .describe('At most so many addresses'),
  search: z
    .string()
    .max(200)
    .optional()
    .describe('Words the address or title should have; best first'),
  sitemap: z.enum(['include', 'skip', 'only']).default('include'),
  subdomains: z.boolean().default(false),
  query: z.enum(['keep', 'strip']).default('keep').describe('strip: addresses without ?query'),
  fetchMax: z.number().int().min(0).max(1000).default(30).describe('Pages fetched to find links'),
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
  fullPage: z.boolean().default(false).describe('The whole page instead of the first screen'),
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
    .max(actionsMax)
    .default([])
    .describe('In order; results in the same order'),
  width: z.number().int().min(320).max(3840).optional(),
  height: z.number().int().min(240).max(2160).optional(),
  maxBytes: maxBytes.describe('Of all contents together; the longest are cut'),
  timeoutMs,
});

export const searchInput = z.strictObject({
  query,
  type: z
    .enum(['web', 'news', 'images', 'suggest', 'answer', 'crawled'])
    .default('web')
    .describe(
      'answer: passages of the best pages with numbered sources; crawled: only pages crawled here',
    ),
  count: z.number().int().min(1).max(countMax).default(10),
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
  maxResults: z.number().int().min(1).max(50).default(10).describe('Search results looked at'),
  extractFrom: z.number().int().min(1).max(50).default(5).describe('Of these, pages read'),
  maxCredits: z.number().int().min(1).max(10_000).optional(),
});

const agentInput = z.strictObject({
  prompt: z.string().min(1).max(10_000).describe('What to find out'),
  schema: schema.optional(),
  urls: z.array(url).max(50).optional().describe('Pages to read first'),
  onlyUrls: z.boolean().default(false).describe('Read nothing but `urls`'),
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
