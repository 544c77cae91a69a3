// Firecrawl's own clients, unmodified, against the real server: the JavaScript SDK and the MCP server from npm.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { html } from '../../fixtures/site/site.ts';
import { browserSkip, findChromium } from '../../helpers/chromium.ts';
import { openFirecrawl, type Json } from '../../helpers/firecrawl.ts';
import type { TestServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

const browser = await findChromium();
const skip = browserSkip(browser);

test('@mendable/firecrawl-js: crawl, paging, cancel, errors, active, batch, map, scrape, search, extract, credits', async (t) => {
  const { server, site, client } = await openFirecrawl(t);
  site.on('/p/5', html('', 404));
  const crawl: Json = await client.crawl(site.url('/'), {
    limit: 30,
    sitemap: 'skip',
    pollInterval: 1,
    timeout: 60,
  });
  assert.equal(crawl.status, 'completed');
  assert.equal(crawl.completed, 30);
  assert.equal(crawl.data.length, 30);
  assert.match(crawl.data[0].markdown, /Number/);
  assert.equal(crawl.data[0].metadata.statusCode, 200);
  assert.ok(crawl.data.every((page: Json) => page.metadata.sourceURL.startsWith(site.url('/'))));
  const errors: Json = await client.getCrawlErrors(crawl.id ?? (await lastJob(server)));
  assert.equal(errors.errors.filter((one: Json) => one.url.endsWith('/p/5')).length, 1);
  const started: Json = await client.startCrawl(site.url('/'), {
    limit: 40,
    sitemap: 'skip',
    delay: 1,
  });
  const active: Json = await client.getActiveCrawls();
  assert.ok(active.crawls.some((one: Json) => one.id === started.id));
  assert.equal(await client.cancelCrawl(started.id), true);
  const cancelled: Json = await client.getCrawlStatus(started.id, { autoPaginate: false });
  assert.equal(cancelled.status, 'cancelled');
  const paths: Json = await client.crawl(site.url('/'), {
    limit: 50,
    sitemap: 'skip',
    includePaths: ['^/p/1[0-9]$', '^/p/1$'],
    pollInterval: 1,
  });
  assert.ok(
    paths.data.every((page: Json) => /\/(p\/1\d?)?$/.test(page.metadata.sourceURL)),
    'patterns match the path',
  );
  const batch: Json = await client.batchScrape([site.url('/p/1'), site.url('/p/2'), 'not-a-url'], {
    options: { formats: ['markdown', 'links'] },
    pollInterval: 1,
    ignoreInvalidURLs: true,
  });
  assert.equal(batch.data.length, 2);
  assert.ok(batch.data[0].links.length > 3);
  const map: Json = await client.map(site.url('/'), { limit: 12, sitemap: 'skip' });
  assert.equal(map.links.length, 12);
  const page: Json = await client.scrape(site.url('/p/3'), {
    formats: [
      'markdown',
      'html',
      { type: 'json', schema: { type: 'object', properties: { title: { type: 'string' } } } },
    ],
  });
  assert.match(page.markdown, /Number 3/);
  assert.equal(page.metadata.title, 'Page 3');
  assert.equal(page.json.title, 'Page 3');
  await assert.rejects(client.scrape('http://10.0.0.1/'), /private address/);
  const found: Json = await client.search('target', { limit: 3 });
  assert.equal(found.web[0].url, site.url('/target'));
  const extracted: Json = await client.extract({
    urls: [site.url('/p/1')],
    schema: { type: 'object', properties: { title: { type: 'string' } } },
    pollInterval: 1,
  });
  assert.equal(extracted.data.title, 'Page 1');
  const credits: Json = await client.getCreditUsage();
  const { periods }: Json = await client.getCreditUsageHistorical();
  assert.equal(periods.length, 1);
  assert.ok(periods[0].totalCredits > 0 && periods[0].startDate <= new Date().toISOString());
  assert.equal((await client.getConcurrency()).maxConcurrency, 50);
  assert.ok(credits.remainingCredits > 0);
});

test('firecrawl-js: change tracking, actions, cache, batches, agent, queue and rejected requests', async (t) => {
  const { site, client } = await openFirecrawl(t);
  const tracked = { limit: 3, sitemap: 'skip', pollInterval: 1, scrapeOptions: { formats: ['markdown', { type: 'changeTracking', modes: ['git-diff'] }] } }; // prettier-ignore
  const first: Json = await client.crawl(site.url('/'), tracked);
  assert.ok(first.data.every((one: Json) => one.changeTracking.changeStatus === 'new'));
  site.on('/', `<main><h1>Page 0</h1><p>All of this is other text now, and it says so.</p></main>`);
  const second: Json = await client.crawl(site.url('/'), tracked);
  const home: Json = second.data.find((one: Json) => one.metadata.sourceURL === site.url('/'));
  assert.equal(home.changeTracking.changeStatus, 'changed');
  assert.ok(Date.parse(home.changeTracking.previousScrapeAt) > 0);
  assert.match(home.changeTracking.diff.text, /other text now|rewritten/);
  const list = { ...tracked, limit: 30, scrapeOptions: { formats: ['markdown', { type: 'changeTracking', tag: 'list' }] } }; // prettier-ignore
  site.on('/list', html('<h1>List</h1><a href="/list/a">a</a><a href="/list/b">b</a><a href="/list/c">c</a><a href="/list/d">d</a>')); // prettier-ignore
  for (const name of ['a', 'b', 'c', 'd']) site.on(`/list/${name}`, `<h1>Entry ${name}</h1><p>Of it.</p>`); // prettier-ignore
  assert.equal((await client.crawl(site.url('/list'), list)).data.length, 5);
  site.on('/list', html('<h1>List</h1><a href="/list/a">a</a><a href="/list/b">b</a>'));
  for (const name of ['b', 'c']) site.on(`/list/${name}`, html('gone', 404));
  const shorter: Json = await client.crawl(site.url('/list'), list);
  const pageAt = (path: string) =>
    shorter.data.find(({ metadata }: Json) => metadata.sourceURL === site.url(path)).changeTracking;
  assert.equal(shorter.data.length, 5);
  assert.equal(pageAt('/list/a').changeStatus, 'same');
  assert.equal(pageAt('/list/a').visibility, 'visible');
  const unlinked = pageAt('/list/d');
  assert.deepEqual([unlinked.changeStatus, unlinked.visibility], ['same', 'hidden']);
  for (const path of ['/list/b', '/list/c']) {
    assert.equal(pageAt(path).changeStatus, 'removed', path);
    assert.equal(pageAt(path).visibility, 'hidden');
    assert.ok(Date.parse(pageAt(path).previousScrapeAt) > 0);
  }
  const page = { formats: ['markdown', 'changeTracking'] };
  const seen: Json[] = [];
  for (let i = 0; i < 2; i++) seen.push(await client.scrape(site.url('/p/9'), page));
  assert.deepEqual(
    seen.map(({ changeTracking }) => changeTracking.changeStatus),
    ['new', 'same'],
  );
  site.on('/p/9', html('gone', 410));
  const removed: Json = await client.scrape(site.url('/p/9'), page);
  assert.equal(removed.changeTracking.changeStatus, 'removed');
  const before = site.count('/p/8');
  for (let i = 0; i < 2; i++) await client.scrape(site.url('/p/8'), { maxAge: 60_000 });
  assert.equal(site.count('/p/8') - before, 1, 'the second is the first');
  const kept: Json = await client.scrape(site.url('/p/8'), { maxAge: 60_000 });
  assert.equal(kept.metadata.cacheState, 'hit');
  const raw: Json = await client.scrape(site.url('/p/7'), { formats: ['rawHtml'] });
  assert.match(raw.rawHtml, /^<!doctype html>.*<footer>Generated/s, 'the page as it was sent');
  const gone: Json = await client.scrape(site.url('/gone'));
  assert.equal(gone.metadata.statusCode, 404, 'an answer of the site is data');
  const batch: Json = await client.startBatchScrape([site.url('/p/1'), site.url('/gone')]);
  const done: Json = await until('the batch is done', async () => {
    const status: Json = await client.getBatchScrapeStatus(batch.id);
    return status.status === 'completed' ? status : undefined;
  });
  assert.deepEqual(
    done.data.map(({ metadata }: Json) => metadata.statusCode),
    [200, 404],
  );
  assert.equal((await client.getBatchScrapeErrors(batch.id)).errors.length, 1);
  const slow: Json = await client.startBatchScrape([site.url('/silent')]);
  assert.equal(await client.cancelBatchScrape(slow.id), true);
  const agent: Json = await client.agent({ prompt: 'Which page is it?', urls: [site.url('/p/2')], strictConstrainToURLs: true, schema: { type: 'object', properties: { title: { type: 'string' } } }, pollInterval: 1 }); // prettier-ignore
  assert.equal(agent.data.title, 'Page 2');
  assert.ok((await client.getQueueStatus()).success);
  await assert.rejects(
    client.scrape(site.url('/p/1'), { actions: [{ type: 'pdf' }] }),
    /pdf is not available/,
  );
  await assert.rejects(client.crawl('not a url', { limit: 1 }), /url|address/i);
});

test(
  'firecrawl-js: actions happen in a real browser before the page is read',
  { skip },
  async (t) => {
    const { site, client } = await openFirecrawl(t, browser);
    site.on('/form', html(`<title>Form</title><main><h1>Form</h1><input id=q><button onclick="out.textContent='You wrote '+q.value">Go</button><p id=out></p><a href=/target>t</a></main>`)); // prettier-ignore
    const page: Json = await client.scrape(site.url('/form'), {
      formats: ['markdown', 'links', 'screenshot'],
      actions: [
        { type: 'click', selector: '#q' },
        { type: 'write', text: 'lantern' },
        { type: 'click', selector: 'button' },
        { type: 'wait', milliseconds: 50 },
        { type: 'scroll', direction: 'down' },
        { type: 'press', key: 'Tab' },
        { type: 'screenshot' },
        { type: 'executeJavascript', script: 'document.title' },
        { type: 'scrape' },
      ],
    });
    assert.match(page.markdown, /You wrote lantern/);
    assert.deepEqual(page.links, [site.url('/target')]);
    assert.match(page.screenshot, /^data:image\/jpeg/);
    assert.equal(page.actions.screenshots.length, 1);
    assert.equal(page.actions.javascriptReturns[0].value, 'Form');
    assert.match(page.actions.scrapes[0].html, /You wrote lantern/);
    site.on('/late', html('<title>Late</title><main><h1>Late</h1><p id=out>Not yet.</p><button onclick="out.textContent=\'You clicked\'">More</button></main><script>setTimeout(()=>{document.querySelector("h1").textContent="Came late"},2500)</script>')); // prettier-ignore
    const late: Json = await client.scrape(site.url('/late'), { waitFor: 2700 });
    assert.match(late.markdown, /Came late/, 'waitFor waits');
    const actions = [{ type: 'click', selector: 'button' }];
    const batch: Json = await client.batchScrape([site.url('/late'), site.url('/form')], {
      options: { formats: ['markdown'], actions },
      pollInterval: 1,
    });
    const pages = batch.data.map(({ markdown }: Json) => markdown).join('\n');
    assert.match(pages, /You clicked/);
    assert.match(pages, /You wrote/, 'actions are done on each page of a batch');
    await assert.rejects(
      client.startBatchScrape([site.url('/late')], { options: { actions: [{ type: 'scrape' }] } }),
      /scrape the page alone/,
    );
    const wait = { type: 'wait', selector: '#never', milliseconds: 100 };
    for (const more of [[], [{ type: 'scrape' }]])
      await assert.rejects(
        client.scrape(site.url('/form'), { actions: [wait, ...more] }),
        /wait failed/,
      );
    // Text, data and picture of one visit: the page is acted on once.
    site.on('/count', html('<title>Once</title><main><h1>Once</h1><button onclick="fetch(\'/hit\');document.title=\'Twice\'">Go</button></main>')); // prettier-ignore
    site.on('/hit', html('ok'));
    const schema = { type: 'object', properties: { title: { type: 'string' } } };
    const acted: Json = await client.scrape(site.url('/count'), {
      formats: ['markdown', 'screenshot', { type: 'json', schema }],
      actions: [{ type: 'click', selector: 'button' }],
    });
    assert.deepEqual([acted.json.title, acted.metadata.statusCode], ['Twice', 200]);
    assert.match(acted.screenshot, /^data:image\/jpeg/);
    assert.equal(site.count('/hit'), 1);
    const lost: Json = await client.scrape(site.url('/gone'), {
      formats: ['links', { type: 'json', schema }],
      actions: [
        { type: 'click', selector: 'h1', all: true },
        { type: 'executeJavascript', script: '1 + 1' },
      ],
    });
    assert.equal(lost.metadata.statusCode, 404);
    assert.deepEqual(lost.actions.javascriptReturns, [{ type: 'number', value: 2 }]);
    assert.match(lost.warning, /json after actions/);
    site.on('/scroll', html(`<title>Scroll</title><main>${'<p>One of very many lines.</p>'.repeat(3000)}</main>`)); // prettier-ignore
    const scroll: Json = await client.scrape(site.url('/scroll'), { formats: ['rawHtml'], actions: [{ type: 'scrape' }] }); // prettier-ignore
    assert.match(scroll.warning, /too long, and cut/);
    const pictured: Json = await client.crawl(site.url('/js-only'), {
      limit: 2,
      crawlEntireDomain: true,
      sitemap: 'skip',
      pollInterval: 1,
      scrapeOptions: { formats: ['markdown', 'screenshot'] },
    });
    assert.match(pictured.data[0].markdown, /only a browser brings/, 'rendered where needed');
    for (const { screenshot } of pictured.data) assert.match(screenshot, /^data:image\/jpeg;base64,/); // prettier-ignore
    const idle: Json = await client.batchScrape([site.url('/form')], { pollInterval: 1, options: { actions: [wait] } }); // prettier-ignore
    assert.match(idle.data[0].warning, /wait failed/, 'the warning names the failed action');
  },
);

test('firecrawl-mcp: scrape, map, crawl, status, search, JSON, agent and credits through the stdio server from npm', async (t) => {
  const { server, site } = await openFirecrawl(t);
  const { Client, StdioClientTransport } = await mcpClient();
  const program = join(
    import.meta.dirname,
    '../..',
    'node_modules',
    'firecrawl-mcp',
    'dist',
    'index.js',
  );
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [program],
    env: {
      PATH: process.env.PATH ?? '',
      FIRECRAWL_API_URL: `${server.url}/firecrawl`,
      FIRECRAWL_API_KEY: server.key,
    },
    stderr: 'ignore',
  });
  const client = new Client({ name: 'test', version: '1' });
  t.after(() => client.close());
  await client.connect(transport);
  const call = async (name: string, input: object): Promise<string> => {
    const answer: Json = await client.callTool({ name, arguments: input }, undefined, {
      timeout: 60_000,
    });
    assert.notEqual(answer.isError, true, JSON.stringify(answer));
    return answer.content[0].text;
  };
  assert.match(
    await call('firecrawl_scrape', { url: site.url('/p/4'), formats: ['markdown'] }),
    /Number 4/,
  );
  assert.match(await call('firecrawl_map', { url: site.url('/'), limit: 5 }), /\/p\//);
  const crawled = await call('firecrawl_crawl', { url: site.url('/'), limit: 5, sitemap: 'skip' });
  const id = /job_[0-9a-z]{16}/.exec(crawled)?.[0] ?? (await lastJob(server));
  assert.match(await call('firecrawl_check_crawl_status', { id }), /completed/);
  assert.match(await call('firecrawl_search', { query: 'target', limit: 2 }), /\/target/);
  const schema = { type: 'object', properties: { title: { type: 'string' } } };
  const urls = [site.url('/p/1')];
  const json = { url: urls[0], formats: ['json'], jsonOptions: { schema, prompt: 'title' } };
  assert.match(await call('firecrawl_scrape', json), /Page 1/);
  const agent = await call('firecrawl_agent', { prompt: 'title of the page', urls, schema });
  const agentId = /job_[0-9a-z]{16}/.exec(agent)![0];
  await until('the agent is done', async () =>
    /completed/.test(await call('firecrawl_agent_status', { id: agentId })),
  );
  assert.match(await call('firecrawl_credit_usage', {}), /remaining/i);
});

async function lastJob(server: TestServer): Promise<string> {
  const { jobs } = (await server.api('GET', '/api/jobs?limit=20')).json<{
    jobs: { id: string; summary: string }[];
  }>();
  return jobs.find(({ summary }) => summary.startsWith('crawl'))!.id;
}

async function mcpClient(): Promise<Json> {
  const { Client } = (await import('@modelcontextprotocol/sdk/client/index.js')) as Json;
  const { StdioClientTransport } =
    (await import('@modelcontextprotocol/sdk/client/stdio.js')) as Json;
  return { Client, StdioClientTransport };
}

test('a body of the wrong shape is reported as a client error', async (t) => {
  const { server } = await openFirecrawl(t);
  const wrong: [path: string, body: unknown][] = [
    ['/scrape', { formats: 7 }],
    ['/scrape', { formats: [null] }],
    ['/crawl', { includePaths: true }],
    ['/crawl', { scrapeOptions: 'x' }],
    ['/batch/scrape', { urls: 'https://a.test/' }],
    ['/extract', { urls: [5] }],
    ['/search', { query: 'x', sources: {} }],
    ['/map', []],
  ];
  for (const [path, more] of wrong) {
    const body = Array.isArray(more) ? more : { url: 'https://a.test/', ...(more as object) };
    const answer = await server.api('POST', `/firecrawl/v2${path}`, body);
    assert.equal(answer.status, 400, `${path} ${answer.text}`);
    assert.equal(answer.json<Json>().success, false);
  }
});
