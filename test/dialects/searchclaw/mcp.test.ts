// The fifteen tools as a client launches them: `errand mcp --dialect searchclaw`, each called once over stdio.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { html, startSite } from '../../fixtures/site/site.ts';
import { browserSkip, findChromium, withoutBrowser } from '../../helpers/chromium.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { bin, serverEnv, startServer } from '../../helpers/server.ts';
import { until } from '../../helpers/until.ts';

type Json = ReturnType<typeof JSON.parse>;

const browser = await findChromium();

/** Of searchclaw-mcp: name, parameters, and which of them are needed. */
const tools: Record<string, [parameters: string[], required: string[]]> = {
  search: [['q'], ['q']],
  search_ai: [['q'], ['q']],
  news: [['q'], ['q']],
  images: [['q'], ['q']],
  suggest: [['q'], ['q']],
  extract: [['url', 'schema', 'prompt'], ['url']],
  markdown: [['url'], ['url']],
  screenshot: [['url', 'full_page'], ['url']],
  crawl: [['url', 'max_pages', 'schema'], ['url']],
  job_status: [['job_id'], ['job_id']],
  map: [['url', 'max_pages', 'search'], ['url']],
  pipeline: [
    ['query', 'schema', 'max_results', 'extract_from'],
    ['query', 'schema'],
  ],
  browse: [
    ['url', 'actions'],
    ['url', 'actions'],
  ],
  agent: [['prompt', 'schema', 'max_credits', 'max_sources'], ['prompt']],
  usage: [[], []],
};

test('each of the fifteen tools responds over stdio with its exact name and parameters', async (t) => {
  const site = await startSite(t, { pages: 20 });
  const rows = [{ title: 'Target', url: site.url('/target'), content: 'about it', engine: 'x' }];
  site.on(
    '/search',
    html(JSON.stringify({ query: 'q', results: rows, suggestions: ['two'] }), 200, {
      'content-type': 'application/json',
    }),
  );
  site.on('/autocompleter', html('["target"]', 200, { 'content-type': 'application/json' }));
  site.on('/styled', html('<link rel=stylesheet href=/s.css><title>Styled</title><main><h1>Styled</h1><p>Some <b>bold</b> words.</p></main>')); // prettier-ignore
  site.on('/s.css', html('h1{color:red}', 200, { 'content-type': 'text/css' }));
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const driven = { browser: browserSkip(browser) ? withoutBrowser : browser };
  const config = {
    egress: { allow: ['127.0.0.1'] },
    web: { search: { searxngUrl: site.url('') }, ...driven },
  };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  await startServer(t, { home });
  const client = new Client({ name: 'test', version: '1' });
  t.after(() => client.close());
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [bin, 'mcp', '--dialect', 'searchclaw'],
      env: serverEnv(home) as Record<string, string>,
      stderr: 'ignore',
    }),
  );
  const listed = (await client.listTools()).tools;
  assert.deepEqual(listed.map(({ name }) => name).toSorted(), Object.keys(tools).toSorted());
  const bytes = Buffer.byteLength(JSON.stringify({ tools: listed }));
  assert.ok(bytes <= 12_000, `tools/list has ${bytes} bytes`);
  for (const { name, inputSchema } of listed) {
    const [parameters, required] = tools[name]!;
    const has = Object.keys(inputSchema.properties ?? {});
    for (const parameter of parameters) assert.ok(has.includes(parameter), `${name}: ${parameter}`);
    assert.deepEqual((inputSchema.required ?? []).toSorted(), required.toSorted(), name);
  }
  const called = new Set<string>();
  const call = async (name: string, input: object): Promise<Json> => {
    called.add(name);
    const answer: Json = await client.callTool(
      { name, arguments: input as Json },
      { timeout: 90_000 },
    );
    assert.notEqual(answer.isError, true, `${name}: ${JSON.stringify(answer).slice(0, 400)}`);
    const said = JSON.parse(answer.content[0].text);
    assert.deepEqual(said, answer.structuredContent, 'the text says what the structure says');
    return { ...said, content: answer.content };
  };
  const url = site.url('/p/1');
  assert.equal((await call('search', { q: 'target' })).results[0].url, site.url('/target'));
  assert.match((await call('search_ai', { q: 'what is the target about' })).context, /\[1\]/);
  assert.equal((await call('news', { q: 'target' })).results.length, 1);
  assert.equal((await call('images', { q: 'target' })).query, 'target');
  assert.deepEqual((await call('suggest', { q: 'ta' })).suggestions, ['target']);
  const schema = { type: 'object', properties: { title: { type: 'string' } } };
  assert.equal((await call('extract', { url, schema })).data.title, 'Page 1');
  assert.match((await call('markdown', { url })).markdown, /Number 1 part 0/);
  const { job_id: id } = await call('crawl', { url: site.url('/'), max_pages: 5 });
  const done = await until('the crawl is done', async () => {
    const status = await call('job_status', { job_id: id });
    return status.status === 'completed' ? status : undefined;
  });
  assert.deepEqual([done.progress.pages_crawled, done.data.length], [5, 5]);
  assert.equal((await call('map', { url: site.url('/'), max_pages: 7 })).urls.length, 7);
  const query = { query: 'target', schema, extract_from: 1 };
  assert.equal((await call('pipeline', query)).results[0].url, site.url('/target'));
  const agent = { prompt: 'title of the target', schema, max_sources: 1 };
  assert.equal((await call('agent', agent)).sources.length, 1);
  assert.ok((await call('usage', {})).credits_used > 0);
  if (!browserSkip(browser)) {
    const shot = await call('screenshot', { url: site.url('/styled'), full_page: false });
    assert.equal(shot.content.at(-1).type, 'image');
    assert.ok(site.count('/s.css') > 0, 'pictures are styled');
    const browsed = await call('browse', {
      url: site.url('/styled'),
      actions: [{ type: 'extract', format: 'markdown' }, { type: 'screenshot' }],
    });
    assert.equal(browsed.content.at(-1).type, 'image', 'pictures of actions too');
    assert.match(browsed.results[0].content, /\*\*bold\*\*/, 'markdown, not plain text');
    assert.deepEqual([...called].toSorted(), Object.keys(tools).toSorted(), 'all were called');
  }
  // What a model is answered has little room: long work comes in pieces, and none is lost.
  const line = (i: number) => (_: unknown, n: number) => `<p>${i}-${n}: the river runs to the sea, past the mill.</p>`; // prettier-ignore
  const text = (i: number, length: number) => Array.from({ length }, line(i)).join('');
  for (let i = 0; i < 9; i++)
    site.on(`/long/${i}`, html(`<title>L${i}</title><main><h1>L${i}</h1>${text(i, 150)}<a href="/long/${i + 1}">on</a></main>`)); // prettier-ignore
  const long = await call('crawl', { url: site.url('/long/0'), max_pages: 9 });
  await until('the long crawl is done', async () =>
    /completed|partial/.test((await call('job_status', { job_id: long.job_id })).status),
  );
  const seen: string[] = [];
  for (let cursor: string | undefined; ;) {
    const more = cursor === undefined ? {} : { cursor };
    const answer = await call('job_status', { job_id: long.job_id, ...more });
    for (const item of answer.data) seen.push(item.url);
    cursor = answer.next_cursor ?? undefined;
    if (cursor === undefined) break;
  }
  assert.deepEqual([seen.length, new Set(seen).size], [9, 9]);
  site.on('/book', html(`<title>Book</title><main><h1>Book</h1>${text(0, 2000)}</main>`));
  const { job_id: alone } = await call('crawl', { url: site.url('/book'), max_pages: 1 });
  const part = await until('the book is crawled', async () => {
    const status = await call('job_status', { job_id: alone });
    return status.data === null ? undefined : status.data[0];
  });
  assert.ok(part.truncated && /with markdown/.test(part.notice), 'a cut page says so');
  let read = '';
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const piece: Json = await call('markdown', { url: site.url('/book'), offset });
    read += piece.markdown;
    offset = piece.next_offset;
  }
  assert.equal(read.match(/\d+: the river/g)?.length, 2000);
  assert.equal(site.count('/book'), 2, 'once by the crawl, and the pieces are of one reading');
  const wrong: Json = await client.callTool({ name: 'markdown', arguments: { url: 'ftp://x/' } });
  assert.equal(wrong.isError, true);
  assert.match(wrong.content[0].text, /SearchClaw API error 400/);
  const empty: Json = await client.callTool({ name: 'search', arguments: {} });
  assert.match(empty.content[0].text, /SearchClaw API error 400: .*invalid_request.*\bq\b/);
});
