// Less common requests of SearchClaw and Firecrawl clients: errors before a route, patterns on paths, running crawls, maps and
// searches with the defaults of the original.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html } from '../fixtures/site/site.ts';
import { openFirecrawl, type Json } from '../helpers/firecrawl.ts';
import { until } from '../helpers/until.ts';

test('errors have the format of the dialect, even before a route is reached', async (t) => {
  const { server } = await openFirecrawl(t);
  const get = async (path: string, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const answer = await fetch(`${server.url}${path}`, { headers });
    return { status: answer.status, body: (await answer.json()) as Json };
  };
  for (const key of [undefined, 'wrong']) {
    const claw = await get('/searchclaw/v1/usage', key);
    assert.deepEqual([claw.status, claw.body.error.code], [401, 'unauthorized']);
    assert.equal(claw.body.error.status, 401);
    assert.ok(claw.body.error.message.length > 0);
    const fire = await get('/firecrawl/v2/team/credit-usage', key);
    assert.deepEqual([fire.status, fire.body.success], [401, false]);
    assert.equal(typeof fire.body.error, 'string');
  }
  const claw = await get('/searchclaw/v1/nothing', server.key);
  assert.deepEqual([claw.status, claw.body.error.code], [404, 'not_found']);
  const fire = await get('/firecrawl/v2/nothing', server.key);
  assert.deepEqual([fire.status, fire.body.success], [404, false]);
});

test('Firecrawl: patterns match only the path, in every spelling', async (t) => {
  const { site, client } = await openFirecrawl(t);
  const links = ['/blog/1?page=2', '/blog/2', '/blog/2/comments', '/shop/blog', '/about'];
  site.on('/start', links.map((path) => `<a href="${path}">${path}</a>`).join(''));
  for (const path of links) site.on(path.split('?')[0]!, `<p>${'words '.repeat(20)}${path}</p>`);
  const crawl = async (options: object) => {
    const job: Json = await client.crawl(site.url('/start'), { sitemap: 'skip', crawlEntireDomain: true, pollInterval: 1, ...options }); // prettier-ignore
    return job.data.map(({ metadata }: Json) => metadata.sourceURL.slice(site.url('').length)).toSorted(); // prettier-ignore
  };
  const posts = ['/blog/1?page=2', '/blog/2'];
  assert.deepEqual(await crawl({ includePaths: ['^/blog/[0-9]+$'] }), posts);
  assert.deepEqual(await crawl({ includePaths: ['(^/blog/[0-9]+)$'] }), posts);
  assert.deepEqual(await crawl({ includePaths: ['^/about|^/blog/2$'] }), ['/about', '/blog/2']);
  assert.deepEqual(await crawl({ excludePaths: ['blog'] }), ['/about', '/start']);
  assert.deepEqual(await crawl({ includePaths: ['page=2'], regexOnFullURL: true }), ['/blog/1?page=2']); // prettier-ignore
});

test('Firecrawl: the status of a running crawl returns immediately, and later documents are not missed', async (t) => {
  const { server, site, client } = await openFirecrawl(t);
  const held: (() => void)[] = [];
  site.on('/p/1', (request, response) =>
    held.push(() => html('<p>held back</p>')(request, response)),
  );
  const { id }: Json = await client.startCrawl(site.url('/'), { sitemap: 'skip', crawlEntireDomain: true }); // prettier-ignore
  const running: Json = await until('all but one are there', async () => {
    const status: Json = await client.getCrawlStatus(id);
    // A page that is still to turn out a duplicate counts in the total.
    const settled = status.completed === 39 && status.total === 40;
    return settled && held.length > 0 ? status : undefined;
  });
  assert.equal(running.status, 'scraping');
  assert.equal(running.data.length, 39);
  held[0]!();
  await until('it is over', async () => (await client.getCrawlStatus(id)).status === 'completed');
  const rest: Json = (await server.api('GET', `/firecrawl/v2/crawl/${id}?skip=39`)).json();
  assert.deepEqual(
    rest.data.map(({ metadata }: Json) => metadata.sourceURL),
    [site.url('/p/1')],
    'skip is a number of documents',
  );
});

test('Firecrawl: map without queries and with subdomains, search within domains and times', async (t) => {
  const { server, site } = await openFirecrawl(t);
  site.on('/shelf', '<a href="/book?page=1">1</a><a href="/book?page=2">2</a>');
  const post = async (path: string, body: object): Promise<Json> =>
    (await server.api('POST', `/firecrawl/v2${path}`, body)).json();
  const shelf = { url: site.url('/shelf'), sitemap: 'skip' };
  const paths = ({ links }: Json): string[] =>
    links.map(({ url }: Json) => url.slice(site.url('').length)).filter((path: string) => path.startsWith('/book')); // prettier-ignore
  assert.deepEqual(paths(await post('/map', shelf)), ['/book']);
  assert.deepEqual(paths(await post('/map', { ...shelf, ignoreQueryParameters: false })), [
    '/book?page=1',
    '/book?page=2',
  ]);
  const found = (body: object) => post('/search', { query: 'target', tbs: 'qdr:w', ...body });
  assert.equal((await found({})).data.web.length, 1);
  assert.equal(
    new URL(site.hits.findLast(({ path }) => path.startsWith('/search?'))!.path, site.url('')).searchParams.get('time_range'), 'week'); // prettier-ignore
  assert.equal((await found({ excludeDomains: ['127.0.0.1'] })).data.web.length, 0);
  assert.equal((await found({ includeDomains: ['127.0.0.1'] })).data.web.length, 1);
  const places = [
    'https://github.com/a/b',
    'https://a.test/paper.pdf',
    'https://arxiv.org/abs/1',
    'https://b.test/',
  ];
  const asked: string[] = [];
  let knows = true;
  site.on('/search', (request, response) => {
    const { searchParams: said } = new URL(request.url, site.url(''));
    const query = said.get('q')!;
    if (!said.has('pageno')) asked.push(query);
    const urls = !said.has('pageno') && (knows || !query.includes('site:')) ? places : [];
    const results = urls.map((url) => ({ title: url, url, content: 'x', engine: 'fixture' }));
    html(JSON.stringify({ query, results, suggestions: [] }), 200, { 'content-type': 'application/json' })(request, response); // prettier-ignore
  });
  const categories = ['github', { type: 'pdf' }];
  const parted = async () => (await found({ categories })).data.web.map(({ url, category }: Json) => [url, category]); // prettier-ignore
  const both = [[places[0], 'github'], [places[1], 'pdf']]; // prettier-ignore
  assert.deepEqual(await parted(), both);
  assert.deepEqual(asked, ['target (site:github.com OR filetype:pdf)']);
  knows = false;
  assert.deepEqual(await parted(), both, 'also of an engine that does not know the words');
  assert.deepEqual(asked.slice(1, 3), ['target (site:github.com OR filetype:pdf)', 'target']);
  const page = await post('/scrape', { url: site.url('/p/3') });
  assert.equal(page.data.metadata.contentType, 'text/html');
  assert.match(page.data.metadata.scrapeId, /^job_/);
});

test("Firecrawl: a call waits as long as the client's timeout", async (t) => {
  const { site, client } = await openFirecrawl(t);
  const held: (() => void)[] = [];
  const slow = html('<title>Slow</title><main><h1>Slow</h1><p>At last it is here.</p></main>');
  site.on('/held', (...asked) => void held.push(() => slow(...asked)));
  const reading = client.scrape(site.url('/held'), { timeout: 60_000 });
  await until('it is asked for', () => held.length > 0);
  const start = Date.now();
  await until('longer than the first call waits', () => Date.now() - start > 5500, 10_000);
  held[0]!();
  assert.match((await reading).markdown, /At last/);
  await assert.rejects(client.map(site.url('/held'), { sitemap: 'skip', timeout: 1000 }), {
    status: 408,
    code: 'MAP_TIMEOUT',
    message: 'Map timed out',
  });
});
