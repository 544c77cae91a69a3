// Firecrawl's API over the web operations: v2 at /firecrawl/v2 (scrape, crawl, batch, map, search, extract, agent, usage), and
// the same under the names of v1 at /firecrawl/v1.
import type { Dialect, DialectCall, DialectRequest, DialectRoute } from '../../dialect.ts';
import { bodyOf, type Version } from './body.ts';
import * as crawl from './crawl.ts';
import { failure } from './errors.ts';
import * as pages from './pages.ts';
import * as scrape from './scrape.ts';
import { search } from './search.ts';
import * as usage from './usage.ts';
import { routesV1 } from './v1.ts';
import { status } from './status.ts';
import { watch } from './watch.ts';
import { routeDocs } from './route-docs.ts';
import type { Asked, Route } from './route.ts';
import { crawlWebhook } from './webhooks.ts';

const root = '/firecrawl';
const maxBodyBytes = 5_000_000;

const routesV2: Route[] = [
  ['POST', '/scrape', scrape.scrape],
  ['GET', '/scrape/{id}', scrape.scrapeStatus],
  ['POST', '/map', pages.map],
  ['POST', '/search', search],
  ['POST', '/extract', pages.extract],
  ['GET', '/extract/{id}', pages.extractStatus],
  ['POST', '/agent', pages.agent],
  ['GET', '/agent/{id}', pages.extractStatus],
  ['DELETE', '/agent/{id}', crawl.cancel],
  ['POST', '/crawl', crawl.start],
  ['GET', '/crawl/active', crawl.active],
  ['GET', '/crawl/ongoing', crawl.active],
  ['GET', '/crawl/{id}', status, watch],
  ['DELETE', '/crawl/{id}', crawl.cancel],
  ['GET', '/crawl/{id}/errors', crawl.errors],
  ['POST', '/batch/scrape', crawl.startBatch],
  ['GET', '/batch/scrape/{id}', status, watch],
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
  webhooks: [crawlWebhook],
  errors: { prefix: root, toResponse: failure },
  routeDocs,
  routes: [...routesOf('v2', routesV2), ...routesOf('v1', routesV1)],
};

function routesOf(version: Version, routes: readonly Route[]): DialectRoute[] {
  const base = `${root}/${version}`;
  return routes.map(([method, path, api, watched]) => ({
    method,
    path: `${base}${path}`,
    auth: 'key',
    maxBodyBytes,
    handle: async (request, call) => ({
      status: 200,
      body: await api(askedOf(request, call, version)),
    }),
    ...(watched ? { watch: (request, call) => watched(askedOf(request, call, version)) } : {}),
  }));
}

function askedOf(request: DialectRequest, call: DialectCall, version: Version): Asked {
  const key = request.headers['x-idempotency-key'];
  return {
    call,
    input: bodyOf(request.body.length > 0 ? request.json() : {}, version),
    params: request.params,
    query: request.query,
    base: `${request.baseUrl}${root}/${version}`,
    ...(typeof key === 'string' ? { idempotencyKey: key } : {}),
  };
}
