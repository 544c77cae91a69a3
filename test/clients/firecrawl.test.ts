// Older versions of firecrawl-js, unmodified: 1.x, which only supports API v1, and 3.x with both API versions.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { openFirecrawl, type Json } from '../helpers/firecrawl.ts';
import { html } from '../fixtures/site/site.ts';

const packages = createRequire(import.meta.url);
const clientOf = async (name: string): Promise<Json> => {
  const { default: Client } = await import(name);
  return Client;
};
/** Each version has its own zod. */
const zodOf = (name: string): Json => createRequire(packages.resolve(name))('zod');

async function checkV1(v1: Json, z: Json, site: Json): Promise<void> {
  const schema = z.object({ title: z.string() });
  const page = await v1.scrapeUrl(site.url('/p/3'), { formats: ['markdown', 'json'], jsonOptions: { schema } }); // prettier-ignore
  assert.match(page.markdown, /Number 3/);
  assert.equal(page.json.title, 'Page 3');
  const crawl = await v1.crawlUrl(site.url('/'), { limit: 12, ignoreSitemap: true });
  assert.deepEqual([crawl.status, crawl.data.length], ['completed', 12]);
  const started = await v1.asyncCrawlUrl(site.url('/'), { limit: 40, delay: 1 });
  assert.equal((await v1.cancelCrawl(started.id)).status, 'cancelled');
  assert.equal((await v1.checkCrawlStatus(started.id)).status, 'cancelled');
  const batch = await v1.batchScrapeUrls([site.url('/p/1'), site.url('/lost')], { formats: ['markdown'] }); // prettier-ignore
  assert.deepEqual(batch.data.map(({ metadata }: Json) => metadata.statusCode), [200, 404]); // prettier-ignore
  const map = await v1.mapUrl(site.url('/'), { limit: 5, ignoreSitemap: true });
  assert.deepEqual([map.links.length, typeof map.links[0]], [5, 'string']);
  assert.equal((await v1.search('target', { limit: 3 })).data[0].url, site.url('/target'));
  const extracted = await v1.extract([site.url('/p/1')], { schema });
  assert.equal(extracted.data.title, 'Page 1');
  await assert.rejects(v1.scrapeUrl('http://10.0.0.1/'), /private address/);
}

test('firecrawl-js 1.x: scrape, crawl, cancel, batch, map, search, extract', async (t) => {
  const { server, site } = await openFirecrawl(t);
  const Client = await clientOf('firecrawl-js-1');
  const client = new Client({ apiKey: server.key, apiUrl: `${server.url}/firecrawl` });
  await checkV1(client, zodOf('firecrawl-js-1'), site);
});

test('firecrawl-js 3.x: the same through .v1, and v2: scrape, crawl, batch, map, search, extract, usage', async (t) => {
  const { server, site } = await openFirecrawl(t);
  site.on('/p/5', html('', 404));
  const Client = await clientOf('firecrawl-js-3');
  const client: Json = new Client({ apiKey: server.key, apiUrl: `${server.url}/firecrawl` });
  const z = zodOf('firecrawl-js-3');
  await checkV1(client.v1, z, site);
  const schema = z.object({ title: z.string() });
  const page = await client.scrape(site.url('/p/3'), { formats: ['markdown', { type: 'json', schema, prompt: 'title' }] }); // prettier-ignore
  assert.deepEqual([page.json.title, page.metadata.statusCode], ['Page 3', 200]);
  const unconverted = { _def: { typeName: 'ZodObject' }, '~standard': { version: 1 } };
  const lost = await client.scrape(site.url('/p/3'), { formats: [{ type: 'json', schema: unconverted, prompt: 'title' }] }); // prettier-ignore
  assert.match(lost.warning, /arrived as a zod object/);
  const crawl = await client.crawl(site.url('/'), { limit: 20, sitemap: 'skip', pollInterval: 1 });
  assert.deepEqual([crawl.status, crawl.data.length], ['completed', 20]);
  const urls = [site.url('/p/1'), site.url('/p/5')];
  const batch = await client.batchScrape(urls, { options: { formats: ['markdown'] }, pollInterval: 1 }); // prettier-ignore
  assert.deepEqual(batch.data.map(({ metadata }: Json) => metadata.statusCode), [200, 404]); // prettier-ignore
  assert.equal((await client.map(site.url('/'), { limit: 5, sitemap: 'skip' })).links.length, 5);
  assert.equal((await client.search('target')).web[0].url, site.url('/target'));
  const extracted = await client.extract({ urls: [urls[0]], schema });
  assert.deepEqual([extracted.data.title, extracted.sources], ['Page 1', { title: [urls[0]] }]);
  assert.ok((await client.getCreditUsage()).remainingCredits > 0);
});
