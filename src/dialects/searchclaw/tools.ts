// The fifteen tools under their exact names and parameters. Costs are those of our one credit table.
import { z } from 'zod';
import type { DialectTool } from '../../dialect.ts';
import * as api from './api.ts';
import { browse, screenshot } from './browser.ts';
import type { Api } from './call.ts';
import { crawl } from './crawl.ts';
import { usage } from './usage.ts';

export type SearchclawTool = Omit<DialectTool, 'run'> & { call: Api };

/** What an answer to a model has room for, as text and as structure: more would be cut, and a cursor lead past it. */
const answerBytesMax = 24_000;
const answerBytes = 20_000;

const q = z.object({ q: z.string().describe('Search query') });
const url = z.string().describe('URL of the page');
const schema = z
  .record(z.string(), z.unknown())
  .describe('JSON Schema, or a map of field names to types');

function tool(
  name: string,
  title: string,
  description: string,
  input: z.ZodType,
  call: Api,
  effect: 'read' | 'write' = 'read',
): SearchclawTool {
  return { name, title, description, input, call, effect, openWorld: true };
}

export const searchclawTools: SearchclawTool[] = [
  tool(
    'search',
    'Search',
    'Search the web: titles, addresses and snippets, each row with its engine. Costs 1 credit. To read a result use markdown; for passages ready to quote search_ai; for recent events news.',
    q,
    api.search,
  ),
  tool(
    'search_ai',
    'Search for AI',
    'Search the web and get passages of the best pages with numbered sources, ready for a prompt. Costs 2 credits. For a mere list of results use search; for data merged from several pages agent.',
    q,
    api.searchAi,
  ),
  tool(
    'news',
    'News',
    'Search news articles, with dates where the engine gives them. Costs 1 credit. Use it for recent events; for everything else search.',
    q,
    api.news,
  ),
  tool(
    'images',
    'Images',
    'Search images: addresses of the pictures and of the pages they are on. Costs 1 credit. For a picture of a page itself use screenshot.',
    q,
    api.images,
  ),
  tool(
    'suggest',
    'Suggest',
    'Suggest queries that begin like yours; may be empty. Costs 0 credits. Use it to find better words before search.',
    q,
    api.suggest,
  ),
  tool(
    'extract',
    'Extract',
    'Extract structured data from a URL by a schema; every value names its source, absent ones are null. Costs 1 credit. For the text of a page use markdown; for many pages pipeline, or crawl with a schema.',
    z.object({
      url,
      schema: schema.optional(),
      prompt: z.string().optional().describe('What to extract, in words (needs a model)'),
    }),
    api.extract,
  ),
  tool(
    'markdown',
    'Markdown',
    'Convert a URL (page or PDF) to clean markdown of its main content; long ones in pieces, the next from next_offset on. Costs 1 credit. For a whole site use crawl; for pages that need clicks browse.',
    z.object({ url, offset: z.number().int().min(0).optional().describe('next_offset') }),
    (call, input) =>
      api.markdown(call, { ...input, include_images: false, max_bytes: answerBytesMax }),
  ),
  tool(
    'screenshot',
    'Screenshot',
    'Take a screenshot of a URL in a real browser. Costs 1 credit. For its text use markdown; after clicks or typing browse.',
    z.object({ url, full_page: z.boolean().default(true).describe('Capture the whole page') }),
    screenshot,
  ),
  tool(
    'crawl',
    'Crawl',
    'Crawl a site, following its links, up to exactly max_pages pages. Returns a job_id at once: follow it with job_status. Costs 1 credit per page.',
    z.object({
      url,
      max_pages: z.number().int().min(1).default(10).describe('Maximum pages to crawl'),
      schema: schema.optional(),
    }),
    crawl,
    'write',
  ),
  tool(
    'job_status',
    'Job status',
    'Check the status of an async job (e.g. crawl). Costs 0 credits. Gives counts by fate, the stop reason, and the data in pages: pass next_cursor as cursor to go on.',
    z.object({
      job_id: z.string().describe('Job ID returned by crawl or other async endpoints'),
      cursor: z.string().optional().describe('next_cursor of the answer before'),
      max_bytes: z.number().int().min(500).max(answerBytesMax).default(answerBytes),
    }),
    api.jobStatus,
  ),
  tool(
    'map',
    'Map',
    'Discover the URLs of a site from its sitemaps and links, without their text. Costs 1 credit. Use it to choose what to read with markdown or crawl.',
    z.object({
      url,
      max_pages: z.number().int().min(1).default(100),
      search: z.string().optional().describe('Words to rank the URLs by'),
    }),
    api.map,
  ),
  tool(
    'pipeline',
    'Pipeline',
    'Search, then extract data by a schema from the best results, with an error per item that failed. Costs 1 credit plus 1 per extraction. For one merged answer use agent; for a known URL extract.',
    z.object({
      query: z.string(),
      schema,
      max_results: z.number().int().min(1).max(50).default(10),
      extract_from: z.number().int().min(1).max(50).default(5),
    }),
    api.pipeline,
  ),
  tool(
    'browse',
    'Browse',
    'Do a list of actions on a page in a real browser: navigate, wait, click, fill, type, select, scroll, press, screenshot, extract, evaluate. Costs 2 credits. Use it where a page needs them; to only read one use markdown.',
    z.object({
      url,
      actions: z.array(z.looseObject({ type: z.string() })).describe('Actions in order'),
    }),
    browse,
    'write',
  ),
  tool(
    'agent',
    'Agent',
    'Research a question over several sources and merge what they say, with sources and conflicts. Costs 1 credit per search and page, at most max_credits. For one page use extract, for a list of results search.',
    z.object({
      prompt: z.string(),
      schema: schema.optional(),
      max_credits: z.number().int().min(1).default(10),
      max_sources: z.number().int().min(1).max(50).default(5),
    }),
    api.agent,
  ),
  tool(
    'usage',
    'Usage',
    'Show credits used and left this month, and what everything costs; nothing is billed. Costs 0 credits. What one crawl cost is in its job_status.',
    z.object({}),
    usage,
  ),
];
