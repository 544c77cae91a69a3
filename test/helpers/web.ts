// The web kind in this process on its own store: real runner, real egress (with names under .test), real thread pool.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { EventFeed } from '../../src/jobs/events.ts';
import { Jobs } from '../../src/jobs/jobs.ts';
import { Runner } from '../../src/jobs/runner.ts';
import { JobWaiter } from '../../src/jobs/wait.ts';
import { firecrawlDialect } from '../../src/dialects/firecrawl/index.ts';
import { searchclawDialect } from '../../src/dialects/searchclaw/index.ts';
import { Webhooks } from '../../src/webhooks/webhooks.ts';
import { checkWeb } from '../../src/kinds/web/store/check.ts';
import { urlOutcomes } from '../../src/kinds/web/store/rows.ts';
import { webPlugin } from '../../src/kinds/web/index.ts';
import { registerErrors } from '../../src/errors.ts';
import { Operations, type CallContext } from '../../src/operation.ts';
import { jobOperations } from '../../src/jobs/operations/index.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { createEgress } from '../../src/runtime/egress/index.ts';
import { silentLog } from '../../src/runtime/log.ts';
import type { Store } from '../../src/store/store.ts';
import { resolveTest } from '../fixtures/site/site.ts';
import { withoutBrowser } from './chromium.ts';
import { tempFolder } from './folder.ts';
import { onPostgres } from './server.ts';
import { stores, type StoreFactory } from './stores.ts';

export interface Web {
  store: Store;
  jobs: Jobs;
  operations: Operations;
  /** Calls an operation as the owner `me`. */
  call<O = Record<string, unknown>>(name: string, input: unknown, owner?: string): Promise<O>;
  /** Starts a crawl and waits for its end. */
  crawl(options: Record<string, unknown>): Promise<CrawlEnd>;
  stop(): Promise<void>;
}

export interface CrawlEnd {
  id: string;
  status: string;
  error?: { code: string; message: string; data?: Record<string, unknown> };
  result: {
    pages: number;
    outcomes: Record<string, number>;
    reasons?: Record<string, number>;
    changes?: Record<string, number>;
    stopReason: string;
    bytes: number;
    warnings?: string[];
    creditsUsed: number;
  };
}

export interface WebOptions {
  factory?: StoreFactory;
  settings?: Record<string, unknown>;
  allow?: string[];
  trustCertificates?: Record<string, string>;
  secrets?: Record<string, string>;
  store?: Store;
  /** Addresses of names that are not under .test. */
  resolve?: typeof resolveTest;
}

export const contextOf = (owner: string): CallContext => ({
  caller: { owner, scopes: new Set(['read', 'run']), admin: false, local: true },
  signal: new AbortController().signal,
});

export async function createWeb(t: TestContext, options: WebOptions = {}): Promise<Web> {
  const clock = systemClock;
  const log = silentLog;
  registerErrors(webPlugin.errors!);
  const store =
    options.store ??
    (await (options.factory ?? stores[onPostgres ? 1 : 0]!).open(t, webPlugin.migrations));
  const egress = createEgress({
    policy: {
      allow: options.allow ?? ['127.0.0.1', '*.test'],
      trustCertificates: options.trustCertificates ?? {},
    },
    clock,
    log,
    resolve: options.resolve ?? resolveTest,
  });
  const jobs = new Jobs(store, clock);
  const feed = new EventFeed(store, log);
  const waiting = new JobWaiter(jobs, feed, clock);
  const folder = tempFolder(t);
  const given = {
    delayMs: 0,
    backoffMs: 10,
    breakerRestMs: 50,
    hostConcurrency: 20,
    browser: withoutBrowser,
    ...options.settings,
  };
  const webhooks = new Webhooks({
    jobs,
    store,
    clock,
    log,
    secretOf: (id) => Buffer.from(id),
    send: async ({ url, headers, body }) => {
      const result = await egress.request({
        url,
        headers,
        body,
        method: 'POST',
        trust: 'guarded',
        redirects: 0,
        timeoutMs: 5000,
      });
      result.body.discard();
      return result.status;
    },
  });
  for (const { webhooks: formats = [] } of [firecrawlDialect, searchclawDialect])
    formats.forEach((one) => webhooks.addFormat(one));
  const operations = new Operations();
  const parts = await webPlugin.create({
    jobs, webhooks, feed, waiting, store, clock, log, egress, folder,
    settings: webPlugin.settings!.parse(given),
    node: 'node-1',
    home: folder,
    secret: (name: string) => options.secrets?.[name],
    baseUrl: () => undefined,
    openBaseUrl: () => Promise.reject(new Error('no address in this test')),
    sign: (_purpose: string, text: string) => text,
    call: (name: string, input: unknown) => operations.call(name, input, contextOf('me')),
  } as unknown as Parameters<typeof webPlugin.create>[0]); // prettier-ignore
  jobs.addKind(parts.kind);
  const runner = new Runner({
    jobs,
    clock,
    log,
    node: 'node-1',
    leaseMs: 30_000,
    maxStopMs: 20_000,
    pollMs: 200,
  });
  operations.add(
    jobOperations({ jobs, feed, waiting, clock, maxWaitMs: 50_000, cancelMsDefault: 10_000 }),
  );
  operations.add(parts.operations);
  const services = [webhooks, runner, ...(parts.services ?? [])];
  for (const service of services) await service.start();
  let stopped = false;
  const stop = async () => {
    if (stopped) return;
    stopped = true;
    for (const service of services.toReversed()) await service.stop();
    feed.close();
    await egress.close();
  };
  t.after(stop);
  const call = <O>(name: string, input: unknown, owner = 'me') =>
    operations.call(name, input, contextOf(owner)) as Promise<O>;
  return {
    store,
    jobs,
    operations,
    call,
    stop,
    crawl: async (options) => {
      const { id } = await call<{ id: string }>('crawl_site', options);
      const end = await ended({ jobs, waiting }, id);
      // The counters are exact for every crawl.
      assert.deepEqual(await checkWeb(store), []);
      return end;
    },
  };
}

export async function ended(
  { jobs, waiting }: { jobs: Jobs; waiting: JobWaiter },
  id: string,
): Promise<CrawlEnd> {
  await waiting.wait({
    ids: [id],
    mode: 'all',
    timeoutMs: 180_000,
    signal: new AbortController().signal,
  });
  const job = await jobs.get(id);
  return {
    id,
    status: job.status,
    ...(job.error ? { error: job.error } : {}),
    result: job.result as never,
  };
}

/** Every URL path of a crawl with its outcome. */
export async function outcomesOf(web: Web, id: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  let cursor: string | undefined;
  do {
    const page = await web.call<{
      pages: { url: string; outcome: string; reason?: string }[];
      nextCursor?: string;
    }>('read_pages', {
      id,
      limit: 500,
      maxBytes: 1_000_000,
      outcomes: urlOutcomes,
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const { url, outcome, reason } of page.pages) {
      const { pathname, search } = new URL(url);
      found[pathname + search] = reason === undefined ? outcome : `${outcome}:${reason}`;
    }
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}
