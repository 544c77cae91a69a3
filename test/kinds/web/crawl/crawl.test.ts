// Crawls of the test site: exact limits, depth, outcomes, duplicates and request rate.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, startSite } from '../../../fixtures/site/site.ts';
import { createWeb, outcomesOf } from '../../../helpers/web.ts';

test('maxPages is exact: neither more nor fewer, and errors do not count', async (t) => {
  const site = await startSite(t, { pages: 60 });
  for (const n of [3, 5, 9]) site.on(`/p/${n}`, html('gone', 404));
  const web = await createWeb(t);
  for (const maxPages of [1, 7, 40]) {
    const end = await web.crawl({ url: site.url('/'), maxPages, sitemap: 'skip' });
    assert.equal(end.status, 'completed');
    assert.equal(end.result.pages, maxPages);
    assert.equal(end.result.stopReason, 'limit');
  }
  const all = await web.crawl({ url: site.url('/'), maxPages: 1000, sitemap: 'skip' });
  // «/» and «/p/0» have one text, so one of them is a duplicate; three are gone.
  assert.equal(all.result.stopReason, 'exhausted');
  assert.equal(all.result.pages, 57);
  assert.equal(all.result.outcomes.errored, 3);
  assert.equal(all.result.outcomes.duplicate, 1);
});

test('every trap has an outcome, and none stops the crawl', async (t) => {
  const site = await startSite(t);
  const paths = [
    '/huge', '/slow', '/silent', '/half', '/lying-length', '/lying-type', '/to-metadata', '/to-private', '/to-file',
    '/moved', '/round', '/hops/0', '/cookie-wall', '/refresh', '/latin1', '/utf16', '/meta-charset', '/bomb', '/gzip', '/br',
    '/zstd', '/gone', '/session', '/copy/1', '/copy/2', '/bad-canonical', '/same/1', '/same/2', '/js-only',
    '/injection', '/nofollow', '/zeros', 'http://10.1.2.3/', 'http://[::ffff:7f00:1]:1/', 'http://nowhere.invalid/', 'ftp://a.test/x',
    '/picture.png', 'javascript:alert(1)', 'https://127.0.0.1:1/',
  ]; // prettier-ignore
  site.on(
    '/traps',
    `<h1>Traps</h1>${paths.map((path) => `<a href="${path}">${path}</a>`).join(' ')}`,
  );
  const web = await createWeb(t, { settings: { maxBodyBytes: 300_000, maxTries: 2 } });
  const end = await web.crawl({
    url: site.url('/traps'),
    maxDepth: 2,
    sitemap: 'skip',
    externalLinks: true,
    pageTimeoutMs: 4000,
  });
  assert.equal(end.status, 'completed');
  assert.equal(end.result.stopReason, 'exhausted');
  const outcomes = await outcomesOf(web, end.id);
  const expected: Record<string, RegExp> = {
    '/huge': /^errored:tooLarge$/,
    '/slow': /^errored:timeout$/,
    '/silent': /^errored:timeout$/,
    '/half': /^errored:/,
    '/lying-length': /^errored:/,
    '/lying-type': /^skipped:fileType$/,
    '/to-metadata': /^redirected$/,
    '/latest/meta-data/': /^errored:egressRefused$/,
    '/to-private': /^redirected$/,
    '/to-file': /^redirected$/,
    '/moved': /^redirected$/,
    '/target': /^fetched$/,
    '/round': /^errored:redirectLoop$/,
    '/round2': /^redirected:leadsBack$/,
    '/hops/10': /^errored:tooManyRedirects$/,
    '/cookie-wall': /^fetched$/,
    '/refresh': /^redirected:metaRefresh$/,
    '/latin1': /^fetched$/,
    '/meta-charset': /^fetched$/,
    '/bomb': /^errored:tooLarge$/,
    '/gzip': /^fetched$/,
    '/br': /^fetched$/,
    '/zstd': /^fetched$/,
    '/gone': /^errored:http404$/,
    '/session': /^fetched$/,
    '/copy/1': /^duplicate:canonical$/,
    '/copy/2': /^duplicate:canonical$/,
    '/original': /^fetched$/,
    '/bad-canonical': /^fetched$/,
    '/js-only': /^fetched$/,
    '/injection': /^fetched$/,
    '/zeros': /^(fetched|skipped:fileType)$/,
    '/picture.png': /^skipped:fileType$/,
  };
  for (const [path, outcome] of Object.entries(expected))
    assert.match(outcomes[path] ?? 'absent', outcome, path);
  assert.deepEqual([outcomes['/same/1'], outcomes['/same/2']].map(String).toSorted(), [
    'duplicate:sameText',
    'fetched',
  ]);
  assert.equal(outcomes['/never'], 'skipped:nofollow', 'X-Robots-Tag: nofollow');
  // The counts in the result are the rows, counted.
  const counted: Record<string, number> = {};
  const { pages } = await web.call<{ pages: { outcome: string }[] }>('read_pages', {
    id: end.id, limit: 500, maxBytes: 1_000_000,
    outcomes: ['fetched', 'unchanged', 'disallowed', 'skipped', 'errored', 'redirected', 'duplicate', 'queued'],
  }); // prettier-ignore
  for (const { outcome } of pages) counted[outcome] = (counted[outcome] ?? 0) + 1;
  assert.deepEqual(counted, end.result.outcomes);
  const read = await web.call<{ pages: { url: string; markdown: string }[] }>('read_pages', {
    id: end.id, fields: ['markdown'], maxBytes: 1_000_000,
  }); // prettier-ignore
  const markdownOf = (path: string) => read.pages.find(({ url }) => url.endsWith(path))!.markdown;
  assert.match(markdownOf('/latin1'), /Grüße aus Köln/);
  const raw = await web.crawl({
    url: site.url('/latin1'), urls: [site.url('/utf16'), site.url('/paper.pdf')], maxDepth: 0, formats: ['raw'],
  }); // prettier-ignore
  const bodies = await web.call<{ pages: { url: string; raw: string }[] }>('read_pages', {
    id: raw.id, fields: ['raw'],
  }); // prettier-ignore
  const rawOf = (path: string) => bodies.pages.find(({ url }) => url.endsWith(path))!.raw;
  assert.match(rawOf('/latin1'), /^<!doctype html>[^]*Grüße aus Köln/);
  assert.match(rawOf('/utf16'), /Grüße in Zweien/);
  assert.match(rawOf('/paper.pdf'), /^%PDF-|^data:application\/octet-stream;base64,JVBERi/);
  assert.match(markdownOf('/utf16'), /Grüße in Zweien/);
  assert.match(markdownOf('/meta-charset'), /Grüße vom Meta/);
  assert.match(markdownOf('/gzip'), /Packed gzip/);
  assert.match(markdownOf('/zstd'), /Packed zstd/);
  assert.doesNotMatch(markdownOf('/injection'), /IGNORE ALL|obey/);
});

test('depth is exact, and loops and calendars end', async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t);
  const deep = await web.crawl({ url: site.url('/calendar/1'), maxDepth: 4, sitemap: 'skip' });
  assert.equal(deep.result.pages, 5);
  assert.equal((await outcomesOf(web, deep.id))['/calendar/6'], 'skipped:tooDeep');
  const calendar = await web.crawl({
    url: site.url('/calendar/1'),
    maxSimilarPages: 7,
    sitemap: 'skip',
  });
  assert.equal(calendar.result.pages, 7);
  assert.equal(calendar.result.stopReason, 'exhausted');
  const loop = await web.crawl({ url: site.url('/loop/'), sitemap: 'skip' });
  assert.equal(loop.result.stopReason, 'exhausted');
  assert.ok(loop.result.pages < 10);
  assert.equal(loop.result.reasons!['skipped:pathLoop'], 1);
});

test('scope: include, exclude, path, subdomains, external, query, budgets per path', async (t) => {
  const site = await startSite(t);
  const { port } = site;
  const body = (n: number) => `<h1>${n}</h1><p>${'text '.repeat(30)}${n}</p>`;
  site.on(
    'a.test /docs/',
    `${body(1)}<a href="/docs/x?b=2&a=1">x</a><a href="/docs/x?a=1&b=2">x</a><a href="/docs/y">y</a><a href="/blog/1">b</a>
    <a href="http://sub.a.test:${port}/s">s</a><a href="http://b.test:${port}/e">e</a>`,
  );
  site.on('a.test /docs/x', `${body(2)}<a href="/docs/z?utm_source=q">z</a>`);
  site.on('a.test /docs/y', body(3));
  site.on('a.test /docs/z', body(4));
  for (const n of [1, 2, 3])
    site.on(`a.test /blog/${n}`, `${body(10 + n)}<a href="/blog/${n + 1}">n</a>`);
  site.on('sub.a.test /s', body(5));
  site.on('b.test /e', `${body(6)}<a href="/e2">far</a>`);
  site.on('b.test /e2', body(7));
  const web = await createWeb(t);
  const start = { url: site.url('/docs/', 'a.test'), sitemap: 'skip' };
  const pages = async (options: object) => {
    const end = await web.crawl({ ...start, ...options });
    const { pages: rows } = await web.call<{ pages: { url: string }[] }>('read_pages', {
      id: end.id,
    });
    return rows.map(({ url }) => url.replace(`:${port}`, '').replace('http://', '')).toSorted();
  };
  const docs = ['a.test/docs/', 'a.test/docs/x?b=2&a=1', 'a.test/docs/y', 'a.test/docs/z'];
  const blog = ['a.test/blog/1', 'a.test/blog/2', 'a.test/blog/3'];
  assert.deepEqual(await pages({ scope: 'path' }), docs);
  assert.deepEqual(await pages({}), [...blog, ...docs]);
  assert.deepEqual(await pages({ include: ['/docs/[xy]'] }), docs.slice(0, 3));
  assert.deepEqual(await pages({ exclude: ['/blog/', '[?]'] }), ['a.test/docs/', 'a.test/docs/y']);
  assert.deepEqual(await pages({ exclude: ['/blog/'], subdomains: true }), [
    ...docs,
    'sub.a.test/s',
  ]);
  assert.deepEqual(await pages({ exclude: ['/blog/'], externalLinks: true }), [
    ...docs,
    'b.test/e',
    'sub.a.test/s',
  ]);
  assert.deepEqual(
    await pages({ exclude: ['/blog/'], query: 'strip' }),
    docs.map((url) => url.replace(/[?].*/, '')),
  );
  assert.deepEqual(await pages({ pathBudgets: { '/blog/': 1 } }), [...blog.slice(0, 1), ...docs]);
});

test('robots.txt and sitemaps of every format are read, including broken ones', async (t) => {
  const { gzipSync } = await import('node:zlib');
  const site = await startSite(t);
  const at = (path: string) => site.url(path, 'r.test');
  const xml = (body: string) => html(body, 200, { 'content-type': 'application/xml' });
  site.on(
    'r.test /robots.txt',
    html(
      `User-agent: *\nDisallow: /private\nAllow: /private/ok\nSitemap: ${at('/index.xml')}\nSitemap: /relative.txt`,
      200,
      { 'content-type': 'text/plain' },
    ),
  );
  site.on(
    'r.test /index.xml',
    xml(
      `<sitemapindex><sitemap><loc>${at('/one.xml.gz')}</loc></sitemap><sitemap><loc>${at('/broken.xml')}</loc></sitemap><sitemap><loc>${at('/index.xml')}</loc></sitemap><sitemap><loc>${at('/feed.rss')}</loc></sitemap></sitemapindex>`,
    ),
  );
  site.on('r.test /one.xml.gz', (_request, response) => {
    response
      .writeHead(200, { 'content-type': 'application/gzip' })
      .end(
        gzipSync(
          `<urlset><url><loc>${at('/in-gz')}</loc></url><url><loc>${at('/private/x')}</loc></url></urlset>`,
        ),
      );
  });
  site.on(
    'r.test /broken.xml',
    xml(`<urlset><url><loc>${at('/before-break')}</loc></url><url><loc>${at('/cut')}`),
  );
  site.on(
    'r.test /feed.rss',
    xml(
      `<rss><channel><link>${at('/')}</link><item><title>a</title><link>${at('/in-rss')}</link></item></channel></rss>`,
    ),
  );
  site.on(
    'r.test /relative.txt',
    html(`${at('/in-txt')}\n`, 200, { 'content-type': 'text/plain' }),
  );
  for (const [i, path] of [
    '/start',
    '/in-gz',
    '/before-break',
    '/in-rss',
    '/in-txt',
    '/private/x',
    '/private/ok',
  ].entries()) {
    site.on(
      `r.test ${path}`,
      `<h1>${path}</h1><p>${'some words '.repeat(20)}${i}</p><a href="/private/ok">ok</a>`,
    );
  }
  const web = await createWeb(t);
  const end = await web.crawl({ url: at('/start') });
  const outcomes = await outcomesOf(web, end.id);
  for (const path of ['/start', '/in-gz', '/before-break', '/in-rss', '/in-txt', '/private/ok'])
    assert.equal(outcomes[path], 'fetched', path);
  assert.equal(outcomes['/private/x'], 'disallowed:robots');
  assert.equal(site.count('/private/x'), 0);
  const only = await web.crawl({ url: at('/in-gz'), sitemap: 'only' });
  assert.equal((await outcomesOf(web, only.id))['/private/ok'], undefined);
  const skip = await web.crawl({ url: at('/start'), sitemap: 'skip' });
  assert.deepEqual(await outcomesOf(web, skip.id), {
    '/start': 'fetched',
    '/private/ok': 'fetched',
  });
  site.on('down.test /robots.txt', html('', 500));
  const down = await web.crawl({ url: site.url('/', 'down.test') });
  assert.equal(down.status, 'failed');
  assert.equal(
    site.hits.filter(({ host, path }) => host === 'down.test' && path === '/').length,
    0,
  );
});

test('Retry-After, backoff, circuit breaker and user agent', async (t) => {
  const site = await startSite(t);
  let asked = 0;
  site.on('/busy', (request, response) => {
    asked++;
    if (asked === 1) response.writeHead(429, { 'retry-after': '1' }).end();
    else if (asked === 2) response.writeHead(500).end();
    else html('<h1>At last</h1>')(request, response);
  });
  const web = await createWeb(t, {
    settings: { breakerFailures: 3, maxBreakerRests: 1, maxTries: 2, breakerRestMs: 20 },
  });
  const begin = Date.now();
  const busy = await web.crawl({
    url: site.url('/busy'),
    sitemap: 'skip',
    headers: { 'x-mine': '1' },
  });
  assert.equal(busy.status, 'failed', 'two tries only');
  await web.call('control_crawl', { id: busy.id, action: 'retryFailed' });
  const { waitFor } = {
    waitFor: (id: string) => web.call<{ done: boolean }>('wait_for_jobs', { ids: [id] }),
  };
  assert.ok((await waitFor(busy.id)).done);
  assert.equal((await web.jobs.get(busy.id)).status, 'completed');
  assert.ok(Date.now() - begin >= 1000, 'Retry-After was kept');
  const hit = site.hits.find(({ path }) => path === '/busy')!;
  assert.match(hit.headers['user-agent']!, /^Errand\//);
  assert.equal(hit.headers['x-mine'], '1');
  site.on('bad.test /', Array.from({ length: 30 }, (_, i) => `<a href="/x${i}">x</a>`).join(''));
  for (let i = 0; i < 30; i++) site.on(`bad.test /x${i}`, html('', 503));
  const bad = await web.crawl({ url: site.url('/', 'bad.test'), sitemap: 'skip', concurrency: 2 });
  assert.equal(bad.result.pages, 1);
  assert.ok(bad.result.reasons!['errored:hostDown']! > 5, JSON.stringify(bad.result));
});

test('with linkSelectors only links in the selected elements are followed', async (t) => {
  const site = await startSite(t);
  site.on('/list', (request, response) => {
    const n = Number(new URL(request.url, site.url('/')).searchParams.get('page') ?? 1);
    const next = n < 4 ? `<li class="next"><a href="/list?page=${n + 1}">Next</a></li>` : '';
    html(`<nav><a href="/p/1">Elsewhere</a></nav><h1>List ${n}</h1><p>Entries ${n}.</p>${next}`)(request, response); // prettier-ignore
  });
  const web = await createWeb(t);
  const options = { url: site.url('/list'), sitemap: 'skip', linkSelectors: ['.next', 'a.more'] };
  for (const formats of [['markdown'], ['metadata']]) {
    const end = await web.crawl({ ...options, formats });
    const pages = ['/list', '/list?page=2', '/list?page=3', '/list?page=4'];
    assert.deepEqual(
      await outcomesOf(web, end.id),
      Object.fromEntries(pages.map((path) => [path, 'fetched'])),
    );
  }
  await assert.rejects(web.crawl({ ...options, linkSelectors: ['a['] }), /Invalid CSS selector/);
});
