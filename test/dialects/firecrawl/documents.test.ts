// Documents as Firecrawl's clients read them: the requested and the final URL, the site's error responses, and a warning for
// every option without an effect.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import { until } from '../../helpers/until.ts';

const moved = (to: string, status = 301) => html('', status, { location: to });
const pathsOf = ({ data }: Json, base: string): Json[] =>
  data
    .map(({ metadata: { sourceURL, url, statusCode } }: Json) => [
      sourceURL.slice(base.length),
      url.slice(base.length),
      statusCode,
    ])
    .toSorted();

test('sourceURL is the requested URL and url the final one: scrape, crawl, batch', async (t) => {
  const { site, client, server } = await openFirecrawl(t);
  const base = site.url('');
  site.on('/old', moved('/older', 302));
  site.on('/older', moved('/new'));
  site.on('/new', html('<title>New</title><main><h1>New</h1><p>Here now.</p><a href="/was">w</a></main>')); // prettier-ignore
  site.on('/was', moved('/is'));
  site.on('/is', html('<title>Is</title><main><h1>Is</h1><p>Another text, of its own.</p></main>'));
  const page: Json = await client.scrape(`${base}/old`);
  assert.deepEqual([page.metadata.sourceURL, page.metadata.url], [`${base}/old`, `${base}/new`]);
  const options = { pollInterval: 1, sitemap: 'skip', crawlEntireDomain: true };
  const crawl: Json = await client.crawl(`${base}/old`, options);
  const both = [['/old', '/new', 200], ['/was', '/is', 200]]; // prettier-ignore
  assert.deepEqual(pathsOf(crawl, base), both);
  const batch: Json = await client.batchScrape([`${base}/old`, `${base}/is`], { pollInterval: 1 });
  assert.deepEqual(pathsOf(batch, base), [['/is', '/is', 200], ['/old', '/new', 200]]); // prettier-ignore
  const { jobs } = (await server.api('GET', '/api/jobs?kind=web&limit=10')).json<{
    jobs: { id: string; summary: string }[];
  }>();
  const { id } = jobs.find(({ summary }) => summary === `crawl ${base}/old`)!;
  const rows = (await server.api('GET', `/api/web/crawls/${id}/pages`)).json<Json>().pages;
  assert.deepEqual(
    rows.map(({ url, from }: Json) => [url, from]),
    [[`${base}/new`, `${base}/old`], [`${base}/is`, `${base}/was`]],
  ); // prettier-ignore
});

test('an error response of the site is a document and counts towards the limit', async (t) => {
  const { site, client } = await openFirecrawl(t);
  const base = site.url('');
  const links = ['/a', '/lost', '/b', '/barred'].map((path) => `<a href="${path}">x</a>`).join('');
  site.on('/hub', html(`<h1>Hub</h1>${links}`));
  for (const name of ['a', 'b']) site.on(`/${name}`, html(`<h1>${name}</h1><p>Page ${name}.</p>`));
  site.on('/lost', html('<h1>Lost</h1>', 404));
  site.on('/barred', html('', 403));
  const options = { pollInterval: 1, sitemap: 'skip', crawlEntireDomain: true };
  const pages = ['/a', '/b', '/hub'].map((path) => [path, path, 200]);
  const crawl: Json = await client.crawl(`${base}/hub`, { ...options, limit: 10 });
  const answers = [['/barred', '/barred', 403], ['/lost', '/lost', 404]]; // prettier-ignore
  assert.deepEqual(pathsOf(crawl, base), [pages[0], pages[1], answers[0], pages[2], answers[1]]);
  assert.deepEqual([crawl.completed, crawl.total], [5, 5]);
  const lost = crawl.data.find(({ metadata }: Json) => metadata.statusCode === 404);
  assert.deepEqual([lost.markdown, lost.metadata.error], [undefined, 'http404']);
  const tight: Json = await client.crawl(`${base}/hub`, { ...options, limit: 4 });
  assert.equal(tight.data.length, 4, 'never more than the limit');
  const urls = ['/lost', '/a', '/barred'].map((path) => base + path);
  const batch: Json = await client.batchScrape(urls, { pollInterval: 1 });
  assert.deepEqual(pathsOf(batch, base), [['/a', '/a', 200], ...answers]);
  const only: Json = await client.batchScrape([`${base}/lost`], { pollInterval: 1 });
  assert.deepEqual([only.status, only.data[0].metadata.statusCode], ['completed', 404]);
});

test('options without an effect are named, and limits match the original', async (t) => {
  const { server, site } = await openFirecrawl(t);
  const url = site.url('/p/1');
  const post = async (path: string, body: object): Promise<Json> => {
    const answer = await server.api('POST', `/firecrawl/v2${path}`, body);
    assert.equal(answer.status, 200, answer.text);
    return answer.json<Json>();
  };
  const prompted = await post('/crawl', { url, limit: 1, prompt: 'only the docs' });
  assert.match(prompted.warning, /prompt was not used/);
  const scrapeOptions = { formats: ['markdown', 'summary'] };
  assert.match((await post('/crawl', { url, limit: 1, scrapeOptions })).warning, /summary/);
  assert.match((await post('/batch/scrape', { urls: [url], formats: ['branding'] })).warning, /branding/); // prettier-ignore
  assert.equal((await post('/crawl', { url, limit: 1 })).warning, undefined);
  const asked = { url, limit: 1, robotsUserAgent: 'x', deduplicateSimilarURLs: true, scrapeOptions: { mobile: true, proxy: 'auto', formats: [{ type: 'screenshot', fullPage: true }] } }; // prettier-ignore
  assert.equal(
    (await post('/crawl', asked)).warning,
    'Not used here: robotsUserAgent, mobile, fullPage of screenshot.',
  );
  const options = { location: { country: 'DE' }, blockAds: true, parsers: ['pdf'], mobile: false };
  assert.equal((await post('/scrape', { url, ...options })).data.warning, 'Not used here: location.'); // prettier-ignore
  const misspelt = { url, onlyMainContents: false, origin: 'x' };
  assert.equal((await post('/scrape', misspelt)).data.warning, 'Not used here: onlyMainContents.');
  const odd = await post('/search', { query: 'q', sources: ['web', 'maps'], categories: ['developer'], enterprise: ['zdr'] }); // prettier-ignore
  assert.equal(
    odd.warning,
    'Not available here: maps, category developer. Not used here: enterprise.',
  );
  const row = (n: number) => ({ title: `T${n}`, url: `${url}?n=${n}`, content: `of ${n}`, engine: 'fixture' }); // prettier-ignore
  site.on('/search', (request, response) => {
    const page = Number(new URL(request.url, url).searchParams.get('pageno') ?? 1);
    const results = Array.from({ length: 60 }, (_, i) => row((page - 1) * 60 + i));
    html(JSON.stringify({ query: 'q', results, suggestions: [] }), 200, { 'content-type': 'application/json' })(request, response); // prettier-ignore
  });
  assert.equal((await post('/search', { query: 'q', limit: 100 })).data.web.length, 100);
  const links = Array.from({ length: 60_000 }, (_, n) => `<url><loc>${site.url(`/n/${n}`)}</loc></url>`); // prettier-ignore
  const maps = [links.slice(0, 30_000), links.slice(30_000)];
  for (const [i, list] of maps.entries())
    site.on(`/map${i}.xml`, html(`<urlset>${list.join('')}</urlset>`, 200, { 'content-type': 'application/xml' })); // prettier-ignore
  site.on('/sitemap.xml', html(`<sitemapindex>${maps.map((_, i) => `<sitemap><loc>${site.url(`/map${i}.xml`)}</loc></sitemap>`).join('')}</sitemapindex>`, 200, { 'content-type': 'application/xml' })); // prettier-ignore
  const mapped = await post('/map', { url: site.url('/'), limit: 100_000, sitemap: 'only' });
  assert.ok(mapped.links.length > 60_000 - 1, `${mapped.links.length}`);
});

test('search fetches pages only when formats are requested; extract, jobs and errors match the original', async (t) => {
  const { server, site, client } = await openFirecrawl(t);
  const call = async (method: string, path: string, body?: object): Promise<Json> => {
    const answer = await server.api(method, `/firecrawl/v2${path}`, body);
    return { http: answer.status, ...answer.json<Json>() };
  };
  const search = (more: object) => call('POST', '/search', { query: 'target', ...more });
  site.on('/target', `<main><h1>Target</h1><p>${'It says so. '.repeat(20)}</p></main>`);
  const plain = await search({ scrapeOptions: { onlyMainContent: true }, safe: true });
  assert.deepEqual([plain.data.web[0].markdown, site.count('/target')], [undefined, 0]);
  assert.match(plain.id, /^job_/);
  assert.match(site.hits.findLast(({ path }) => path.startsWith('/search?'))!.path, /safesearch=2/);
  const read = await search({ sources: ['news'], scrapeOptions: { formats: ['markdown'] } });
  assert.match(read.data.news[0].markdown, /It says so/);
  // Only who knows the word sees the data; every reading of a scrape has to say it.
  site.on('/guarded', (request, response) =>
    html('<title>Inner</title><p>secret</p>', request.headers['x-word'] ? 200 : 403)(request, response)); // prettier-ignore
  const schema = { type: 'object', properties: { title: { type: 'string' } } };
  const inner: Json = await client.scrape(site.url('/guarded'), { formats: ['markdown', { type: 'json', schema }], headers: { 'x-word': 'please' } }); // prettier-ignore
  assert.equal(inner.json.title, 'Inner');
  assert.equal((await call('POST', '/extract', {})).http, 400);
  const urls = [site.url('/p/2/*'), 'nope'];
  const extract = await call('POST', '/extract', { urls, schema });
  assert.deepEqual(extract.invalidURLs, ['nope']);
  assert.match(extract.warning, /only its first page/);
  const started = await server.api('POST', '/api/commands', { command: 'sleep 60', waitMs: 0 });
  const { id } = started.json<{ id: string }>();
  for (const [method, path] of [['GET', 'crawl'], ['DELETE', 'crawl'], ['GET', 'extract']])
    assert.equal((await call(method!, `/${path}/${id}`)).http, 404, 'not theirs'); // prettier-ignore
  assert.match((await server.api('GET', `/api/jobs/${id}`)).json<Json>().status, /queued|running/);
  const batch = await call('POST', '/batch/scrape', { urls: [site.url('/silent')] });
  assert.deepEqual((await call('GET', '/crawl/active')).crawls, []);
  assert.equal((await call('DELETE', `/batch/scrape/${batch.id}`)).status, 'cancelled');
  const hook = { url: site.url('/hook'), events: ['boom'] };
  const odd = await call('POST', '/crawl', { url: site.url('/'), webhook: hook });
  assert.match(odd.error, /webhook\.events .* started, page, completed, failed\./);
  const many = { urls: [site.url('/p/1')], maxConcurrency: 500, delay: 0.0001 };
  assert.equal((await call('POST', '/batch/scrape', many)).http, 200);
  const wrong = await call('POST', '/crawl', { url: site.url('/'), limit: 0 });
  assert.deepEqual([wrong.http, wrong.success], [400, false]);
  assert.match(
    wrong.error,
    /^Invalid input: limit: must be at least .*\. The fields are those of Firecrawl’s API reference for this version\.$/,
  );
  const late = await call('POST', '/scrape', { url: site.url('/silent'), timeout: 1000 });
  assert.equal(late.http, 408, late.error);
});

test('a long document is complete and has the metadata of the original', async (t) => {
  const { site, client, server } = await openFirecrawl(t);
  const line = (_: unknown, n: number) => `<p>${n}: the river runs to the sea, past the mill and the bridge, and ends there.</p>`; // prettier-ignore
  const text = Array.from({ length: 5000 }, line).join('');
  const head = '<title>Long</title><meta property="og:site_name" content="Mill"><meta property="article:published_time" content="2026-01-02">'; // prettier-ignore
  site.on(
    '/long',
    html(
      `${head}<main><h1>Long</h1><p>A mill <img src="/mill.png" alt="The mill"> by the river.</p>${text}</main>`,
    ),
  );
  const formats = ['markdown', 'html', 'rawHtml'];
  const options = { limit: 1, sitemap: 'skip', pollInterval: 1, scrapeOptions: { formats } };
  const crawl: Json = await client.crawl(site.url('/long'), options);
  const page: Json = await client.scrape(site.url('/long'), { formats });
  for (const format of formats) {
    assert.ok(page[format].length > 380_000, `${format} ${page[format].length}`);
    assert.equal(crawl.data[0][format], page[format], format);
  }
  assert.ok(page.markdown.includes(`![The mill](${site.url('/mill.png')})`), 'with its pictures');
  const { ogSiteName, publishedTime, scrapeId } = page.metadata;
  assert.deepEqual([ogSiteName, publishedTime], ['Mill', '2026-01-02']);
  assert.match(scrapeId, /^job_/);
  assert.equal(crawl.data[0].metadata.ogSiteName, 'Mill');
  const kept: Json = await client.scrape(site.url('/long'), { formats, maxAge: 60_000 });
  assert.deepEqual([kept.metadata.cacheState, kept.metadata.creditsUsed], ['hit', 0]);
  const { id }: Json = await client.startBatchScrape([site.url('/p/1')]);
  const wrong = await server.api('GET', `/firecrawl/v2/batch/scrape/${id}?skip=-1`);
  assert.deepEqual([wrong.status, wrong.json<Json>().success], [400, false]);
});

test('unsupported routes name an alternative, and errors have the codes of the original', async (t) => {
  const { site, client, server } = await openFirecrawl(t);
  const refused = async (call: () => Promise<unknown>, error: object) =>
    assert.rejects(call, error);
  await refused(() => client.listMonitors(), { status: 501, message: /changeTracking/ });
  await refused(() => client.interact('job_x', { code: '1' }), { status: 501, message: /actions/ });
  await refused(() => client.parse({ data: '<p>x</p>', filename: 'x.html' }), { status: 501 });
  await refused(() => client.crawlParamsPreview(site.url('/'), 'docs'), { status: 501 });
  const old = await server.api('POST', '/firecrawl/v0/scrape', { url: site.url('/') });
  assert.deepEqual([old.status, old.json<Json>().error], [501, 'Version 0 of the API is not available. Use /firecrawl/v2, or /firecrawl/v1 for older clients.']); // prettier-ignore
  await refused(() => client.scrape('http://nowhere.invalid/'), { code: 'SCRAPE_DNS_RESOLUTION_ERROR' }); // prettier-ignore
  await refused(() => client.scrape(site.url('/silent'), { timeout: 1000 }), { status: 408, code: 'SCRAPE_TIMEOUT' }); // prettier-ignore
  await refused(() => client.getCrawlStatus('job_0000000000000000'), { status: 404 });
  const guest = await server.api('POST', '/api/keys', { owner: 'guest', scopes: ['read', 'run'] });
  const { default: Firecrawl } = (await import('@mendable/firecrawl-js')) as Json;
  const other = new Firecrawl({
    apiKey: guest.json<Json>().key,
    apiUrl: `${server.url}/firecrawl`,
  });
  const { id }: Json = await client.startCrawl(site.url('/'), { limit: 1 });
  await refused(() => other.getCrawlStatus(id), { status: 404 });
  await refused(() => other.cancelCrawl(id), { status: 404 });
  await refused(() => other.getCrawlErrors(id), { status: 404 });
  const { remainingTokens, billingPeriodStart }: Json = await client.getTokenUsage();
  assert.ok(remainingTokens > 0 && Date.parse(billingPeriodStart) > 0);
  assert.ok(Array.isArray((await client.getTokenUsageHistorical()).periods));
  assert.match((await client.map(site.url('/'), { limit: 2 })).id, /^job_/);
  const search = await server.api('POST', '/firecrawl/v2/search', { query: 'q', tbs: 'cdr:1' });
  assert.equal(search.json<Json>().warning, 'Not used here: tbs cdr:1.');
  const formats = [{ type: 'json', prompt: 'x' }];
  const batch = await server.api('POST', '/firecrawl/v2/batch/scrape', { urls: [site.url('/')], formats, maxAge: 5 }); // prettier-ignore
  assert.equal(batch.json<Json>().warning, 'Not used here: maxAge, prompt of json.');
});

test('webhooks deliver only the requested events, signed with the secret', async (t) => {
  const { site, client } = await openFirecrawl(t);
  site.on('/hook', html('ok'));
  const webhook = { url: site.url('/hook'), events: ['completed'], secret: 'k' };
  await client.crawl(site.url('/'), { limit: 2, sitemap: 'skip', pollInterval: 1, webhook });
  await client.crawl(site.url('/gone'), { limit: 2, sitemap: 'skip', pollInterval: 1, webhook });
  const reported = await until('the webhook is delivered', () =>
    site.hits.find(({ path }) => path === '/hook'),
  );
  assert.equal(JSON.parse(reported.body).type, 'crawl.completed');
  const mac = createHmac('sha256', 'k').update(reported.body).digest('hex');
  assert.equal(reported.headers['x-firecrawl-signature'], `sha256=${mac}`);
  assert.equal(site.count('/hook'), 1);
});
