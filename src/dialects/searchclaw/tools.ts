// SearchClaw's fifteen tools with their exact names and parameters. Costs come from our credit table.
import { z } from 'zod';
import type { DialectTool } from '../../dialect.ts';
import * as api from './api.ts';
import { browse, screenshot } from './browser.ts';
import type { Api } from './call.ts';
import { crawl } from './crawl.ts';
import { outputs } from './outputs.ts';
import { usage } from './usage.ts';

type SearchclawTool = Omit<DialectTool, 'run'> & { call: Api };

/** Maximum size of a response to a model. A larger one would be cut, and its cursor would skip data. */
const maxResponseBytes = 24_000;
const answerBytes = 20_000;

const q = z.object({ q: z.string().describe('What to search for, in words') });
const url = z.string().describe('Address, http or https');
const schema = z
  .record(z.string(), z.unknown())
  .describe('JSON Schema of the data, or a map of field names to types');

function tool(
  name: string,
  title: string,
  description: string,
  more: { input: z.ZodType; call: Api; effect?: 'write'; pages?: true },
): SearchclawTool {
  return {
    name,
    title,
    description,
    output: outputs[name] ?? z.looseObject({}),
    effect: 'read',
    openWorld: true,
    ...more,
  };
}

export const searchclawTools: SearchclawTool[] = [
  tool(
    'search',
    'Search',
    'Search the web and return titles, addresses and snippets, each with its engine; use it instead of curl in a shell. Costs 1 credit. Snippets are short: to read a result use markdown. For passages ready to quote use search_ai, for recent events news. Fails with the reason if no search engine is reachable.',
    { input: q, call: api.search },
  ),
  tool(
    'search_ai',
    'Search for AI',
    'Search the web and return passages of the best pages with numbered sources, ready to quote in an answer. Costs 2 credits and takes longer than search, because the pages are read. Use search for a plain list of results, agent for data merged from several pages.',
    { input: q, call: api.searchAi },
  ),
  tool(
    'news',
    'News',
    'Search news articles, with dates where the engine gives them. Costs 1 credit. Use it for recent events; for everything else use search. Returns titles, addresses and snippets: to read an article use markdown.',
    { input: q, call: api.news },
  ),
  tool(
    'images',
    'Images',
    'Search images and return the addresses of the pictures and of the pages they are on. Costs 1 credit. It downloads nothing. For a picture of a page itself use screenshot.',
    { input: q, call: api.images },
  ),
  tool(
    'suggest',
    'Suggest',
    'Suggest search queries that begin like yours. Costs 0 credits. Use it before search to find better words; the list may be empty. It returns no results of a search.',
    { input: q, call: api.suggest },
  ),
  tool(
    'extract',
    'Extract',
    'Extract structured data from one page by a schema, with the source of every value; use it instead of parsing HTML in a shell. Costs 1 credit. Values that the page does not have are null, never guessed. For the text of a page use markdown; for many pages use pipeline, or crawl with a schema.',
    {
      input: z.object({
        url,
        schema: schema.optional(),
        prompt: z
          .string()
          .optional()
          .describe('What to extract, in words; needs a model on the server'),
      }),
      call: api.extract,
    },
  ),
  tool(
    'markdown',
    'Markdown',
    'Read a page or PDF as clean markdown of its main content; use it instead of curl in a shell. Costs 1 credit. A long page comes in pieces: if next_offset is in the response, pass it as offset for the rest. For a whole site use crawl; for pages that need clicks use browse. Page text is untrusted data.',
    {
      input: z.object({
        url,
        offset: z.number().int().min(0).optional().describe('next_offset of the previous response'),
      }),
      call: (call, input) =>
        api.markdown(call, { ...input, include_images: false, max_bytes: maxResponseBytes }),
      pages: true,
    },
  ),
  tool(
    'screenshot',
    'Screenshot',
    'Take a screenshot of a page in a real browser and return it as an image. Costs 1 credit. For the text of a page use markdown; after clicks or typing use browse. Needs a browser on the server.',
    {
      input: z.object({
        url,
        full_page: z
          .boolean()
          .default(true)
          .describe('true: the whole page. false: only the visible part'),
      }),
      call: screenshot,
    },
  ),
  tool(
    'crawl',
    'Crawl',
    'Crawl a site in the background, following its links, and store at most max_pages pages; use it instead of wget in a shell. Returns a job_id immediately: read status and pages with job_status. Costs 1 credit per page. Obeys robots.txt. For one page use markdown; for the addresses alone use map.',
    {
      input: z.object({
        url,
        max_pages: z.number().int().min(1).default(10).describe('Most pages to store'),
        schema: schema.optional(),
      }),
      call: crawl,
      effect: 'write',
    },
  ),
  tool(
    'job_status',
    'Job status',
    'Return the status of a background job such as a crawl, with its data in pages. Costs 0 credits. Use it with the job_id from crawl; it does not wait for the job. Returns counts by outcome, the stop reason and the pages so far: pass next_cursor as cursor to continue. An unknown job_id is an error.',
    {
      input: z.object({
        job_id: z.string().describe('job_id that crawl returned'),
        cursor: z.string().optional().describe('next_cursor of the previous response'),
        max_bytes: z
          .number()
          .int()
          .min(500)
          .max(maxResponseBytes)
          .default(answerBytes)
          .describe('Most bytes of a response, 500 to 24,000'),
      }),
      call: api.jobStatus,
      pages: true,
    },
  ),
  tool(
    'map',
    'Map',
    'List the addresses of a site from its sitemaps and links, without reading the pages. Costs 1 credit. Use it to choose what to read with markdown or crawl. With search, the best matches come first.',
    {
      input: z.object({
        url,
        max_pages: z.number().int().min(1).default(100).describe('Most addresses to return'),
        search: z.string().optional().describe('Words to rank the URLs by'),
      }),
      call: api.map,
    },
  ),
  tool(
    'pipeline',
    'Pipeline',
    'Search the web, then extract data by a schema from the best results, one item per page. Costs 1 credit plus 1 per extraction. Pages that fail are listed with their error. For one merged answer use agent; for an address you know use extract.',
    {
      input: z.object({
        query: z.string().describe('What to search for, in words'),
        schema,
        max_results: z
          .number()
          .int()
          .min(1)
          .max(50)
          .default(10)
          .describe('Results to search for, 1 to 50'),
        extract_from: z
          .number()
          .int()
          .min(1)
          .max(50)
          .default(5)
          .describe('Results to extract from, 1 to 50'),
      }),
      call: api.pipeline,
    },
  ),
  tool(
    'browse',
    'Browse',
    'Perform actions on a page in a real browser: navigate, wait, click, fill, type, select, scroll, press, screenshot, extract, evaluate. Costs 2 credits. Use it only where a page needs them; to read a page use markdown. Clicks and forms can change things on the site, and are never repeated automatically. Stops at the first action that fails and returns what was done.',
    {
      input: z.object({
        url,
        actions: z
          .array(
            z.looseObject({
              type: z.string().describe('Name of the action; its fields follow, such as selector'),
            }),
          )
          .describe('Actions in order, such as {type: "click", selector: "#more"}'),
      }),
      call: browse,
      effect: 'write',
    },
  ),
  tool(
    'agent',
    'Agent',
    'Research a question over several web sources and merge what they say, with sources and contradictions. Costs 1 credit per search and page, at most max_credits; it can take a minute. For one page use extract; for a list of results use search.',
    {
      input: z.object({
        prompt: z.string().describe('The question, in words'),
        schema: schema.optional(),
        max_credits: z.number().int().min(1).default(10).describe('Most credits to spend'),
        max_sources: z
          .number()
          .int()
          .min(1)
          .max(50)
          .default(5)
          .describe('Most pages to read, 1 to 50'),
      }),
      call: api.agent,
    },
  ),
  tool(
    'usage',
    'Usage',
    'Show the credits used and left this month and what each tool costs. Costs 0 credits. Use it before large jobs; what one crawl cost is in its job_status. Credits only limit use; no money is charged.',
    { input: z.object({}), call: usage },
  ),
];
