// SearchClaw's API and its fifteen tools, with every defect of the original as a line that must hold here.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { searchclawDialect } from '../../../src/dialects/searchclaw/index.ts';
import type { DialectCall } from '../../../src/dialect.ts';
import { html, startSite, type Site } from '../../fixtures/site/site.ts';
import { until } from '../../helpers/until.ts';
import { contextOf, createWeb, type Web } from '../../helpers/web.ts';

type Json = ReturnType<typeof JSON.parse>;

async function open(t: TestContext): Promise<{
  web: Web;
  site: Site;
  tool(name: string, input: object): Promise<Json>;
  http(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: Json; headers: Record<string, string> }>;
}> {
  const site = await startSite(t, { pages: 30 });
  site.on('/search', (request, response) => {
    const news = new URL(request.url, 'http://x').searchParams.get('categories') ?? 'general';
    const results = [
      { title: 'Target', url: site.url('/target'), content: 'target snippet', engine: 'fixture', publishedDate: '2026-01-02', img_src: site.url('/i.png'), thumbnail: site.url('/t.png'), category: news },
      { title: 'Gone', url: site.url('/gone'), content: 'gone snippet', engine: 'fixture' },
      { title: 'Shop', url: site.url('/shop'), content: 'shop snippet', engine: 'fixture' },
    ]; // prettier-ignore
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ query: 'q', results, suggestions: ['target two'] }));
  });
  site.on(
    '/shop',
    '<html><head><title>Shop</title><script type="application/ld+json">{"@type":"Product","name":"Lamp","offers":{"price":"12.50"}}</script></head><body><h1>Lamp</h1></body></html>',
  );
  const web = await createWeb(t, { settings: { search: { searxngUrl: site.url('') } } });
  const call: DialectCall = { operations: web.operations, context: contextOf('me') };
  return {
    web,
    site,
    tool: async (name, input) => {
      const found = searchclawDialect.tools!.find((one) => one.name === name)!;
      const answer = await found.run(found.input.parse(input), call);
      assert.notEqual(answer.isError, true, answer.text);
      assert.deepEqual(JSON.parse(answer.text!), JSON.parse(JSON.stringify(answer.structured)));
      return answer.structured;
    },
    http: async (method, path, body) => {
      const [plain, query = ''] = path.split('?');
      const route = searchclawDialect.routes!.find(
        (one) => one.method === method && matches(one.path, `/searchclaw/v1${plain}`),
      )!;
      const params = paramsOf(route.path, `/searchclaw/v1${plain}`);
      const bytes = Buffer.from(body ? JSON.stringify(body) : '');
      const answer = await route
        .handle(
        { method, path: plain!, params, query: new URLSearchParams(query), headers: {}, body: bytes, json: () => JSON.parse(bytes.toString()), caller: call.context.caller, remoteAddress: '', baseUrl: '' },
        call,
      )
        .catch((error: unknown) => searchclawDialect.errors!.toResponse(error, path)); // prettier-ignore
      return { status: answer.status, body: answer.body, headers: answer.headers ?? {} };
    },
  };
}

const matches = (pattern: string, path: string) =>
  new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
const paramsOf = (pattern: string, path: string) => {
  const names = [...pattern.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const values = new RegExp(`^${pattern.replace(/\{\w+\}/g, '([^/]+)')}$`).exec(path)!.slice(1);
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]));
};

test('the fifteen tool names', () => {
  assert.deepEqual(
    searchclawDialect.tools!.map(({ name }) => name),
    'search search_ai news images suggest extract markdown screenshot crawl job_status map pipeline browse agent usage'.split(
      ' ',
    ),
  );
});

test('crawl follows links up to exactly max_pages; job_status pages with counts, cursor and stop reason', async (t) => {
  const { tool, http, site } = await open(t);
  const {
    job_id: id,
    status,
    poll_url: poll,
  } = await tool('crawl', { url: site.url('/'), max_pages: 12 });
  assert.equal(status, 'processing');
  assert.equal(poll, `/v1/jobs/${id}`);
  const done = await until('it is done', async () => {
    const answer = await tool('job_status', { job_id: id });
    return ['completed', 'partial'].includes(answer.status) ? answer : undefined;
  });
  assert.equal(done.progress.pages_crawled, 12);
  assert.equal(done.stop_reason, 'limit');
  assert.equal(done.counts.fetched, 12);
  assert.ok(done.meta.credits_used >= 12);
  const urls = new Set<string>();
  for (let cursor: string | undefined; ;) {
    const page = await tool('job_status', {
      job_id: id,
      max_bytes: 4000,
      ...(cursor ? { cursor } : {}),
    });
    assert.ok(JSON.stringify(page).length < 8000);
    for (const item of page.data) urls.add(item.url);
    cursor = page.next_cursor ?? undefined;
    if (!cursor) break;
  }
  assert.equal(urls.size, 12);
  const other = await http('GET', `/jobs/${id}`);
  assert.equal(other.body.job_id, id);
  const unknown = await http('GET', '/jobs/job_0000000000000000');
  assert.equal(unknown.status, 404);
  assert.deepEqual([unknown.body.error.code, unknown.body.error.status], ['not_found', 404]);
});

test('options of HTTP crawl and search are applied, or the response names the ones that were not', async (t) => {
  const { tool, http, site } = await open(t);
  const crawled = async (body: object): Promise<{ started: Json; done: Json; paths: string[] }> => {
    const { status, body: started } = await http('POST', '/crawl', body);
    assert.equal(status, 200, JSON.stringify(started));
    const done = await until('it is done', async () => {
      const answer = await tool('job_status', { job_id: started.job_id });
      return ['completed', 'partial'].includes(answer.status) ? answer : undefined;
    });
    return { started, done, paths: done.data.map((one: Json) => one.url.slice(site.url('').length)).toSorted() }; // prettier-ignore
  };
  const url = site.url('/');
  const few = await crawled({ url, max_pages: 20, max_items: 3 });
  assert.equal(few.done.progress.pages_crawled, 3);
  assert.equal(few.started.notice, undefined);
  const item = (n: number) => `<div class="item"><p>Item ${n} is for sale.</p></div>`;
  site.on('/list', (request, response) => {
    const n = Number(new URL(request.url, url).searchParams.get('page') ?? 1);
    html(`<h1>List</h1><p>Read this first.</p>${item(n * 2)}${item(n * 2 + 1)}<a href="/p/1">x</a>`)(request, response); // prettier-ignore
  });
  const pagination = { type: 'url_pattern', pattern: site.url('/list?page={page}'), max_pages: 3 };
  const list = await crawled({ url: site.url('/list'), list_selector: '.item', pagination });
  assert.deepEqual(list.paths, ['/list', '/list?page=2', '/list?page=3']);
  const text = list.done.data.map((one: Json) => one.markdown).join();
  assert.match(text, /Item 7 is for sale/);
  assert.doesNotMatch(text, /Read this first/, 'only the items');
  site.on('/next', (request, response) => {
    const n = Number(new URL(request.url, url).searchParams.get('n') ?? 1);
    html(`<a href="/p/1">elsewhere</a><h1>Leaf ${n}</h1><p class="go"><a href="/next?n=${n + 1}">Next</a></p>`)(request, response); // prettier-ignore
  });
  const button = { selector: '.go', max_pages: 3 };
  const other = await crawled({ url: site.url('/next'), pagination: button, prompt: 'x', proxy: 'residential' }); // prettier-ignore
  assert.deepEqual(other.paths, ['/next', '/next?n=2', '/next?n=3'], 'the button alone');
  assert.equal(other.started.notice, 'prompt was not used: give a schema. proxy was not used.');
  const odd = await http('POST', '/crawl', { url, pagination: { type: 'by_hand' } });
  assert.match(odd.body.error.hint, /next_button, url_pattern or infinite_scroll/);
  const wrong = await http('POST', '/crawl', { url, pagination: { type: 'url_pattern' } });
  assert.deepEqual([wrong.status, wrong.body.error.code], [400, 'invalid_request']);
  const notice = async (depth: string) => (await http('GET', `/search?q=x&depth=${depth}`)).body.meta.notice; // prettier-ignore
  assert.match(await notice('deep'), /depth=deep was not used/);
  assert.equal(await notice('basic'), undefined);
  const page = { url: site.url('/p/1'), wait_for: 'networkidle', proxy: 'none' };
  const { body: markdown } = await http('POST', '/markdown', page);
  assert.equal(markdown.meta.notice, 'wait_for: not used here.');
  const { body: map } = await http('POST', '/map', { url, max_pages: 20, limit: 2 });
  assert.deepEqual([map.urls.length, map.notice], [2, undefined]);
  for (const [method, path, body, field] of [
    ['GET', '/search', undefined, 'q'],
    ['POST', '/map', { url, max_pages: 0 }, 'max_pages'],
    ['POST', '/pipeline', { query: 'x', schema: { a: 'string' }, max_results: 0 }, 'max_results'],
    ['GET', '/usage/history?group_by=decade', undefined, 'group_by'],
    ['GET', '/usage/history?format=xml', undefined, 'format'],
    ['POST', '/crawl', { url, list_selector: 5 }, 'list_selector'],
    ['POST', '/crawl', { url, pagination: 'x' }, 'pagination'],
    ['POST', '/browse', { url, actions: 'x' }, 'actions'],
    ['POST', '/browse', { url, actions: [null] }, 'actions.0'],
    [
      'POST',
      '/markdown',
      { url, chunking: { enabled: true, strategy: 'zig' } },
      'chunking.strategy',
    ],
    ['POST', '/map', [1], 'body'],
    ['GET', `/jobs/${few.started.job_id}?max_bytes=10`, undefined, 'max_bytes'],
  ] as const) {
    const { status, body: answer } = await http(method, path, body);
    assert.equal(status, 400, path);
    assert.match(answer.error.message, new RegExp(`\\b${field}\\b`), 'by its own name');
    assert.ok(answer.error.hint.length > 0);
  }
});

test('search, news, images, suggest, search_ai: rich rows, each with its engine', async (t) => {
  const { tool, http, site } = await open(t);
  const found = await tool('search', { q: 'target' });
  assert.equal(found.results[0].url, site.url('/target'));
  assert.equal(found.results[0].source, 'searxng');
  for (const method of ['GET', 'POST']) {
    const ask = (what: string) =>
      method === 'GET'
        ? http(method, `/search/${what}?q=x`)
        : http(method, `/search/${what}`, { q: 'x' });
    const news = await ask('news');
    assert.equal(news.status, 200);
    assert.match(news.body.results[0].published_date, /^2026-01-02/);
    assert.equal((await ask('images')).status, 200);
  }
  const images = await tool('images', { q: 'x' });
  assert.match(images.results[0].img_src, /i\.png$/);
  const ai = await tool('search_ai', { q: 'target page says a sentence' });
  assert.match(ai.context, /\[1\]/);
  assert.equal(ai.sources.length, 3);
  assert.match(ai.sources[1].error, /404/);
  assert.equal(ai.sources[0].snippet, 'target snippet');
  const silent = await tool('search_ai', { q: 'zzqx' });
  assert.match(silent.context, /^\[1\] Target: target snippet\n\[2\] Gone: gone snippet/);
  site.on('/autocompleter', (_request, response) => void response.end('["target","tar"]'));
  assert.deepEqual((await tool('suggest', { q: 'tar' })).suggestions, ['target', 'tar']);
});

test('extract accepts a JSON Schema or a flat map and returns null for missing values', async (t) => {
  const { tool, site } = await open(t);
  const schema = {
    type: 'object',
    properties: { name: { type: 'string' }, price: { type: 'number' }, colour: { type: 'string' } },
    required: ['name'],
  };
  const real = await tool('extract', { url: site.url('/shop'), schema });
  assert.deepEqual(real.data, { name: 'Lamp', price: 12.5, colour: null });
  assert.equal(real.meta.extraction_method, 'rule');
  const flat = await tool('extract', {
    url: site.url('/shop'),
    schema: { name: 'string', price: 'number' },
  });
  assert.deepEqual(flat.data, { name: 'Lamp', price: 12.5 });
  assert.ok(real.needs_model.content.length > 0);
});

test('markdown contains the main content, optionally in chunks; map, agent and pipeline return data', async (t) => {
  const { tool, http, site } = await open(t);
  const page = await tool('markdown', { url: site.url('/p/3') });
  assert.match(page.markdown, /Number 3 part 0/);
  assert.doesNotMatch(page.markdown, /Generated for tests/);
  const chunks = await http('POST', '/markdown', {
    url: site.url('/p/3'),
    chunking: { enabled: true, max_chunk_size: 300, strategy: 'sentence' },
  });
  assert.equal(chunks.body.total_chunks, chunks.body.chunks.length);
  for (const [index, chunk] of chunks.body.chunks.entries()) {
    assert.ok(chunk.text.length <= 300);
    assert.deepEqual([chunk.index, chunk.char_count], [index, chunk.text.length]);
    assert.equal(chunk.metadata.heading, 'Page 3');
  }
  assert.equal(chunks.body.chunks.at(-1).metadata.position, 'end');
  site.on('/mill', html('<title>M</title><main><h1>Mill</h1><p>The old mill <img src="/m.png" alt="M"> stands by the river.</p></main>')); // prettier-ignore
  for (const [include_images, has] of [
    [undefined, true],
    [false, false],
  ] as const) {
    const { body: mill } = await http('POST', '/markdown', {
      url: site.url('/mill'),
      include_images,
    });
    assert.equal(mill.markdown.includes('m.png'), has);
  }
  const map = await tool('map', { url: site.url('/'), max_pages: 25 });
  assert.equal(map.urls.length, 25);
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  const pipeline = await tool('pipeline', { query: 'lamp', schema, extract_from: 3 });
  assert.equal(pipeline.meta.failed, 1);
  assert.match(pipeline.results.find((one: Json) => one.url.endsWith('/gone')).error, /404/);
  const lamp = pipeline.results.find((one: Json) => one.url.endsWith('/shop'));
  assert.deepEqual(lamp.extracted_data, { name: 'Lamp' });
  const { search_credits, extract_credits, total_credits } = pipeline.meta;
  assert.deepEqual([search_credits, extract_credits, total_credits], [1, 2, 3]);
  const agent = await tool('agent', {
    prompt: 'the name of the lamp',
    schema,
    max_credits: 10,
    max_sources: 3,
  });
  const reported = agent.conflicts[0].values.map((one: Json) => one.value);
  assert.deepEqual(reported.toSorted(), ['Lamp', 'Trap'], 'sources that disagree are shown');
  assert.ok(agent.provenance.name.length > 0);
  assert.ok(agent.credits_used <= 10);
  const later = await tool('job_status', { job_id: agent.job_id });
  assert.deepEqual(later.result, agent.data, 'the result of an agent job can be read by its id');
  const nowhere = { prompt: 'of nobody', urls: [site.url('/gone')], max_sources: 1 };
  const { body: failed } = await http('POST', '/agent', nowhere);
  assert.deepEqual([failed.success, failed.status, failed.data], [false, 'failed', null]);
  assert.match(failed.error, /None of 1 sources/);
  assert.deepEqual(failed.steps.map(({ phase }: Json) => phase), ['extract', 'merge']); // prettier-ignore
  const history = await http('GET', '/usage/history?group_by=week');
  assert.ok(history.body.usage[0].total_credits > 5);
  assert.equal(history.body.usage[0].by_endpoint['/v1/markdown'].requests, 4);
  const hours = await http('GET', '/usage/history?group_by=hour');
  assert.match(hours.body.usage[0].period, /^\d{4}-\d\d-\d\dT\d\d:00:00Z$/);
  assert.equal(hours.body.total_credits, history.body.total_credits);
  for (const endpoint of ['/v1/markdown', 'markdown']) {
    const { body: one } = await http('GET', `/usage/history?endpoint=${endpoint}`);
    assert.deepEqual([one.total_credits, one.total_requests], [4, 4]);
  }
  const csv = await http('GET', '/usage/history?format=csv');
  assert.match(String(csv.body), /^date,endpoint,credits,requests,cached_pct,avg_response_ms\n\d{4}-\d\d-\d\d,\/v1\/agent,\d+,\d+,,\n/); // prettier-ignore
  const usage = await tool('usage', {});
  assert.equal(csv.headers['x-credits-used'], String(usage.credits_used), 'of the month');
  assert.ok(usage.credits_used > 5);
  assert.equal(usage.credit_table.crawlPage.credits, 1);
});

test('private addresses are refused, robots.txt is obeyed', async (t) => {
  const { http, site } = await open(t);
  const refused = await http('POST', '/markdown', { url: 'http://169.254.169.254/latest/' });
  assert.equal(refused.status, 403);
  site.on(
    '/robots.txt',
    html('User-agent: *\nDisallow: /p/', 200, { 'content-type': 'text/plain' }),
  );
  const disallowed = await http('POST', '/markdown', { url: site.url('/p/1') });
  assert.equal(disallowed.status, 403);
  const bad = await http('POST', '/markdown', { url: 'not a url' });
  assert.deepEqual([bad.status, bad.body.error.code], [400, 'invalid_request']);
});

test('unlike the original: long pages are complete, and the cache is opt-in and depends on the options', async (t) => {
  const { http, site } = await open(t);
  const paragraph = (n: number) => `<p>Paragraph ${n}: ${'the river runs to the sea, '.repeat(8)}and ends.</p>`; // prettier-ignore
  const long = Array.from({ length: 300 }, (_, n) => paragraph(n)).join('');
  site.on('/long', html(`<title>Long</title><main><article><h1>Long</h1>${long}</article></main>`));
  const url = site.url('/long');
  const first = await http('POST', '/markdown', { url, cache: true });
  assert.ok(first.body.markdown.length > 60_000, 'nothing is cut at 32,000 characters');
  assert.match(first.body.markdown, /Paragraph 299/);
  assert.equal(first.body.meta.cached, false);
  const again = await http('POST', '/markdown', { url, cache: true });
  assert.equal(again.body.meta.cached, true);
  const other = await http('POST', '/markdown', { url, cache: true, main_content_only: false });
  assert.equal(other.body.meta.cached, false, 'other options are another page');
  assert.equal((await http('POST', '/markdown', { url })).body.meta.cached, false);
});

test('unlike the original: map uses its documented default, ranks words, ends sitemap loops and reads gzip', async (t) => {
  const { tool, site } = await open(t);
  const xml = { 'content-type': 'application/xml' };
  const urls = Array.from({ length: 140 }, (_, n) => `<url><loc>${site.url(`/doc/${n}`)}</loc></url>`); // prettier-ignore
  const guide = `<url><loc>${site.url('/doc/install-guide-linux')}</loc></url>`;
  site.on(
    '/sitemap.xml',
    html(
      `<sitemapindex><sitemap><loc>${site.url('/sitemap.xml')}</loc></sitemap><sitemap><loc>${site.url('/more.xml.gz')}</loc></sitemap></sitemapindex>`,
      200,
      xml,
    ),
  );
  site.on('/more.xml.gz', (_request, response) => {
    response
      .writeHead(200, { 'content-type': 'application/gzip' })
      .end(gzipSync(`<urlset>${guide}${urls.join('')}</urlset>`));
  });
  const map = await tool('map', { url: site.url('/') });
  assert.equal(map.urls.length, 100, 'max_pages is 100 by default, and that many are answered');
  assert.ok(map.total_discovered > 100);
  const found = await tool('map', { url: site.url('/'), search: 'linux install' });
  assert.match(found.urls[0].url, /install-guide-linux/, 'both words, in any order');
});

test('unlike the original: jobs belong to their owner, exhausted credits return 402, and a long pipeline becomes a job', async (t) => {
  const { web, tool, http, site } = await open(t);
  const { job_id: id } = await tool('crawl', { url: site.url('/'), max_pages: 2 });
  const stranger: DialectCall = { operations: web.operations, context: contextOf('somebody') };
  const status = searchclawDialect.tools!.find(({ name }) => name === 'job_status')!;
  const refused = await status.run(status.input.parse({ job_id: id }), stranger);
  assert.equal(refused.isError, true);
  assert.match(refused.text!, /error 404/);
  site.on('/hook', html('ok'));
  const started = await http('POST', '/pipeline', {
    query: 'lamp',
    schema: { name: 'string' },
    extract_from: 3,
    webhook_url: site.url('/hook'),
    webhook_secret: 'k',
  });
  assert.equal(started.body.status, 'processing');
  await until('the webhook is delivered', () => site.count('/hook') > 0);
  const later = await tool('job_status', { job_id: started.body.job_id });
  assert.equal(later.status, 'completed');
  assert.ok(later.data.length > 0);
  const poor = await createWeb(t, { settings: { budget: { creditsPerDay: 0 } } });
  const call: DialectCall = { operations: poor.operations, context: contextOf('me') };
  const markdown = searchclawDialect.routes!.find(({ path }) => path.endsWith('/markdown'))!;
  const body = Buffer.from(JSON.stringify({ url: site.url('/p/1') }));
  const answer = await markdown
    .handle(
    { method: 'POST', path: '/markdown', params: {}, query: new URLSearchParams(), headers: {}, body, json: () => JSON.parse(body.toString()), caller: call.context.caller, remoteAddress: '', baseUrl: '' },
    call,
  )
    .catch((error: unknown) => searchclawDialect.errors!.toResponse(error, markdown.path)); // prettier-ignore
  assert.equal(answer.status, 402);
  assert.equal((answer.body as Json).error.code, 'credits_exhausted');
});
