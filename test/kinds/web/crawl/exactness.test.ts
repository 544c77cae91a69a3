// Nothing that belongs to a crawl is lost by the order in which things happen to come in.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, startSite, type Handler, type Site } from '../../../fixtures/site/site.ts';
import { createWeb, outcomesOf } from '../../../helpers/web.ts';

const page = (name: string, ...links: string[]): string =>
  `<main><p>${'words of the page '.repeat(10)}${name}</p></main>${links.map((to) => `<a href="${to}">${to}</a>`).join(' ')}`;
const standsFor = (to: string, name: string): string =>
  `<head><link rel="canonical" href="${to}"></head>${page(name)}`;

test('depth stays exact when a page on the shortest path fails at first', async (t) => {
  const site = await startSite(t);
  const b = `http://b.test:${site.port}`;
  let asked = 0;
  site.on('a.test /', page('root', '/late', '/other', `${b}/busy`));
  site.on('a.test /late', (request, response) =>
    (asked++ === 0 ? html('', 500) : html(page('late', '/x')))(request, response),
  );
  site.on('a.test /other', page('other', '/child'));
  site.on('a.test /child', page('child', '/x'));
  site.on('a.test /x', page('x', '/y'));
  // A host that rests holds the next depth back too.
  let busy = 0;
  site.on('b.test /busy', (request, response) => {
    if (busy++ === 0) response.writeHead(429, { 'retry-after': '1' }).end();
    else html(page('busy', `http://a.test:${site.port}/z`))(request, response);
  });
  site.on('a.test /z', page('z'));
  const web = await createWeb(t, { settings: { backoffMs: 300 } });
  const options = { sitemap: 'skip', maxDepth: 2, externalLinks: true };
  const end = await web.crawl({ url: site.url('/', 'a.test'), ...options });
  assert.deepEqual(await outcomesOf(web, end.id), {
    '/': 'fetched', '/late': 'fetched', '/other': 'fetched', '/busy': 'fetched', '/child': 'fetched', '/x': 'fetched',
    '/z': 'fetched', '/y': 'skipped:tooDeep',
  }); // prettier-ignore
});

test('a page of another site is one link away from every page that links to it', async (t) => {
  const site = await startSite(t);
  const b = `http://b.test:${site.port}`;
  site.on('a.test /', page('root', `${b}/1`, '/far'));
  site.on('a.test /far', page('far', '/farther'));
  site.on('a.test /farther', page('farther', `${b}/2`));
  site.on('b.test /1', page('one', '/2', '/3'));
  site.on('b.test /2', page('two', '/3'));
  const web = await createWeb(t);
  const options = { sitemap: 'skip', externalLinks: true, concurrency: 1 };
  const end = await web.crawl({ url: site.url('/', 'a.test'), ...options });
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/2'], 'fetched');
  assert.equal(outcomes['/3'], 'skipped:external');
  assert.equal(end.result.outcomes.skipped, 1);
  assert.deepEqual(end.result.reasons, { 'skipped:external': 1 });
});

test('one of several equivalent pages is kept, even when they arrive together', async (t) => {
  const site = await startSite(t);
  site.on('/', page('root', '/a', '/b', '/print', '/broken'));
  const gate = together(4);
  site.on('/a', gate(html(standsFor('/b', 'a'))));
  site.on('/b', gate(html(standsFor('/a', 'b'))));
  site.on('/print', gate(html(standsFor('/broken', 'print'))));
  site.on('/broken', gate(html('', 404)));
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/print'], 'fetched', 'what it stands for cannot be had');
  assert.deepEqual([outcomes['/a'], outcomes['/b']].map(String).toSorted(), [
    'duplicate:canonical',
    'fetched',
  ]);
  assert.deepEqual(end.result.outcomes, { fetched: 3, duplicate: 1, errored: 1 });
  assert.deepEqual(end.result.reasons, { 'duplicate:canonical': 1, 'errored:http404': 1 });
});

test('a redirect to the same address in another spelling is followed', async (t) => {
  const site = await startSite(t);
  site.on(
    '/',
    page('root', '/session', '/tracked', '/language', '/endless', '/find?q=a%20b/c&utm_source=x'),
  );
  redirectsTo(site, '/session', 'sessionid=4f');
  redirectsTo(site, '/tracked', 'utm_source=home');
  site.on('/find', page('found'));
  redirectsTo(site, '/language', 'lang=en');
  let n = 0;
  site.on('/endless', (_request, response) =>
    response.writeHead(302, { location: `/endless?sessionid=${n++}` }).end(),
  );
  const web = await createWeb(t);
  const kept = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  assert.deepEqual(await outcomesOf(web, kept.id), {
    '/': 'fetched', '/session': 'fetched', '/tracked': 'fetched', '/language': 'redirected',
    '/language?lang=en': 'fetched', '/endless': 'errored:redirectLoop', '/find?q=a%20b/c': 'fetched',
  }); // prettier-ignore
  const stripped = await web.crawl({ url: site.url('/'), sitemap: 'skip', query: 'strip' });
  assert.equal((await outcomesOf(web, stripped.id))['/language'], 'fetched');
  assert.equal(stripped.result.pages, 5);
});

test('a cookie wall on another URL loses no page', async (t) => {
  const site = await startSite(t);
  const deps =
    (cookie: string, wall: Handler, behind: Handler): Handler =>
    (request, response) =>
      ((request.headers.cookie ?? '').includes(cookie) ? behind : wall)(request, response);
  const to = (location: string, cookie?: string): Handler =>
    html('', 302, { location, ...(cookie === undefined ? {} : { 'set-cookie': cookie }) });
  // Every page turns visitors away, and the wall always leads back to the start.
  const paths = ['/a', '/b', '/c'];
  site.on('one.test /', deps('ok=1', to('/consent'), html(page('one', ...paths))));
  for (const path of paths)
    site.on(`one.test ${path}`, deps('ok=1', to('/consent'), html(page(path))));
  site.on('one.test /consent', to('/', 'ok=1; Path=/'));
  // Met deep in the site, by pages that come in together; it knows where they came from.
  const gate = together(3);
  site.on('two.test /', page('two', ...paths));
  for (const path of paths)
    site.on(`two.test ${path}`, deps('ok=2', gate(to(`/consent?back=${path}`)), html(page(`two ${path}`)))); // prettier-ignore
  site.on('two.test /consent', (request, response) =>
    to(request.url.split('=')[1]!, 'ok=2; Path=/')(request, response),
  );
  // The same wall for all of them, over two addresses, and two cookies.
  const each = together(3);
  site.on('three.test /', page('three', ...paths));
  for (const path of paths)
    site.on(`three.test ${path}`, deps('x=1; y=1', each(to('/gate')), html(page(`three ${path}`))));
  site.on('three.test /gate', to('/gate2', 'x=1'));
  site.on('three.test /gate2', to('/a', 'y=1'));
  // The first redirect sets a cookie, and requests without it are rejected.
  site.on('four.test /', deps('seen=1', to('/check', 'seen=1'), html(page('four', '/a', '/b'))));
  for (const path of ['/a', '/b'])
    site.on(
      `four.test ${path}`,
      deps('seen=1', to('/check', 'seen=1'), html(page(`four ${path}`))),
    );
  site.on('four.test /check', deps('seen=1', html('no cookies', 403), to('/')));
  // Never opens.
  site.on('five.test /', page('five', '/shut', '/moved'));
  site.on('five.test /shut', to('/consent'));
  site.on('five.test /consent', to('/shut', 'ok=5'));
  site.on('five.test /moved', to('/new', 'session=1'));
  site.on('five.test /new', page('new'));
  // Another host of the same domain hands the cookie out; other hosts of the machine do not get it.
  site.on('www.six.test /', page('six', ...paths));
  for (const path of paths) {
    const wall = to(`http://id.six.test:${site.port}/ask?back=${encodeURIComponent(site.url(path, 'www.six.test'))}`); // prettier-ignore
    site.on(`www.six.test ${path}`, deps('ok=6', wall, html(page(`six ${path}`))));
  }
  site.on('id.six.test /ask', (request, response) =>
    to(`/done?${request.url.split('?')[1]}`)(request, response),
  );
  site.on('id.six.test /done', (request, response) =>
    to(decodeURIComponent(request.url.split('=')[1]!), 'ok=6; Domain=six.test, z=1; Domain=test, y=1')(request, response),
  ); // prettier-ignore
  const web = await createWeb(t);
  const outcomes = async (host: string, options = {}) => {
    const end = await web.crawl({ url: site.url('/', host), sitemap: 'skip', ...options });
    const all = await outcomesOf(web, end.id);
    const counted: Record<string, number> = {};
    for (const outcome of Object.values(all).map((one) => one.split(':')[0]!))
      counted[outcome] = (counted[outcome] ?? 0) + 1;
    assert.deepEqual(end.result.outcomes, counted, host);
    return all;
  };
  const pages = { '/a': 'fetched', '/b': 'fetched', '/c': 'fetched', '/': 'fetched' };
  assert.deepEqual(await outcomes('one.test'), { ...pages, '/consent': 'redirected:leadsBack' });
  assert.deepEqual(
    site.hits.filter(({ host }) => host === 'one.test').map(({ path }) => path).toSorted(),
    ['/', '/', '/a', '/b', '/c', '/consent', '/robots.txt'],
    'as a browser would ask',
  ); // prettier-ignore
  const two = await outcomes('two.test');
  assert.deepEqual({ ...two, ...pages }, two);
  assert.deepEqual(await outcomes('three.test'), { ...pages, '/gate': 'redirected', '/gate2': 'redirected:leadsBack' }); // prettier-ignore
  assert.deepEqual(await outcomes('four.test', { maxPages: 2 }), { '/': 'fetched', '/a': 'fetched', '/b': 'queued' }); // prettier-ignore
  assert.deepEqual(await outcomes('five.test'), {
    '/': 'fetched', '/shut': 'errored:redirectLoop', '/moved': 'redirected', '/new': 'fetched',
    '/consent': 'redirected:leadsBack',
  }); // prettier-ignore
  assert.deepEqual(await outcomes('www.six.test', { concurrency: 1 }), pages);
  const sent = site.hits.filter(({ host, headers }) => host === 'www.six.test' && headers.cookie);
  assert.deepEqual(sent.map(({ path, headers }) => [path, headers.cookie]), paths.map((path) => [path, 'ok=6'])); // prettier-ignore
  assert.ok(!site.hits.some(({ host, headers }) => host === 'two.test' && headers.cookie?.includes('ok=1'))); // prettier-ignore
});

test('remaining sitemaps are read when the frontier is empty, and a loop of sitemaps ends', async (t) => {
  const site = await startSite(t);
  const list = (paths: string[]) =>
    `<urlset>${paths.map((path) => `<url><loc>${site.url(path)}</loc></url>`).join('')}</urlset>`;
  const index = (...files: string[]) =>
    `<sitemapindex>${files.map((file) => `<sitemap><loc>${site.url(file)}</loc></sitemap>`).join('')}</sitemapindex>`;
  const numbered = (folder: string, n: number) =>
    Array.from({ length: n }, (_, i) => `/${folder}/${i}`);
  site.on('/sitemap.xml', html('', 301, { location: '/moved.xml' }));
  site.on('/moved.xml', index('/old.xml', '/round.xml', '/new.xml'));
  site.on('/round.xml', index('/sitemap.xml', '/round2.xml'));
  site.on('/round2.xml', index('/round.xml'));
  site.on('/old.xml', list(numbered('old', 40)));
  site.on('/new.xml', list(numbered('new', 20)));
  site.on('/old/*', html('', 404));
  site.on('/new/*', (request, response) => html(page(request.url))(request, response));
  site.on('/', page('root'));
  const web = await createWeb(t);
  const some = await web.crawl({ url: site.url('/'), maxPages: 10 });
  assert.equal(some.result.pages, 10);
  assert.equal(some.result.stopReason, 'limit');
  const all = await web.crawl({ url: site.url('/'), maxPages: 1000 });
  assert.equal(all.result.pages, 21);
  assert.equal(all.result.stopReason, 'exhausted');
  const map = await web.call<{ total: number }>('map_site', { url: site.url('/') });
  assert.equal(map.total, 61, 'a map follows a sitemap that has moved too');
});

test('counts are correct after failed pages were fetched again', async (t) => {
  const site = await startSite(t);
  let broken = true;
  site.on('/', page('root', '/a', '/b'));
  site.on('/a', (request, response) =>
    (broken ? html('', 404) : html(page('a', '/c')))(request, response),
  );
  site.on('/b', html('', 404));
  site.on('/c', page('c'));
  const web = await createWeb(t);
  const first = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  assert.deepEqual(first.result.reasons, { 'errored:http404': 2 });
  broken = false;
  await web.call('control_crawl', { id: first.id, action: 'retryFailed' });
  await web.call('wait_for_jobs', { ids: [first.id] });
  const { outcomes, reasons } = (await web.jobs.get(first.id)).result as typeof first.result;
  assert.deepEqual(outcomes, { fetched: 3, errored: 1 });
  assert.deepEqual(reasons, { 'errored:http404': 1 });
});

test('a page counts as removed when the site reports it, not when no link leads to it', async (t) => {
  const site = await startSite(t);
  let now = 1;
  site.on('/', (request, response) =>
    html(page(`root ${now}`, ...(now === 1 ? ['/a', '/b', '/hub', '/gone'] : ['/a', '/b', '/hub'])))(request, response)); // prettier-ignore
  site.on('/a', (request, response) =>
    tagged(page(`a ${now}`, ...(now === 1 ? ['/x'] : [])), `"a${now}"`)(request, response),
  );
  site.on('/b', tagged(page('b', '/x'), '"b"'));
  site.on('/x', tagged(page('x'), '"x"'));
  site.on('/hub', (request, response) =>
    (now === 1 ? html(page('hub', '/leaf')) : html('', 500))(request, response),
  );
  site.on('/leaf', page('leaf'));
  site.on('/gone', (request, response) =>
    (now === 1 ? html(page('gone')) : html('', 404))(request, response),
  );
  const web = await createWeb(t);
  const options = { url: site.url('/'), sitemap: 'skip' };
  const first = await web.crawl({ ...options, concurrency: 1 });
  assert.equal(first.result.pages, 7);
  now = 2;
  const second = await web.crawl({ ...options, compareWith: first.id });
  const outcomes = await outcomesOf(web, second.id);
  assert.equal(outcomes['/x'], 'unchanged:notModified', '/b has not changed, and links to it');
  assert.equal(outcomes['/leaf'], 'fetched', 'only the way to it is broken');
  assert.equal(outcomes['/hub'], 'errored:http500');
  assert.equal(outcomes['/gone'], 'errored:http404');
  assert.deepEqual(second.result.changes, { changed: 2, same: 3, removed: 1 });
  const narrow = await web.crawl({ ...options, compareWith: first.id, include: ['/a$'] });
  assert.deepEqual(Object.keys(await outcomesOf(web, narrow.id)).toSorted(), ['/', '/a', '/b', '/hub']); // prettier-ignore
  assert.equal(narrow.result.changes!.removed, undefined, 'what is left out is not gone');
});

test('a requested URL is kept even if its page has a noindex directive or another canonical URL', async (t) => {
  const site = await startSite(t);
  const paths = ['/copy/1', '/copy/2', '/same/1', '/same/2'];
  const web = await createWeb(t);
  const end = await web.crawl({ urls: paths.map((path) => site.url(path)), maxDepth: 0 });
  assert.deepEqual(
    await outcomesOf(web, end.id),
    Object.fromEntries(paths.map((path) => [path, 'fetched'])),
  );
});

test('a robots.txt that is unavailable for a moment loses no page', async (t) => {
  const site = await startSite(t, { pages: 5 });
  let asked = 0;
  site.on('/robots.txt', (request, response) =>
    html('', asked++ === 0 ? 503 : 404)(request, response),
  );
  const web = await createWeb(t, { settings: { backoffMs: 700 } });
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  assert.equal(end.status, 'completed', JSON.stringify(end));
  assert.equal(end.result.pages, 5);
});

test('a crawl that reached its time limit continues when it is reopened', async (t) => {
  const site = await startSite(t, { pages: 3 });
  const held: (() => void)[] = [];
  let open = false;
  site.on('/p/2', (request, response) => {
    const answer = () => html(page('two'))(request, response);
    if (open) answer();
    else held.push(answer);
  });
  const web = await createWeb(t);
  const first = await web.crawl({ url: site.url('/'), sitemap: 'skip', maxTimeMs: 4000 });
  assert.equal(first.result.stopReason, 'time');
  assert.equal(first.result.pages, 2);
  open = true;
  await web.call('control_crawl', { id: first.id, action: 'retryFailed' });
  await web.call('wait_for_jobs', { ids: [first.id] });
  const { result } = await web.jobs.get(first.id);
  assert.equal((result as typeof first.result).pages, 3);
});

test('links of duplicate pages are followed, and traps made of duplicates end', async (t) => {
  const site = await startSite(t);
  // A shop window: the words are the same on every page, the pictures lead elsewhere.
  const shelf = (...links: string[]) =>
    `${page('shelf')}<nav>${links.map((to) => `<a href="${to}"><img src="/i.png" alt=""></a>`).join('')}</nav>`;
  const shelves = 5;
  for (let n = 1; n <= shelves; n++) {
    const items = [0, 1, 2].map((i) => `/item/${n}-${i}`);
    site.on(`shop.test /shelf/${n}`, shelf(...items, ...(n < shelves ? [`/shelf/${n + 1}`] : [])));
  }
  site.on('/item/*', (request, response) => html(page(request.url))(request, response));
  const web = await createWeb(t);
  const options = { sitemap: 'skip', maxPages: 1000 };
  const shop = await web.crawl({ url: site.url('/shelf/1', 'shop.test'), ...options });
  assert.deepEqual(shop.result.outcomes, { fetched: 1 + 3 * shelves, duplicate: shelves - 1 });
  // Found on such a page first, and on one of its own afterwards: an address like any other.
  site.on('late.test /', shelf('/a', '/b'));
  site.on('late.test /a', shelf('/x'));
  site.on('late.test /b', page('b', '/x'));
  site.on('late.test /x', page('x'));
  const late = { url: site.url('/', 'late.test'), ...options, concurrency: 1, maxDepth: 2 };
  assert.equal((await outcomesOf(web, (await web.crawl(late)).id))['/x'], 'fetched');
  // Session ids that nobody knows as such, with and without a canonical link; days without end and without text.
  let id = 0;
  const links = () => [1, 2, 3].map((n) => `/s${n}?visit=${id++}`);
  for (const n of [1, 2, 3]) {
    const own = page(`s${n}`);
    site.on(`plain.test /s${n}`, (request, response) => html(`${own}${shelf(...links())}`)(request, response)); // prettier-ignore
    site.on(`named.test /s${n}`, (request, response) =>
      html(`<head><link rel="canonical" href="/s${n}"></head>${own}${shelf(...links())}`)(request, response)); // prettier-ignore
  }
  site.on('/day/*', (request, response) =>
    html(shelf(`/day/${Number(request.url.split('/')[2]) + 1}`))(request, response),
  );
  for (const [url, pages] of [
    [site.url('/s1', 'plain.test'), 3],
    [site.url('/s1', 'named.test'), 3],
    [site.url('/day/1'), 1],
  ] as const) {
    const trap = await web.crawl({ url, ...options });
    assert.equal(trap.result.stopReason, 'exhausted', url);
    assert.equal(trap.result.pages, pages, url);
    assert.ok(trap.result.outcomes.duplicate! < 200, JSON.stringify(trap.result));
  }
});

test("the caller's headers are sent only to the hosts of the start URLs", async (t) => {
  const site = await startSite(t);
  const at = (host: string, path: string) => site.url(path, host);
  site.on('start.test /', html('', 302, { location: at('elsewhere.test', '/') }));
  site.on('start.test /own', page('own', at('sub.start.test', '/'), at('www.start.test', '/')));
  site.on('www.start.test /', page('www'));
  site.on('sub.start.test /', page('sub'));
  site.on('elsewhere.test /', page('elsewhere', at('other.test', '/')));
  site.on('elsewhere.test /sitemap.xml', `<urlset><url><loc>${at('elsewhere.test', '/')}</loc></url></urlset>`); // prettier-ignore
  site.on('other.test /', page('other'));
  const web = await createWeb(t);
  const urls = [at('start.test', '/'), at('start.test', '/own')];
  const end = await web.crawl({ urls, headers: { 'X-Secret': 'mine' }, subdomains: true, externalLinks: true }); // prettier-ignore
  assert.equal(end.result.pages, 5);
  const reported = site.hits.filter(({ headers }) => headers['x-secret'] === 'mine');
  assert.deepEqual([...new Set(reported.map(({ host }) => host))].toSorted(), ['start.test', 'www.start.test']); // prettier-ignore
  assert.ok(reported.some(({ path }) => path === '/sitemap.xml'));
});

test('the sitemap of a redirected start URL is read', async (t) => {
  const site = await startSite(t);
  const moved = (path: string) => html('', 301, { location: site.url(path, 'www.moved.test') });
  for (const path of ['/', '/robots.txt', '/sitemap.xml'])
    site.on(`moved.test ${path}`, moved(path));
  const list = `<urlset><url><loc>${site.url('/listed', 'www.moved.test')}</loc></url></urlset>`;
  site.on('www.moved.test /sitemap.xml', list);
  site.on('www.moved.test /', page('root', '/linked'));
  site.on('www.moved.test /listed', page('listed'));
  const web = await createWeb(t);
  const end = await web.crawl({ url: site.url('/', 'moved.test') });
  assert.equal((await outcomesOf(web, end.id))['/listed'], 'fetched');
  const map = await web.call<{ urls: { url: string; source: string }[] }>('map_site', {
    url: site.url('/', 'moved.test'),
  });
  assert.deepEqual(
    map.urls.map(({ url, source }) => [new URL(url).pathname, source]),
    [
      ['/', 'start'],
      ['/listed', 'sitemap'],
      ['/linked', 'link'],
    ],
  );
});

test('a host with and without www is one site', async (t) => {
  const site = await startSite(t);
  const plain = (path: string) => site.url(path, 'one.test');
  site.on('www.one.test /docs/', page('docs', plain('/docs/a'), plain('/blog'), '/docs/b', site.url('/x', 'sub.one.test'))); // prettier-ignore
  site.on('one.test /docs/a', html('', 301, { location: site.url('/docs/a', 'www.one.test') }));
  site.on('www.one.test /docs/a', page('a'));
  site.on('www.one.test /docs/b', page('b'));
  const web = await createWeb(t);
  const end = await web.crawl({
    url: site.url('/docs/', 'www.one.test'),
    sitemap: 'skip',
    scope: 'path',
  });
  assert.deepEqual(end.result.outcomes, { fetched: 3, redirected: 1, skipped: 2 });
  assert.deepEqual(end.result.reasons, { 'skipped:outsidePath': 1, 'skipped:external': 1 });
});

test('a meta refresh is a redirect; one to itself is a page, and an endless chain ends', async (t) => {
  const site = await startSite(t);
  const refresh = (to: string) => `<head><meta http-equiv="refresh" content="0;url=${to}"></head>`;
  site.on('/', page('root', '/plain', '/hop/0'));
  site.on('/plain', `${refresh('?nojs=1')}${page('plain')}`);
  site.on('/hop/*', (request, response) =>
    html(refresh(`/hop/${Number(request.url.split('/')[2]) + 1}`))(request, response),
  );
  const web = await createWeb(t, { settings: { maxRedirects: 3 } });
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip', query: 'strip' });
  const outcomes = await outcomesOf(web, end.id);
  assert.equal(outcomes['/plain'], 'fetched');
  assert.equal(outcomes['/hop/3'], 'errored:tooManyRedirects');
  assert.equal(outcomes['/hop/4'], undefined);
});

/** The first requests are answered when all of them are there. */
function together(n: number): (handler: Handler) => Handler {
  const waiting: (() => void)[] = [];
  let open = false;
  return (handler) => (request, response) => {
    if (open) return handler(request, response);
    waiting.push(() => handler(request, response));
    open = waiting.length === n;
    if (open) for (const answer of waiting) answer();
  };
}

function redirectsTo(site: Site, path: string, query: string): void {
  site.on(path, (request, response) => {
    if (request.url.includes(query)) html(page(path))(request, response);
    else response.writeHead(302, { location: `${path}?${query}` }).end();
  });
}

const tagged =
  (body: string, etag: string): Handler =>
  (request, response) => {
    if (request.headers['if-none-match'] === etag) response.writeHead(304).end();
    else html(body, 200, { etag })(request, response);
  };
