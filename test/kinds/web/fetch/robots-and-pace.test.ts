// robots.txt by RFC 9309 case by case, and the request rate: delay, Crawl-delay, concurrency and the time limit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Robots } from '../../../../src/kinds/web/fetch/robots.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import { html, startSite, type Handler, type Site } from '../../../fixtures/site/site.ts';
import { cpuMs } from '../../../helpers/cpu.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb, outcomesOf } from '../../../helpers/web.ts';

const text = (body: string, status = 200, headers = {}) =>
  html(body, status, { 'content-type': 'text/plain', ...headers });

/** A site of its own per host name: a start page with these links. */
function serve(site: Site, host: string, robots: Parameters<Site['on']>[1], paths: string[]): void {
  site.on(`${host} /robots.txt`, robots);
  site.on(`${host} /`, `<h1>${host}</h1>${paths.map((p) => `<a href="${p}">${p}</a>`).join(' ')}`);
  for (const path of paths)
    site.on(`${host} ${path.split('?')[0]}`, `<h1>${host} ${path}</h1><p>Of its own.</p>`);
}

test('robots.txt: groups, longest match, escapes, redirects, size and unusable responses', async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t, { settings: { delayMs: 0, maxTries: 1 } });
  const big = `User-agent: *\nDisallow: /no\n${'# filler\n'.repeat(70_000)}Disallow: /late\n`;
  serve(site, 'group.test', text('User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: eRRand\nDisallow: /mine\n'), ['/mine', '/free']); // prettier-ignore
  serve(site, 'match.test', text('User-agent: *\nDisallow: /a/\nAllow: /a/b\nDisallow: /a/b/c$\nDisallow: /*.do\nDisallow: /~x/\nAllow: /tie\nDisallow: /tie\n'), ['/a/1', '/a/b/2', '/a/b/c', '/q/z.do?x=1', '/%7Ex/1', '/tie']); // prettier-ignore
  serve(site, 'moved.test', text('', 301, { location: site.url('/robots.txt', 'match.test') }), ['/a/1', '/a/b/2']); // prettier-ignore
  serve(site, 'big.test', text(big), ['/no', '/late']);
  const head = 'User-agent: *\nDisallow: /no\n';
  const rule = 'Disallow: /late';
  const cutRule = `${head}${'#'.repeat(512_000 - head.length - rule.length + 3)}\n${rule}\n`;
  serve(site, 'cut.test', text(cutRule), ['/no', '/late', '/l']);
  // Larger than any page may be, and without end.
  const endless: Handler = (_request, response) => {
    response.writeHead(200).write(head);
    const more = () => {
      while (!response.destroyed && response.write('# filler\n'.repeat(10_000)));
    };
    response.on('drain', more);
    more();
  };
  serve(site, 'vast.test', endless, ['/no', '/late']);
  serve(site, 'gone.test', text('nothing here', 404), ['/x']);
  serve(site, 'page.test', html('<html><body>Welcome! Disallow: /x</body></html>'), ['/x']);
  serve(site, 'error.test', text('', 503), ['/x']);
  serve(site, 'endless.test', text('', 302, { location: '/robots.txt' }), ['/x']);
  const outcomes = async (host: string) => {
    const end = await web.crawl({ url: site.url('/', host), sitemap: 'skip' });
    const { '/': _start, ...rest } = await outcomesOf(web, end.id);
    return rest;
  };
  const no = 'disallowed:robots';
  assert.deepEqual(await outcomes('group.test'), { '/mine': no, '/free': 'fetched' });
  assert.deepEqual(await outcomes('match.test'), {
    '/a/1': no, '/a/b/2': 'fetched', '/a/b/c': no, '/q/z.do?x=1': no, '/%7Ex/1': no, '/tie': 'fetched',
  }); // prettier-ignore
  assert.deepEqual(await outcomes('moved.test'), { '/a/1': no, '/a/b/2': 'fetched' });
  assert.deepEqual(
    await outcomes('big.test'),
    { '/no': no, '/late': 'fetched' },
    'half a megabyte',
  );
  assert.deepEqual(
    await outcomes('cut.test'),
    { '/no': no, '/late': 'fetched', '/l': 'fetched' },
    'no half of a rule',
  );
  assert.deepEqual(await outcomes('vast.test'), { '/no': no, '/late': 'fetched' }, 'without end');
  for (const host of ['gone.test', 'page.test', 'endless.test'])
    assert.deepEqual(await outcomes(host), { '/x': 'fetched' }, host);
  await outcomes('error.test');
  assert.equal(site.hits.filter(({ host, path }) => host === 'error.test' && path === '/x').length, 0); // prettier-ignore
  const asked = site.hits.filter(({ path }) => path === '/robots.txt');
  assert.equal(asked.filter(({ host }) => host === 'group.test').length, 1, 'kept for a day');
});

test('a robots.txt full of wildcards is matched in bounded time, and its rules apply', async () => {
  const body = Buffer.from(
    `User-agent: *\nDisallow: /*.do\n${`Disallow: /x*${'a*'.repeat(10)}b\n`.repeat(15_000)}Allow: /x/y*\n`,
  );
  const fetch = async () => ({ status: 200, headers: {}, robotsTags: [], body });
  const robots = new Robots({ fetch, clock: systemClock, userAgent: 'Errand/1' });
  const rules = await robots.rules('http://stars.test');
  const ms = await cpuMs(() => {
    for (let n = 0; n < 5; n++) rules.allows(`http://stars.test/x${'a'.repeat(1900)}`);
  });
  assert.ok(ms < 5000, `${ms} ms; it took seconds for each`);
  assert.ok(!rules.allows('http://stars.test/x/ab') && !rules.allows('http://stars.test/q.do'));
  assert.ok(rules.allows('http://stars.test/y'));
});

test('rules for other bots are ignored, in X-Robots-Tag and in meta tags', async (t) => {
  const site = await startSite(t);
  const tags: Record<string, { lines: string[]; follows: boolean }> = {
    '/other': { lines: ['otherbot: noindex, nofollow'], follows: true },
    '/several': { lines: ['otherbot: none', 'NoFollow'], follows: false },
    '/in-one-line': { lines: ['otherbot: nofollow, errand: noarchive'], follows: true },
    '/mine': { lines: ['otherbot: noindex, ERRAND: nofollow'], follows: false },
    '/dated': { lines: ['unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow'], follows: false },
    '/rfc850': {
      lines: ['unavailable_after: Tuesday, 25-Jun-30 15:00:00 PST, none'],
      follows: false,
    },
    '/valued': { lines: ['max-snippet: 50, max-image-preview: none'], follows: true },
  };
  const metas: Record<string, { name: string; rules?: string; follows: boolean }> = {
    '/meta-other': { name: 'otherbot', follows: true },
    '/meta-mine': { name: 'Errand', follows: false },
    '/meta-all': { name: 'robots', follows: false },
    '/meta-valued': { name: 'robots', rules: 'all, max-image-preview: none', follows: true },
  };
  const body = (path: string, head = '') =>
    `<head>${head}</head><h1>${path}</h1><p>Of its own.</p><a href="${path}/next">next</a>`;
  for (const [path, { lines }] of Object.entries(tags)) {
    site.on(path, (_request, response) => {
      response.setHeader('x-robots-tag', lines);
      response.writeHead(200, { 'content-type': 'text/html' }).end(body(path));
    });
  }
  for (const [path, { name, rules = 'noindex, nofollow' }] of Object.entries(metas))
    site.on(path, body(path, `<meta name="${name}" content="${rules}">`));
  const cases = { ...tags, ...metas };
  site.on('/', `<h1>Start</h1>${Object.keys(cases).map((path) => `<a href="${path}">${path}</a>`).join(' ')}`); // prettier-ignore
  const web = await createWeb(t);
  for (const formats of [['markdown'], ['links']]) {
    const end = await web.crawl({ url: site.url('/'), sitemap: 'skip', formats });
    const outcomes = await outcomesOf(web, end.id);
    const followed = Object.keys(cases).filter(
      (path) => outcomes[`${path}/next`] !== 'skipped:nofollow',
    );
    const expected = Object.keys(cases).filter((path) => cases[path]!.follows);
    assert.deepEqual(followed, expected, `formats ${formats}`);
  }
});

test('a caller that stops waiting for robots.txt does not affect other callers', async (t) => {
  const site = await startSite(t);
  const web = await createWeb(t);
  const gate = Promise.withResolvers<void>();
  const rules = text('User-agent: *\nDisallow: /p/2\n');
  site.on('/robots.txt', (...asked) => void gate.promise.then(() => rules(...asked)));
  const start = { url: site.url('/p/1'), sitemap: 'skip', maxPages: 1 };
  const first = await web.call<{ id: string }>('crawl_site', start);
  await until('it is asked for', () => site.count('/robots.txt') === 1);
  const second = web.call<{ status: string }>('read_page', { url: site.url('/p/1') });
  await web.call('cancel_job', { id: first.id });
  await until('it is cancelled', async () => (await web.jobs.get(first.id)).status === 'cancelled'); // prettier-ignore
  gate.resolve();
  assert.equal((await second).status, 'completed');
  assert.equal(site.count('/robots.txt'), 1);
});

test('request rate: delay, Crawl-delay up to a limit, concurrency and the time limit', async (t) => {
  const site = await startSite(t, { pages: 30 });
  const web = await createWeb(t, { settings: { maxCrawlDelayMs: 120 } });
  let running = 0;
  let most = 0;
  for (let n = 0; n < 30; n++) {
    const page = html(`<h1>Page ${n}</h1>${Array.from({ length: 30 }, (_, i) => `<a href="/p/${i}">${i}</a>`).join('')}<p>${n} of them.</p>`); // prettier-ignore
    site.on(`/p/${n}`, (...asked) => {
      most = Math.max(most, ++running);
      setTimeout(() => {
        running--;
        page(...asked);
      }, 15);
    });
  }
  let tookMs = 0;
  const crawl = async (options: object) => {
    most = 0;
    const begun = performance.now();
    const answer = await web.crawl({ url: site.url('/p/0'), sitemap: 'skip', maxPages: 12, ...options }); // prettier-ignore
    tookMs = performance.now() - begun;
    return answer;
  };
  assert.equal((await crawl({ concurrency: 3 })).result.pages, 12);
  assert.ok(most <= 3, `${most} concurrent requests`);
  await crawl({ concurrency: 10, hostConcurrency: 2 });
  assert.ok(most <= 2, `${most} concurrent requests`);
  await crawl({ delayMs: 60, maxPages: 5 });
  // Not by when requests came: the first may have taken its time on the way. Timers may be a millisecond early.
  assert.ok(tookMs >= 4 * 59, `${tookMs} ms for 5 pages`);
  assert.equal(most, 1);
  // A redirect that is followed for its cookie counts as a request.
  site.on('/walled', (request, response) => {
    const isIn = request.headers.cookie === 'in=1';
    const away = html('', 302, { location: '/walled', 'set-cookie': 'in=1' });
    (isIn ? html('<h1>In</h1>') : away)(request, response);
  });
  await crawl({ url: site.url('/walled'), delayMs: 250 });
  assert.ok(tookMs >= 249, `${tookMs} ms for two requests`);
  site.on('slow.test /robots.txt', text('User-agent: *\nCrawl-delay: 90\n'));
  const slow = await crawl({ url: site.url('/p/0', 'slow.test'), maxPages: 4 });
  assert.ok(tookMs >= 3 * 119, `${tookMs} ms for 4 pages`);
  assert.match(slow.result.warnings![0]!, /asks for 90000 ms.*waits 120 ms/);
  const timed = await crawl({ delayMs: 400, maxPages: 30, maxTimeMs: 1000 });
  assert.equal(timed.result.stopReason, 'time');
  assert.ok(timed.result.pages >= 1 && timed.result.pages < 30);
});

test('links that a page asks not to follow have rows, and are followed when another page links to them', async (t) => {
  const site = await startSite(t);
  site.on('/', '<h1>Start</h1><a rel="nofollow" href="/only">only</a> <a rel="nofollow" href="/both">both</a> <a href="/next">next</a>'); // prettier-ignore
  site.on('/next', '<h1>Chapter two</h1><p>Of its own.</p><a href="/both">both</a>');
  site.on('/both', '<h1>Both</h1><p>Also of its own.</p>');
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  const outcomes = await outcomesOf(web, end.id);
  assert.deepEqual(
    [outcomes['/only'], outcomes['/both'], outcomes['/next']],
    ['skipped:nofollow', 'fetched', 'fetched'],
  );
  const rows = { id: end.id, limit: 1, maxBytes: 100_000 };
  const first = await web.call('read_pages', rows);
  assert.deepEqual([first.more, typeof first.nextCursor], [true, 'string']);
  const last = await web.call('read_pages', { ...rows, limit: 10 });
  assert.deepEqual([last.more, last.nextCursor], [false, undefined]);
  const map = await web.call('map_site', { url: site.url('/'), sitemap: 'skip' });
  const titles = Object.fromEntries(
    (map.urls as { url: string; title?: string }[]).map(({ url, title }) => [new URL(url).pathname, title]), // prettier-ignore
  );
  assert.equal(titles['/next'], 'Chapter two', '«next» is no title');
  assert.equal(titles['/both'], 'Both');
});
