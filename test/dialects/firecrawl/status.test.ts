// What a client that does not page sees of a crawl, documents by their id, the cache, and requests that are refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { openFirecrawl, type FirecrawlParts, type Json } from '../../helpers/firecrawl.ts';
import { until } from '../../helpers/until.ts';

const v2 = async ({ server }: FirecrawlParts, method: string, path: string, body?: object) => {
  const answer = await server.api(method, `/firecrawl/v2${path}`, body);
  return { http: answer.status, ...answer.json<Json>() };
};

const ended = (parts: FirecrawlParts, id: string): Promise<Json> =>
  until('the crawl has ended', async () => {
    const answer = await v2(parts, 'GET', `/batch/scrape/${id}`);
    return answer.status === 'scraping' ? undefined : answer;
  });

test('status pages contain 100 documents or `limit`, at most 10 MiB, including error responses of the site', async (t) => {
  const parts = await openFirecrawl(t);
  const { site } = parts;
  site.on('/n/*', (request, response) => html(`<h1>Page ${request.url}</h1>`)(request, response));
  const addresses = (count: number) => Array.from({ length: count }, (_, n) => site.url(`/n/${n}`));
  const urls = [...addresses(103), site.url('/lost'), site.url('/barred')];
  site.on('/barred', html('', 403));
  const { id } = await v2(parts, 'POST', '/batch/scrape', { urls, ignoreRobotsTxt: true });
  const first = await ended(parts, id);
  assert.deepEqual([first.data.length, first.total], [100, 105]);
  const { search } = new URL(first.next);
  assert.equal(search, '?skip=100');
  const rest = await v2(parts, 'GET', `/batch/scrape/${id}${search}`);
  assert.deepEqual([rest.data.length, rest.next], [5, null]);
  const whole = await v2(parts, 'GET', `/batch/scrape/${id}?limit=200`);
  assert.deepEqual([whole.data.length, whole.next], [105, null]);
  const statuses = whole.data.map(({ metadata }: Json) => metadata.statusCode);
  assert.deepEqual(statuses.slice(-3).toSorted(), [200, 403, 404]);
  const few = await v2(parts, 'GET', `/batch/scrape/${id}?limit=7`);
  assert.equal(few.data.length, 7);
  assert.match(few.next, /\?skip=7&limit=7$/);
  assert.equal((await v2(parts, 'GET', `/batch/scrape/${id}?limit=0`)).http, 400);

  const large = ['a', 'b', 'c'].map((name) => site.url(`/long/${name}`));
  site.on('/long/*', (request, response) => {
    const text = `${request.url}: the river runs to the sea.\n`.repeat(100_000);
    response.writeHead(200, { 'content-type': 'text/plain' }).end(text);
  });
  const batch = await v2(parts, 'POST', '/batch/scrape', { urls: large, formats: ['rawHtml'] });
  const part = await ended(parts, batch.id);
  const bytes = Buffer.byteLength(JSON.stringify(part.data));
  assert.ok(bytes < 10 * 1024 * 1024 + 1000, `${bytes}`);
  assert.deepEqual([part.data.length, part.completed], [2, 3]);
  const last = await v2(parts, 'GET', `/batch/scrape/${batch.id}${new URL(part.next).search}`);
  assert.deepEqual([last.data.length, last.next], [1, null]);

  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  site.on('/slow', (request, response) => {
    void released.then(() => html('<h1>Slow</h1>')(request, response));
  });
  const slow = await v2(parts, 'POST', '/batch/scrape', { urls: [site.url('/slow')] });
  const running = await v2(parts, 'GET', `/batch/scrape/${slow.id}`);
  assert.deepEqual([running.status, running.data.length], ['scraping', 0]);
  const following = `/batch/scrape/${slow.id}${new URL(running.next).search}`;
  assert.equal((await v2(parts, 'GET', following)).next, null, 'clients that page do not loop');
  release();
  await ended(parts, slow.id);
  const found = await v2(parts, 'GET', following);
  assert.deepEqual([found.data.length, found.next], [1, null]);
});

test('documents have a scrapeId, and GET /scrape/{id} returns what the scrape returned', async (t) => {
  const parts = await openFirecrawl(t);
  const { site, client } = parts;
  const at = (id: string) => v2(parts, 'GET', `/scrape/${id}`);
  const schema = { type: 'object', properties: { title: { type: 'string' } } };
  const formats = ['markdown', 'links', { type: 'json', schema }];
  const page = await v2(parts, 'POST', '/scrape', { url: site.url('/p/3'), formats });
  assert.equal(page.data.json.title, 'Page 3');
  assert.deepEqual((await at(page.data.metadata.scrapeId)).data, page.data);
  const urls = [site.url('/p/1'), site.url('/p/2'), site.url('/gone')];
  const batch: Json = await client.batchScrape(urls, { pollInterval: 1 });
  assert.equal(new Set(batch.data.map(({ metadata }: Json) => metadata.scrapeId)).size, 3);
  for (const document of batch.data)
    assert.deepEqual((await at(document.metadata.scrapeId)).data, document);
  const { data } = await v2(parts, 'POST', '/scrape', { url: site.url('/p/4'), formats: ['markdown', 'changeTracking'] }); // prettier-ignore
  assert.deepEqual((await at(data.metadata.scrapeId)).data, data);
  const [crawlId] = batch.data[0].metadata.scrapeId.split('-');
  for (const id of [`${crawlId}-99`, 'job_0000000000000000', crawlId])
    assert.equal((await at(id)).http, 404, id);
  const extracted = await v2(parts, 'POST', '/extract', { urls: [site.url('/p/1')], schema });
  const answer: Json = await until('it is extracted', async () => {
    const now = await v2(parts, 'GET', `/extract/${extracted.id}`);
    return now.status === 'completed' ? now : undefined;
  });
  assert.deepEqual(
    answer.sources,
    { title: [site.url('/p/1')] },
    'a dict, as firecrawl-py requires',
  );
});

test('the cache, PDFs without a parser, the start URL of a filtered crawl, and rejected requests', async (t) => {
  const parts = await openFirecrawl(t);
  const { site, client } = parts;
  const scrape = async (path: string, options: object = {}): Promise<Json> =>
    client.scrape(site.url(path), options);
  const states = async (path: string, ...options: object[]): Promise<unknown[]> => {
    const seen: unknown[] = [];
    for (const one of options) seen.push((await scrape(path, one)).metadata.cacheState);
    return seen;
  };
  assert.deepEqual(await states('/p/1', {}, {}, { maxAge: 0 }), ['miss', 'hit', undefined]);
  const unstored = { storeInCache: false };
  assert.deepEqual(await states('/p/2', unstored, {}, unstored, { maxAge: 1 }), ['miss', 'miss', 'hit', 'miss']); // prettier-ignore
  const parsed = await scrape('/paper.pdf');
  assert.ok(parsed.metadata.numPages > 0);
  const bytes = await scrape('/paper.pdf', { parsers: [] });
  assert.match(Buffer.from(bytes.markdown, 'base64').toString('latin1'), /^%PDF-/);
  assert.deepEqual([bytes.metadata.numPages, bytes.metadata.creditsUsed], [undefined, 1]);
  assert.match((await scrape('/p/4', { parsers: [] })).markdown, /Number 4/);

  const crawl = async (options: object): Promise<Json> =>
    client.crawl(site.url('/'), { limit: 50, sitemap: 'skip', pollInterval: 1, ...options });
  const some = await crawl({ includePaths: ['^/p/1[0-9]$'] });
  assert.ok(some.data.length > 0);
  assert.ok(some.data.every(({ metadata }: Json) => /\/p\/1\d$/.test(metadata.sourceURL)));
  const none = await crawl({ includePaths: ['^/nowhere'] });
  assert.deepEqual([none.status, none.data], ['completed', []]);

  const url = site.url('/p/1');
  const refused: [path: string, body: object, problem: RegExp][] = [
    ['/scrape', { url, formats: ['nonsense'] }, /formats/],
    ['/scrape', { url, formats: [{ type: 'json', systemPrompt: 'x' }] }, /systemPrompt/],
    ['/scrape', { url, formats: [{ type: 'screenshot', viewport: { width: -1, height: 5 } }] }, /viewport/],
    ['/scrape', { url, parsers: ['nonsense'] }, /parsers/],
    ['/scrape', { url, parsers: { pdf: true } }, /parsers/],
    ['/scrape', { url, waitFor: 8000, timeout: 15_000 }, /waitFor must not exceed half of timeout/],
    ['/crawl', { url, scrapeOptions: { formats: ['nonsense'] } }, /scrapeOptions/],
  ]; // prettier-ignore
  for (const [path, body, problem] of refused) {
    const { http, success, error, details } = await v2(parts, 'POST', path, body);
    assert.deepEqual([http, success, error], [400, false, 'Bad Request']);
    assert.match(JSON.stringify(details), problem);
  }
  const late = await v2(parts, 'POST', '/map', { url: site.url('/silent'), timeout: 1 });
  assert.deepEqual([late.http, late.error], [408, 'Map timed out']);
  assert.deepEqual((await v2(parts, 'GET', '/crawl/ongoing')).crawls, []);
});
