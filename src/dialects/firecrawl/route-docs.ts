// Firecrawl's routes for the OpenAPI document, for both versions of its API.
import type { RouteDoc } from '../../dialect.ts';
import { byName } from '../../runtime/by-name.ts';
import { listOf, schemaOf } from '../../runtime/schema-of.ts';

const success = { success: 'boolean' } as const;
const document = schemaOf({
  'markdown?': 'string',
  'html?': 'string',
  'rawHtml?': 'string',
  'links?': 'array',
  'screenshot?': 'string',
  'json?': 'any',
  'metadata?': 'object',
  'warning?': 'string',
});
const started = schemaOf({
  ...success,
  id: 'string',
  'url?': 'string',
  'invalidURLs?': listOf('string'),
  'warning?': 'string',
});
const pages = schemaOf({
  ...success,
  status: { type: 'string', enum: ['scraping', 'completed', 'failed', 'cancelled'] },
  total: 'integer',
  completed: 'integer',
  creditsUsed: 'number',
  createdAt: 'string',
  'completedAt?': 'string',
  expiresAt: 'string',
  'next?': 'string|null',
  data: listOf(document),
  'error?': 'string',
});
const cancelled = schemaOf({ ...success, status: 'string' });
const errors = schemaOf({
  ...success,
  errors: listOf(schemaOf({ id: 'string', url: 'string', 'error?': 'string', 'code?': 'string' })),
  robotsBlocked: listOf('string'),
});
const answer = schemaOf({ ...success, status: 'string', 'data?': 'any', 'error?': 'string' });
const active = schemaOf({ ...success, crawls: listOf(schemaOf({ id: 'string', url: 'string' })) });
const usage = schemaOf({ ...success, data: 'object' });
const history = schemaOf({ ...success, periods: listOf('object') });

const address = schemaOf({ url: 'string', 'formats?': 'array' });
const question = schemaOf({ 'prompt?': 'string', 'urls?': listOf('string'), 'schema?': 'object' });
const page: readonly string[] = ['skip', 'limit'];

const common: Record<string, RouteDoc> = byName({
  'POST /scrape': {
    summary: 'Read one page',
    body: address,
    response: schemaOf({ ...success, data: document }),
  },
  'GET /scrape/{id}': {
    summary: 'Read a page that was scraped before',
    response: schemaOf({ ...success, data: document }),
  },
  'POST /map': {
    summary: 'List the addresses of a site',
    body: schemaOf({ url: 'string', 'search?': 'string', 'limit?': 'integer' }),
    response: schemaOf({ ...success, links: 'array' }),
  },
  'POST /search': {
    summary: 'Search the web',
    body: schemaOf({ query: 'string', 'limit?': 'integer', 'scrapeOptions?': 'object' }),
    response: schemaOf({ ...success, data: 'any' }),
  },
  'POST /extract': { summary: 'Extract data from pages', body: question, response: started },
  'GET /extract/{id}': { summary: 'Read an extraction', response: answer },
  'POST /crawl': {
    summary: 'Start a crawl',
    body: schemaOf({ url: 'string', 'limit?': 'integer', 'scrapeOptions?': 'object' }),
    response: started,
  },
  'GET /crawl/active': { summary: 'List running crawls', response: active },
  'GET /crawl/ongoing': { summary: 'List running crawls', response: active },
  'GET /crawl/{id}': { summary: 'Read a crawl and its pages', query: page, response: pages },
  'DELETE /crawl/{id}': { summary: 'Cancel a crawl', response: cancelled },
  'GET /crawl/{id}/errors': { summary: 'List the failures of a crawl', response: errors },
  'POST /batch/scrape': {
    summary: 'Read several pages',
    body: schemaOf({ urls: listOf('string'), 'formats?': 'array' }),
    response: started,
  },
  'GET /batch/scrape/{id}': {
    summary: 'Read a batch and its pages',
    query: page,
    response: pages,
  },
  'DELETE /batch/scrape/{id}': { summary: 'Cancel a batch', response: cancelled },
  'GET /batch/scrape/{id}/errors': { summary: 'List the failures of a batch', response: errors },
  'GET /team/credit-usage': { summary: 'Credits used this month', response: usage },
  'GET /team/credit-usage/historical': { summary: 'Credits used by month', response: history },
  'GET /team/token-usage': { summary: 'Tokens used this month', response: usage },
  'GET /team/token-usage/historical': { summary: 'Tokens used by month', response: history },
  'GET /team/queue-status': {
    summary: 'Count queued and running jobs',
    response: schemaOf(success),
  },
  'GET /concurrency-check': { summary: 'Count concurrent jobs', response: schemaOf(success) },
});

const newer: Record<string, RouteDoc> = byName({
  'POST /agent': { summary: 'Ask an agent to research', body: question, response: started },
  'GET /agent/{id}': { summary: 'Read the answer of an agent', response: answer },
  'DELETE /agent/{id}': { summary: 'Cancel an agent', response: cancelled },
});

/** Clients of v1 read errors with DELETE. */
const older: Record<string, RouteDoc> = byName({
  'DELETE /crawl/{id}/errors': { summary: 'List the failures of a crawl', response: errors },
  'DELETE /batch/scrape/{id}/errors': { summary: 'List the failures of a batch', response: errors },
});

const below = (root: string, docs: Readonly<Record<string, RouteDoc>>) =>
  Object.entries(docs).map(([route, doc]) => [route.replace(' ', ` ${root}`), doc]);

export const routeDocs = byName<RouteDoc>(
  Object.fromEntries([
    ...below('/firecrawl/v2', { ...common, ...newer }),
    ...below('/firecrawl/v1', { ...common, ...older }),
  ]) as Record<string, RouteDoc>,
);
