// Reading a crawl: by cursor while it runs, without missing a page or seeing one twice; in pieces where it is long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { createWeb } from '../../../helpers/web.ts';
import { until } from '../../../helpers/until.ts';

interface Read {
  pages: { url: string; markdown?: string; cut?: string; nextOffset?: number }[];
  nextCursor?: string;
  laterCursor?: string;
  more: boolean;
}

test('a cursor of a running crawl misses no page that was found early and fetched late', async (t) => {
  const site = await startSite(t, { pages: 130, links: 20 });
  const late: (() => void)[] = [];
  site.on('/p/1', (request, response) =>
    late.push(() => html('<p>late, but not lost</p>')(request, response)),
  );
  const web = await createWeb(t);
  const { id } = await web.call<{ id: string }>('crawl_site', {
    url: site.url('/'), sitemap: 'skip', maxPages: 1000,
  }); // prettier-ignore
  await until('all but one are in', async () => {
    const { outcomes } = await web.call<{ outcomes?: Record<string, number> }>('get_job', { id });
    return late.length > 0 && (outcomes?.fetched ?? 0) >= 129 && outcomes?.queued === 1;
  });
  const seen: string[] = [];
  let cursor: string | undefined;
  const readOn = async () => {
    for (;;) {
      const read = await web.call<Read>('read_pages', {
        id, limit: 200, fields: ['markdown'], maxBytes: 1_000_000, ...(cursor ? { cursor } : {}),
      }); // prettier-ignore
      seen.push(...read.pages.map(({ url }) => url));
      cursor = read.nextCursor ?? read.laterCursor;
      if (read.nextCursor === undefined) return read;
    }
  };
  const soFar = await readOn();
  assert.equal(soFar.more, true);
  assert.equal(cursor, '129', 'there is a place to go on from');
  assert.equal(
    seen.length,
    129,
    'even when more bodies are requested than one response can contain',
  );
  const view = await web.call('get_job', { id });
  const said = web.operations.find('get_job')!.text!(view);
  assert.match(said, /129 fetched/, 'the text contains the counts by outcome');
  assert.match(said, /^progress: \d+ of \d+ pages, \d+ URLs queued$/m);
  late[0]!();
  await web.call('wait_for_jobs', { ids: [id] });
  const rest = await readOn();
  assert.equal(rest.more, false);
  assert.equal(rest.laterCursor, undefined);
  assert.equal(seen.length, 130);
  assert.equal(new Set(seen).size, 130);
  assert.equal(seen.at(-1), site.url('/p/1'));
});

test('a page longer than a response is read in parts that add up to the page', async (t) => {
  const site = await startSite(t);
  const lines = Array.from({ length: 900 }, (_, i) => `Zeile ${i}: größer als müßig, 日本語 ${i}.`);
  site.on('/long', `<main><h1>Long</h1>${lines.map((line) => `<p>${line}</p>`).join('')}</main>`);
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/long'), sitemap: 'skip' });
  const options = { id: end.id, url: site.url('/long'), fields: ['markdown'] };
  const whole = await web.call<Read>('read_pages', { ...options, maxBytes: 1_000_000 });
  const { markdown = '' } = whole.pages[0]!;
  assert.ok(lines.every((line) => markdown.includes(line)));
  const pieces: string[] = [];
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const { pages }: Read = await web.call('read_pages', { ...options, maxBytes: 9001, offset });
    assert.ok(Buffer.byteLength(JSON.stringify(pages)) <= 9001);
    pieces.push(String(pages[0]!.markdown));
    offset = pages[0]!.nextOffset;
    assert.equal(pages[0]!.cut !== undefined, offset !== undefined, 'it says that it is longer');
  }
  assert.ok(pieces.length > 3);
  assert.equal(pieces.join(''), markdown);
  await assert.rejects(
    web.call('read_pages', { id: end.id, offset: 5 }),
    /`offset` requires `url`/,
  );
  const notice = async (input: object) =>
    (await web.call<{ notice?: string }>('read_pages', { id: end.id, ...input })).notice;
  assert.equal(await notice({ fields: ['markdown', 'metadata'] }), undefined);
  assert.equal(await notice({ fields: ['html', 'data'] }), 'This crawl does not store html, data. It stores markdown, metadata.'); // prettier-ignore
  assert.match((await notice({ url: site.url('/elsewhere') }))!, /has not found this URL/);
  const asked = site.count('/long');
  const read: string[] = [];
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const page: { markdown: string; nextOffset?: number } = await web.call('read_page', {
      url: site.url('/long'), maxBytes: 7001, ...(offset === 0 ? {} : { offset }),
    }); // prettier-ignore
    read.push(page.markdown);
    offset = page.nextOffset;
  }
  assert.equal(read.join(''), markdown);
  assert.equal(site.count('/long') - asked, 1, 'pieces are of one reading');
});

test('a page that requires a cookie is read, and Retry-After is reported', async (t) => {
  const site = await startSite(t);
  site.on('/busy', html('', 429, { 'retry-after': '90' }));
  // By way of another address, as logins do it.
  site.on('/walled', (request, response) => {
    const { cookie = '' } = request.headers;
    if (cookie === 'a=1; b=2') html('<p>Behind the wall</p>')(request, response);
    else html('', 302, { location: '/consent', 'set-cookie': 'a=1; Path=/' })(request, response);
  });
  site.on('/consent', html('', 302, { location: '/walled', 'set-cookie': 'b=2; HttpOnly' }));
  const web = await createWeb(t);
  for (const path of ['/cookie-wall', '/walled']) {
    const { markdown } = await web.call<{ markdown: string }>('read_page', { url: site.url(path) });
    assert.match(markdown, /Behind/);
  }
  await assert.rejects(web.call('read_page', { url: site.url('/busy') }), {
    code: 'pageFailed',
    hint: /90 s/,
  });
});
