// API v1 as older clients call it: the `.v1` client of the current SDK, unmodified, and plain requests for what it hides.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import { until } from '../../helpers/until.ts';

const z3 = createRequire(import.meta.resolve('@mendable/firecrawl-js'))('zod');
const schema = { type: 'object', properties: { title: { type: 'string' } } };

test('.v1 of firecrawl-js: scrape, crawl, status, errors, cancel, batch, map, search, extract, watch, usage', async (t) => {
  const { client, site, server } = await openFirecrawl(t);
  const v1: Json = client.v1;
  const page = await v1.scrapeUrl(site.url('/p/3'), { formats: ['markdown', 'links'] });
  assert.match(page.markdown, /Number 3/);
  assert.deepEqual([page.success, page.metadata.statusCode], [true, 200]);
  assert.ok(page.links.length > 3);
  const titled = z3.object({ title: z3.string() });
  const json = await v1.scrapeUrl(site.url('/p/3'), { formats: ['json'], jsonOptions: { schema: titled } }); // prettier-ignore
  assert.equal(json.json.title, 'Page 3');
  const extract = await v1.scrapeUrl(site.url('/p/3'), { formats: ['extract'], extract: { schema } }); // prettier-ignore
  assert.equal(extract.extract.title, 'Page 3');
  await assert.rejects(v1.scrapeUrl(site.url('/p/3'), { formats: ['json'] }), { statusCode: 400 });
  await assert.rejects(v1.scrapeUrl(site.url('/silent'), { timeout: 1000 }), { statusCode: 408 });

  site.on('/p/5', html('', 404));
  const crawl = await v1.crawlUrl(site.url('/'), { limit: 30, ignoreSitemap: true, scrapeOptions: { formats: ['markdown'] } }); // prettier-ignore
  assert.deepEqual([crawl.status, crawl.data.length, crawl.total], ['completed', 30, 30]);
  assert.equal('next' in crawl, false, 'its clients follow any `next`, also null');
  const started = await v1.asyncCrawlUrl(site.url('/'), { limit: 40, ignoreSitemap: true, delay: 1 }); // prettier-ignore
  assert.match(started.url, /\/firecrawl\/v1\/crawl\/job_/);
  const ask = async (method: string, path: string): Promise<Json> =>
    (await server.api(method, `/firecrawl/v1${path}`)).json<Json>();
  for (const path of ['active', 'ongoing']) {
    const { crawls } = await ask('GET', `/crawl/${path}`);
    assert.ok(crawls.some(({ id }: Json) => id === started.id), path); // prettier-ignore
  }
  assert.equal((await v1.cancelCrawl(started.id)).status, 'cancelled');
  const seen = await v1.checkCrawlStatus(started.id);
  assert.equal(seen.status, 'cancelled');
  const both = [site.url('/p/1'), site.url('/p/5')];
  const batch = await v1.batchScrapeUrls(both, { formats: ['markdown', 'json'], jsonOptions: { schema } }); // prettier-ignore
  assert.deepEqual(batch.data.map(({ metadata }: Json) => metadata.statusCode).toSorted(), [200, 404]); // prettier-ignore
  assert.equal(batch.data[0].extract.title, 'Page 1');
  const other = await v1.asyncBatchScrapeUrls(both, { formats: ['markdown'] });
  const whole = await until('the batch is done', async () => {
    const status = await v1.checkBatchScrapeStatus(other.id, true);
    return status.status === 'completed' ? status : undefined;
  });
  assert.equal(whole.data.length, 2);
  assert.equal((await v1.checkBatchScrapeErrors(other.id)).errors[0].url, site.url('/p/5'));
  assert.equal((await ask('GET', `/batch/scrape/${other.id}/errors`)).errors.length, 1);
  await assert.rejects(v1.asyncBatchScrapeUrls(['nope'], {}), { statusCode: 400 });

  const map = await v1.mapUrl(site.url('/'), { limit: 12, ignoreSitemap: true });
  assert.deepEqual([map.links.length, typeof map.links[0]], [12, 'string']);
  const only = await v1.mapUrl(site.url('/'), { sitemapOnly: true });
  assert.ok(only.links.length > 0);
  const found = await v1.search('target', { limit: 3 });
  assert.deepEqual([found.data[0].url, found.warning], [site.url('/target'), undefined]);
  const read = await v1.search('target', { limit: 1, scrapeOptions: { formats: ['markdown'] } });
  assert.ok(read.data[0].markdown.length > 0);
  const extracted = await v1.extract([site.url('/p/1')], { schema: titled });
  assert.equal(extracted.data.title, 'Page 1');
  const credits = (await v1.getCreditUsage()).data;
  assert.ok(credits.remaining_credits > 0 && Date.parse(credits.billing_period_start) > 0);
  assert.ok((await v1.getTokenUsage()).data.remaining_tokens > 0);
  assert.ok((await v1.getQueueStatus()).success);
  for (const path of ['/deep-research', '/llmstxt'])
    assert.equal((await server.api('POST', `/firecrawl/v1${path}`, {})).status, 501);
});

test('.v1: a watcher gets every document and the end, and maxDepth counts path segments', async (t) => {
  const { client, site } = await openFirecrawl(t);
  const v1: Json = client.v1;
  const watcher = await v1.crawlUrlAndWatch(site.url('/'), { limit: 8, ignoreSitemap: true });
  const documents: Json[] = [];
  watcher.addEventListener('document', ({ detail }: Json) => documents.push(detail));
  const [{ detail }] = await once(watcher, 'done');
  assert.deepEqual([detail.status, documents.length], ['completed', 8]);
  const late = await v1.batchScrapeUrlsAndWatch([site.url('/p/1')], {});
  const [{ detail: last }] = await once(late, 'done');
  assert.equal(last.status, 'completed');
  const paths = ['/', '/one', '/one/two', '/one/two/three'];
  for (const path of paths)
    site.on(path, html(`<title>At ${path}</title><h1>At ${path}</h1>${paths.map((to) => `<a href="${to}">x</a>`).join('')}`)); // prettier-ignore
  const pathsOf = async (url: string, options: object): Promise<string[]> => {
    const crawl = await v1.crawlUrl(site.url(url), { limit: 20, ignoreSitemap: true, ...options });
    return crawl.data.map(({ metadata }: Json) => new URL(metadata.url).pathname).toSorted();
  };
  assert.deepEqual(await pathsOf('/', { maxDepth: 2 }), paths.slice(0, 3));
  assert.deepEqual(await pathsOf('/', { maxDepth: 1, regexOnFullURL: true }), paths.slice(0, 2));
  assert.equal((await pathsOf('/one/two', {})).includes('/'), false);
  assert.deepEqual(await pathsOf('/one/two', { allowBackwardLinks: true }), paths);
  await assert.rejects(v1.crawlUrl(site.url('/one/two'), { maxDepth: 1 }), { statusCode: 400 });
});
