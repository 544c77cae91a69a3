// Invalid input and failures: each has a clear error or outcome, and no fetched page is lost.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readSitemap } from '../../../src/kinds/web/fetch/sitemap.ts';
import { html, startSite } from '../../fixtures/site/site.ts';
import { cpuMs } from '../../helpers/cpu.ts';
import { createWeb, outcomesOf } from '../../helpers/web.ts';

test('invalid input is rejected before any work starts', async (t) => {
  const web = await createWeb(t);
  const refused = async (name: string, input: object, code: string | RegExp) =>
    assert.rejects(web.call(name, input), (error: { code: string; message: string }) => {
      if (typeof code === 'string') assert.equal(error.code, code, error.message);
      else assert.match(error.message, code);
      return true;
    });
  for (const url of [
    '',
    'not a url',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'ftp://a.test/',
    'http://',
    'x'.repeat(3000),
  ])
    await refused('crawl_site', { url }, 'invalidInput');
  await refused('crawl_site', {}, /needs a start/);
  await refused('crawl_site', { url: 'http://a.test/', include: ['(?=x)'] }, /is invalid/);
  await refused('crawl_site', { url: 'http://a.test/', exclude: ['('] }, 'invalidInput');
  await refused('crawl_site', { url: 'http://a.test/', maxPages: 0 }, 'invalidInput');
  await refused('crawl_site', { url: 'http://me:secret@a.test/' }, /must not contain credentials/);
  await refused(
    'crawl_site',
    { url: 'http://a.test/', schema: { type: 'object', required: 'x' } },
    'invalidInput',
  );
  const schema = { type: 'object', properties: { a: { type: 'string' } } };
  for (const [input, message] of [
    [{ includeSelectors: ['<<'] }, /Invalid CSS selector: <</],
    [{ excludeSelectors: ['p', '//div'] }, /XPath|CSS selector/],
    [{ schema, selectors: { a: 'p[@href' } }, /Invalid CSS selector/],
    [{ selectors: { a: 'h1' } }, /requires `schema`/],
    [{ headers: { 'bad name': 'x' } }, /Invalid header.*bad name/],
    [{ headers: { 'x-a': 'b\nc' } }, /Invalid header.*x-a/],
    [{ headers: { Host: 'inside.example' } }, /Host cannot be set/],
    [{ headers: { 'transfer-encoding': 'chunked' } }, /transfer-encoding cannot be set/],
    [{ pathBudgets: { 'docs/': 3 } }, /"docs\/" is not a path prefix/],
  ] as const)
    await refused('crawl_site', { url: 'http://a.test/', ...input }, message);
  await refused('extract_data', { url: 'http://a.test/' }, /`schema` or `prompt` is required/);
  await refused(
    'extract_data',
    { url: 'http://a.test/', schema: { type: 'object', properties: 5 } },
    'invalidInput',
  );
  await refused('read_pages', { id: 'job_0000000000000000' }, 'notFound');
  await refused(
    'browse_page',
    { url: 'http://a.test/', actions: Array.from({ length: 21 }, () => ({ type: 'snapshot' })) },
    'invalidInput',
  );
  await refused('web_search', { query: '' }, 'invalidInput');
});

test('every spelling of a private IP address is refused', async (t) => {
  const web = await createWeb(t, { allow: [] });
  const forms = [
    'http://127.0.0.1/', 'http://127.1/', 'http://0x7f.1/', 'http://2130706433/', 'http://0177.0.0.1/', 'http://[::1]/',
    'http://[::ffff:127.0.0.1]/', 'http://[64:ff9b::7f00:1]/', 'http://①②⑦.0.0.1/', 'http://169.254.169.254/', 'http://10.0.0.1/',
    'http://192.168.1.1/', 'http://172.16.0.1/', 'http://100.64.0.1/', 'http://0.0.0.0/', 'http://localhost/', 'http://any.test/',
    'http://user@127.0.0.1/', 'http://127.0.0.1:22/', 'http://0/', 'http://127.0.0.1./', 'http://%31%32%37.0.0.1/', 'http://１２７.0.0.1/',
    'http://127。0。0。1/', 'http://017700000001/', 'http://0x7f000001/', 'http://127.0.0.1\\@a.test/', 'http://LOCALHOST/',
    'http://[::]/', 'http://[0:0:0:0:0:ffff:7f00:1]/', 'http://[::127.0.0.1]/', 'http://[fe80::1]/', 'http://[fc00::1]/', 'http://[ff02::1]/',
    'http://[2002:7f00:1::]/', 'http://[2001:0:7f00:1::]/', 'http://[64:ff9b:1::1]/', 'http://198.18.0.1/', 'http://192.0.2.1/', 'http://224.0.0.1/',
    'http://255.255.255.255/', 'http://240.0.0.1/', 'http://169.254.170.2/', 'http://[fd00:ec2::254]/', 'http://100.100.100.200/', 'http://168.63.129.16/',
  ]; // prettier-ignore
  for (const url of forms) {
    await assert.rejects(
      web.call('read_page', { url, robots: 'ignore' }),
      { code: 'egressRefused' },
      url,
    );
  }
  const crawl = await web.crawl({ url: 'http://127.1/', sitemap: 'skip' });
  assert.equal(crawl.status, 'failed');
  assert.equal(crawl.error!.code, 'egressRefused');
});

test('a costly pattern, a false sitemap and a malformed page do not stop a crawl', async (t) => {
  const site = await startSite(t, { pages: 10 });
  site.on(
    '/sitemap.xml',
    html(
      '<urlset><url><loc>http://10.0.0.1/</loc></url><url><loc>not a url</loc></url><url><loc>/p/3',
      200,
      { 'content-type': 'application/xml' },
    ),
  );
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/'), exclude: ['(a+)+$', '(x|x)*y'] });
  assert.equal(end.result.pages, 10);
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/p/3'], 'fetched');
});

test('an endless, malformed or truncated sitemap returns what it has in bounded time', async () => {
  const entry = (n: number) => `<url><loc>https://a.test/${n}</loc></url>`;
  const entries = Array.from({ length: 3000 }, (_, n) => entry(n)).join('');
  const read = async (body: string | Buffer) =>
    (await readSitemap(Buffer.from(body), 'https://a.test/')).urls.length;
  const ms = await cpuMs(async () => {
    assert.equal(await read(`<urlset>${entries}${'<a>'.repeat(2_000_000)}`), 3000);
    assert.equal(await read('\n'.repeat(5_000_000)), 0);
  });
  assert.ok(ms < 20_000, `${ms} ms; it took minutes`);
  const packed = gzipSync(`<urlset>${entries}</urlset>`);
  const half = await read(packed.subarray(0, packed.length / 2));
  assert.ok(half > 500 && half < 3000, `${half}`);
});

test('extraction that needs a model is passed to the caller and validated, or sent to the configured endpoint', async (t) => {
  const site = await startSite(t);
  const schema = {
    type: 'object',
    properties: { chef: { type: 'string' }, minutes: { type: 'number' } },
    required: ['chef', 'minutes'],
  };
  const web = await createWeb(t);
  const out = await web.call('extract_data', { url: site.url('/injection'), schema });
  const deps = out.needsModel as { content: string; schema: object };
  assert.doesNotMatch(deps.content, /IGNORE ALL/);
  assert.deepEqual(out.data, { chef: null, minutes: null });
  await assert.rejects(web.call('submit_extraction', { id: out.id, data: { chef: 5 } }), {
    code: 'invalidExtraction',
  });
  const kept = await web.call('submit_extraction', {
    id: out.id,
    data: { chef: 'Ada', minutes: 12 },
  });
  assert.deepEqual(kept.data, { chef: 'Ada', minutes: 12 });
  const text = '{"chef":"Ada","minutes":13}';
  const unpacked = await web.call('submit_extraction', { id: out.id, data: text });
  assert.deepEqual(unpacked.data, { chef: 'Ada', minutes: 13 });
  const crawl = await web.crawl({ url: site.url('/injection'), schema, sitemap: 'skip' });
  await web.call('submit_extraction', {
    id: crawl.id,
    url: site.url('/injection'),
    data: { chef: 'Bo', minutes: 3 },
  });
  const read = await web.call<{ pages: { data: { data: unknown; source: string } }[] }>(
    'read_pages',
    { id: crawl.id, fields: ['data'] },
  );
  assert.deepEqual(read.pages[0]!.data.data, { chef: 'Bo', minutes: 3 });
  const model = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ choices: [{ message: { content: '{"chef":"Cy","minutes":7}' } }] }),
    );
  }).listen(0, '127.0.0.1');
  t.after(() => model.close());
  await new Promise((resolve) => model.once('listening', resolve));
  const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
  const asked = await createWeb(t, { settings: { model: { url, name: 'tiny' } } });
  const answer = await asked.call('extract_data', { url: site.url('/injection'), schema });
  assert.deepEqual(answer.data, { chef: 'Cy', minutes: 7 });
  assert.equal(answer.model, 'tiny');
});

test('crawled pages can be searched, and failed engines are named', async (t) => {
  const site = await startSite(t, { pages: 12 });
  site.on('/search', html('no', 403));
  const web = await createWeb(t, {
    settings: { search: { searxngUrl: site.url(''), engines: ['searxng', 'local'] } },
  });
  await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  const mine = await web.call<{ rows: { url: string; engine: string }[] }>('web_search', {
    query: 'number 7 part',
    type: 'crawled',
  });
  assert.ok(mine.rows.length > 0);
  assert.equal(mine.rows[0]!.engine, 'local');
  const fallen = await web.call<{ rows: { engine: string }[]; notice: string }>('web_search', {
    query: 'lantern meadow harbour',
  });
  assert.match(fallen.notice, /searxng/i);
  assert.ok(fallen.rows.every(({ engine }) => engine === 'local'));
  const other = await web.call<{ rows: unknown[] }>(
    'web_search',
    { query: 'number 7 part', type: 'crawled' },
    'somebody',
  );
  assert.equal(other.rows.length, 0, 'nobody finds the pages of another');
  const none = await createWeb(t, { settings: { search: { engines: ['searxng'] } } });
  await assert.rejects(none.call('web_search', { query: 'x' }), {
    code: 'unavailable',
    hint: /searxngUrl/,
  });
});

test('pages are read in parts that fit the response', async (t) => {
  const site = await startSite(t, { pages: 15, bytes: 3000 });
  const web = await createWeb(t);
  const { id } = await web.crawl({
    url: site.url('/'),
    sitemap: 'skip',
    formats: ['markdown', 'links', 'metadata', 'raw'],
  });
  const seen = new Set<string>();
  for (let cursor: string | undefined; ;) {
    const answer = await web.call<{
      pages: { url: string; markdown: string }[];
      nextCursor?: string;
    }>('read_pages', { id, fields: ['markdown'], maxBytes: 9000, ...(cursor ? { cursor } : {}) });
    assert.ok(Buffer.byteLength(JSON.stringify(answer)) <= 9600);
    for (const { url, markdown } of answer.pages) {
      seen.add(url);
      assert.ok(markdown.length > 100);
    }
    cursor = answer.nextCursor;
    if (!cursor) break;
  }
  assert.equal(seen.size, 15);
  const tiny = await web.call<{ pages: { cut?: string }[] }>('read_pages', {
    id,
    fields: ['raw'],
    maxBytes: 700,
    limit: 1,
  });
  assert.match(tiny.pages[0]!.cut!, /raise maxBytes/);
  const view = await web.call('get_job', { id });
  assert.ok(JSON.stringify(view).length < 3000, 'no body in a status');
});
