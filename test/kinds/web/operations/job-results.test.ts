// What a call answers later and from before: MCP tasks get the result of the tool that started the job, and an earlier
// reading of a page is used only when asked for, and says so.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { JobTasks } from '../../../../src/interfaces/mcp/jobs.ts';
import { ToolRegistry } from '../../../../src/interfaces/mcp/toolsets.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { contextOf, createWeb } from '../../../helpers/web.ts';

interface Structured {
  structured: Record<string, unknown>;
}

test('a task of crawl_site ends with its counts and stop reason, one of read_page with the page', async (t) => {
  const site = await startSite(t, { pages: 6 });
  const web = await createWeb(t);
  const tasks = new JobTasks({ operations: web.operations, clock: systemClock });
  const started = await web.call<{ id: string; status: string; next: string }>('crawl_site', {
    url: site.url('/'), sitemap: 'skip',
  }); // prettier-ignore
  assert.match(started.next, /read_pages/);
  const over = await tasks.waitUntilOver(started.id, contextOf('me'));
  assert.equal(over!.status, 'completed');
  const { structured } = over!.result as unknown as Structured;
  assert.deepEqual(
    [structured.id, structured.status, structured.pages, structured.stopReason],
    [started.id, 'completed', 6, 'exhausted'],
  );
  const read = await web.call<{ id: string }>('read_page', { url: site.url('/p/1') });
  const page = await tasks.waitUntilOver(read.id, contextOf('me'));
  const shown = (page!.result as unknown as Structured).structured;
  assert.match(String(shown.markdown), /Number 1 part 0/);
  site.on('/', html('', 500));
  const broken = await createWeb(t, { settings: { maxTries: 1 } });
  const theirs = new JobTasks({ operations: broken.operations, clock: systemClock });
  const failed = await broken.call<{ id: string }>('crawl_site', {
    url: site.url('/'), sitemap: 'skip',
  }); // prettier-ignore
  const end = await theirs.waitUntilOver(failed.id, contextOf('me'));
  const reported = (end!.result as unknown as Structured).structured;
  assert.equal(reported.status, 'failed');
  assert.equal((reported.error as { code: string }).code, 'nothingFetched');
  assert.equal(
    await theirs.task(failed.id, contextOf('somebody')),
    undefined,
    'it is nobody else’s task',
  );
});

test('maxAgeMs returns a cached result with the same options and its age', async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t);
  const url = site.url('/p/1');
  const first = await web.call('read_page', { url });
  assert.equal(first.cached, undefined);
  assert.ok(Date.parse(String(first.fetchedAt)) > 0);
  await web.call('read_page', { url });
  assert.equal(site.count('/p/1'), 2, 'without maxAgeMs a page is always fetched');
  const kept = await web.call('read_page', { url, maxAgeMs: 60_000 });
  assert.equal(site.count('/p/1'), 2);
  assert.equal(kept.cached, true);
  assert.equal(kept.creditsUsed, 0);
  assert.ok(Number(kept.ageMs) >= 0);
  assert.equal(kept.markdown, first.markdown);
  const other = await web.call('read_page', { url, maxAgeMs: 60_000, onlyMainContent: false });
  assert.equal(other.cached, undefined, 'another way to read is another reading');
  assert.notEqual(other.markdown, first.markdown);
  const formats = await web.call('read_page', { url, maxAgeMs: 60_000, formats: ['links'] });
  assert.equal(formats.cached, undefined);
  assert.ok(Array.isArray(formats.links));
  const before = site.count('/p/1');
  await web.call('read_page', { url, maxAgeMs: 60_000 }, 'somebody');
  assert.equal(site.count('/p/1'), before + 1, 'nobody is given the reading of another');
  for (let i = 0; i < 2; i++)
    await web.call('read_page', { url, maxAgeMs: 60_000, headers: { cookie: 'a=1' } });
  assert.equal(site.count('/p/1'), before + 3, 'what was asked for with headers is not kept');
  const usage = await web.call<{ creditsUsed: number }>('web_usage', {});
  assert.equal(usage.creditsUsed, site.count('/p/1') - 1, 'only what was fetched is charged');
});

test('invalid selectors are rejected before anything is fetched, and list selectors are accepted', async (t) => {
  const site = await startSite(t);
  site.on('/cards', html('<div class=card><h3>A</h3></div><div class=card><h3>B</h3></div>'));
  const web = await createWeb(t);
  const refused = (name: string, input: object, message: RegExp) =>
    assert.rejects(web.call(name, { url: site.url('/cards'), ...input }), { code: 'invalidInput', message }); // prettier-ignore
  const schema = { list: [{ name: 'string' }] };
  await refused('read_page', { includeSelectors: ['h1[['] }, /Invalid CSS selector: h1\[\[/);
  await refused('extract_data', { schema, selectors: { list: '//h3' } }, /Invalid CSS selector/);
  await refused('extract_data', { schema, selectors: { lists: 'h3' } }, /no field lists/);
  assert.equal(site.count('/cards'), 0);
  const selectors = { list: { selector: '.card', fields: { name: 'h3' } } };
  const { data } = await web.call('extract_data', { url: site.url('/cards'), schema, selectors });
  assert.deepEqual(data, { list: [{ name: 'A' }, { name: 'B' }] });
});

test('content that is not HTML has no structured data and is passed to the caller', async (t) => {
  const site = await startSite(t);
  site.on('/data', html('{"chef": "Ada <a>"}', 200, { 'content-type': 'application/json' }));
  const web = await createWeb(t);
  const schema = { chef: 'string' };
  const json = await web.call('extract_data', { url: site.url('/data'), schema });
  assert.deepEqual(json.data, { chef: null });
  assert.match((json.needsModel as { content: string }).content, /"chef": "Ada <a>"/);
  const pdf = await web.call('extract_data', { url: site.url('/paper.pdf'), schema });
  assert.match((pdf.needsModel as { content: string }).content, /about lanterns/);
});

test('a model adds to the data of the page, which stays complete if the model fails', async (t) => {
  const site = await startSite(t);
  const product = '{"@type":"Product","name":"Lamp","offers":{"price":3}}';
  site.on(
    '/lamp',
    html(`<script type="application/ld+json">${product}</script><p>Made by Ada</p>`),
  );
  const replies = ['{"name":"Torch","price":99,"maker":"Ada","colour":null}', undefined, 'x'.repeat(3_000_000)]; // prettier-ignore
  const model = createServer((request, response) => {
    const content = replies.shift();
    if (content === undefined) response.writeHead(401).end(`bad: ${request.headers.authorization}`);
    else response.end(JSON.stringify({ choices: [{ message: { content } }] }));
  });
  await new Promise<void>((done) => model.listen(0, '127.0.0.1', done));
  t.after(() => model.close());
  const { port } = model.address() as AddressInfo;
  const web = await createWeb(t, {
    settings: { model: { url: `http://127.0.0.1:${port}/v1`, name: 'small' } },
    secrets: { ERRAND_MODEL_KEY: 'sk-hush' },
  });
  const schema = { name: 'string', price: 'number', maker: 'string', colour: 'string' };
  const ask = () => web.call('extract_data', { url: site.url('/lamp'), schema });
  const full = await ask();
  assert.deepEqual(full.data, { name: 'Lamp', price: 3, maker: 'Ada', colour: null });
  const sources = (full.fields as { path: string; source: { kind: string } }[]).map(({ path, source }) => `${path} ${source.kind}`); // prettier-ignore
  assert.deepEqual(sources, ['/name json-ld', '/price json-ld', '/maker model']);
  assert.deepEqual((full.missing as { path: string }[]).map(({ path }) => path), ['/colour']); // prettier-ignore
  await assert.rejects(web.call('submit_extraction', { id: full.id, data: { name: 'x' } }), { code: 'wrongState' }); // prettier-ignore
  for (const problem of [/401: bad: Bearer \[key\]/, /large|bytes/i]) {
    const part = await ask();
    assert.deepEqual(part.data, { name: 'Lamp', price: 3, maker: null, colour: null });
    assert.match(part.modelProblem as string, problem);
    assert.ok(part.needsModel);
    assert.doesNotMatch(JSON.stringify(part), /sk-hush/);
  }
});

test('over MCP a long page has a byte budget and a cursor; elsewhere it is complete', async (t) => {
  const site = await startSite(t);
  const line = '<p>A paragraph of a long text with enough words to be called one by anybody.</p>';
  site.on('/long', html(`<main><h1>Long</h1>${line.repeat(2000)}</main>`));
  const web = await createWeb(t);
  const input = { url: site.url('/long'), includeSelectors: ['main'] };
  const whole = await web.call('read_page', input);
  const text = whole.markdown as string;
  assert.ok(text.length > 100_000);
  assert.equal(whole.nextOffset, undefined);
  const tool = new ToolRegistry(web.operations, [])
    .select({ toolsets: ['web'] })
    .tools.get('read_page')!;
  const maxBytes = 24_000;
  const piece = await tool.run(input, { ...contextOf('me'), maxResponseBytes: maxBytes });
  const { markdown, nextOffset } = piece.structured as { markdown: string; nextOffset: number };
  // The model gets the page as text and as data: both together keep to the budget, and use most of it.
  assert.ok(
    markdown.length > maxBytes / 3 && 2 * markdown.length <= maxBytes,
    `${markdown.length}`,
  );
  assert.equal(markdown, text.slice(0, nextOffset));
  assert.match(
    piece.text!,
    new RegExp(`follows: call read_page again with offset ${String(nextOffset)}\\]$`),
  );
});
