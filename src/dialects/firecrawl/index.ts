// Firecrawl's API v2 at /firecrawl/v2, over the web operations: scrape, crawl, batch, map, search, extract, agent, usage.
import type { Dialect, DialectCall, DialectRequest, DialectRoute } from '../../dialect.ts';
import { bodyOf } from './body.ts';
import * as crawl from './crawl.ts';
import { failure } from './errors.ts';
import * as pages from './pages.ts';
import { search } from './search.ts';
import type { Fields } from './translate.ts';
import * as usage from './usage.ts';
import { watch } from './watch.ts';

const root = '/firecrawl/v2';
const bodyBytesMax = 5_000_000;

export interface Asked {
  call: DialectCall;
  input: Fields;
  params: Record<string, string>;
  query: URLSearchParams;
  /** Of the request header: the same one starts nothing twice. */
  idempotencyKey?: string;
  /** Address of the dialect as the client sees it. */
  base: string;
}
export type Api = (asked: Asked) => Promise<Fields>;
export type Watch = (asked: Asked) => AsyncIterable<Fields>;

const wishes: [method: DialectRoute['method'], path: string, api: Api, watch?: Watch][] = [
  ['POST', '/scrape', pages.scrape],
  ['POST', '/map', pages.map],
  ['POST', '/search', search],
  ['POST', '/extract', pages.extract],
  ['GET', '/extract/{id}', pages.extractStatus],
  ['POST', '/agent', pages.agent],
  ['GET', '/agent/{id}', pages.extractStatus],
  ['DELETE', '/agent/{id}', crawl.cancel],
  ['POST', '/crawl', crawl.start],
  ['GET', '/crawl/active', crawl.active],
  ['GET', '/crawl/{id}', crawl.status, watch],
  ['DELETE', '/crawl/{id}', crawl.cancel],
  ['GET', '/crawl/{id}/errors', crawl.errors],
  ['POST', '/batch/scrape', crawl.startBatch],
  ['GET', '/batch/scrape/{id}', crawl.status, watch],
  ['DELETE', '/batch/scrape/{id}', crawl.cancel],
  ['GET', '/batch/scrape/{id}/errors', crawl.errors],
  ['GET', '/team/credit-usage', usage.creditUsage],
  ['GET', '/team/credit-usage/historical', usage.creditHistory],
  ['GET', '/team/token-usage', usage.tokenUsage],
  ['GET', '/team/token-usage/historical', usage.tokenHistory],
  ['GET', '/team/queue-status', usage.queueStatus],
  ['GET', '/concurrency-check', usage.concurrency],
];

export const firecrawlDialect: Dialect = {
  name: 'firecrawl',
  errors: { prefix: '/firecrawl', answer: failure },
  routes: wishes.map(([method, path, api, watched]) => ({
    method,
    path: `${root}${path}`,
    auth: 'key',
    bodyBytesMax,
    handle: async (request, call) => ({ status: 200, body: await api(askedOf(request, call)) }),
    ...(watched ? { watch: (request, call) => watched(askedOf(request, call)) } : {}),
  })),
};

function askedOf(request: DialectRequest, call: DialectCall): Asked {
  const key = request.headers['x-idempotency-key'];
  return {
    call,
    input: bodyOf(request.body.length > 0 ? request.json() : {}),
    params: request.params,
    query: request.query,
    base: `${request.baseUrl}${root}`,
    ...(typeof key === 'string' ? { idempotencyKey: key } : {}),
  };
}
