// SearchClaw's routes for the OpenAPI document. A call that takes too long returns its job instead of its result.
import type { RouteDoc } from '../../dialect.ts';
import { byName } from '../../runtime/by-name.ts';
import { listOf, schemaOf } from '../../runtime/schema-of.ts';

const later = { 'job_id?': 'string', 'status?': 'string' } as const;
const result = schemaOf({ title: 'string', url: 'string', 'snippet?': 'string' });
const found = schemaOf({
  ...later,
  'query?': 'string',
  'results?': listOf(result),
  'suggestions?': listOf('string'),
  'meta?': 'object',
});
const answered = schemaOf({
  ...later,
  'query?': 'string',
  'results?': listOf(result),
  'context?': 'string',
  'sources?': 'array',
  'meta?': 'object',
});
const searchQuery = ['q', 'count', 'offset', 'language', 'country', 'safesearch', 'freshness'];
const searchBody = schemaOf({ 'q?': 'string', 'query?': 'string', 'count?': 'integer' });
const address = schemaOf({ url: 'string' });

const getSearch = (summary: string): RouteDoc => ({
  summary,
  query: searchQuery,
  response: found,
});
const postSearch = (summary: string): RouteDoc => ({ summary, body: searchBody, response: found });

const docs: Record<string, RouteDoc> = byName({
  'GET /search': getSearch('Search the web'),
  'POST /search': postSearch('Search the web'),
  'GET /search/ai': { ...getSearch('Search, with text for an answer'), response: answered },
  'GET /news': getSearch('Search news'),
  'GET /search/news': getSearch('Search news'),
  'POST /search/news': postSearch('Search news'),
  'GET /images': getSearch('Search images'),
  'GET /search/images': getSearch('Search images'),
  'POST /search/images': postSearch('Search images'),
  'GET /suggest': {
    summary: 'Suggest queries',
    query: ['q'],
    response: schemaOf({ 'query?': 'string', suggestions: listOf('string') }),
  },
  'POST /extract': {
    summary: 'Extract data from a page',
    body: schemaOf({ url: 'string', 'schema?': 'object', 'prompt?': 'string' }),
    response: schemaOf({ ...later, 'url?': 'string', 'data?': 'any', 'meta?': 'object' }),
  },
  'POST /markdown': {
    summary: 'Read a page as Markdown',
    body: address,
    response: schemaOf({
      ...later,
      'url?': 'string',
      'title?': 'string|null',
      'markdown?': 'string',
      'meta?': 'object',
    }),
  },
  'POST /crawl': {
    summary: 'Start a crawl',
    body: schemaOf({ url: 'string', 'max_pages?': 'integer', 'schema?': 'object' }),
    response: schemaOf({ job_id: 'string', status: 'string', poll_url: 'string' }),
  },
  'GET /jobs/{job_id}': {
    summary: 'Read a job and its results',
    query: ['cursor', 'max_bytes'],
    response: schemaOf({
      job_id: 'string',
      status: {
        type: 'string',
        enum: ['queued', 'processing', 'completed', 'partial', 'failed'],
      },
      progress: 'object',
      data: 'array|null',
      'next_cursor?': 'string|null',
      error: 'string|null',
    }),
  },
  'POST /map': {
    summary: 'List the addresses of a site',
    body: address,
    response: schemaOf({ ...later, 'urls?': listOf(schemaOf({ url: 'string' })) }),
  },
  'POST /pipeline': {
    summary: 'Search, read and extract',
    body: schemaOf({ query: 'string', 'schema?': 'object', 'max_results?': 'integer' }),
    response: schemaOf({ ...later, 'results?': 'array', 'meta?': 'object' }),
  },
  'POST /browse': {
    summary: 'Use a page in a browser',
    body: schemaOf({ url: 'string', 'actions?': 'array' }),
    response: schemaOf({ ...later, 'success?': 'boolean', 'results?': 'array' }),
  },
  'POST /agent': {
    summary: 'Ask an agent to research',
    body: schemaOf({ prompt: 'string', 'urls?': listOf('string'), 'schema?': 'object' }),
    response: schemaOf({ ...later, 'data?': 'any', 'sources?': 'array', 'error?': 'string|null' }),
  },
  'POST /screenshot': {
    summary: 'Take a picture of a page',
    body: address,
    response: schemaOf({ ...later, 'url?': 'string', 'format?': 'string' }),
  },
  'GET /usage': {
    summary: 'Credits used this month',
    response: schemaOf({ billing_period: 'string', credits_used: 'number', plan: 'string' }),
  },
  'GET /usage/history': {
    summary: 'Credits used by period',
    query: ['format'],
    response: schemaOf({}),
  },
});

export const routeDocs = byName<RouteDoc>(
  Object.fromEntries(
    Object.entries(docs).map(([route, doc]) => [route.replace(' ', ' /searchclaw/v1'), doc]),
  ),
);
