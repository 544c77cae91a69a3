// The life of a crawl: cancelled, paused, retried, compared with an earlier one, stopped by its budgets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BudgetReserve } from '../../../../src/kinds/web/billing/budget-reserve.ts';
import { Limits } from '../../../../src/kinds/web/crawl/limits.ts';
import { crawlOptions } from '../../../../src/kinds/web/crawl/options.ts';
import type { CrawlRow } from '../../../../src/kinds/web/store/rows.ts';
import { systemClock, type Clock } from '../../../../src/runtime/clock.ts';
import { html, startSite, type Handler, type Site } from '../../../fixtures/site/site.ts';
import { generatedPage, page, paragraphs } from '../../../fixtures/site/pages.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb, outcomesOf } from '../../../helpers/web.ts';

test('cancel keeps fetched pages, and a retry fetches the rest', async (t) => {
  const site = await startSite(t, { pages: 200 });
  const gate = gated(site, '/p/7');
  const web = await createWeb(t);
  const { id } = await web.call<{ id: string }>('crawl_site', {
    url: site.url('/'), maxPages: 1000, sitemap: 'skip', concurrency: 3, delayMs: 5,
  }); // prettier-ignore
  await until('some pages are there', async () => (await pagesOf(web, id)) > 5);
  const cancelled = await web.call('cancel_job', { id });
  assert.equal(cancelled.status, 'cancelled');
  const { pages, stopReason } = cancelled.result as { pages: number; stopReason: string };
  assert.equal(stopReason, 'cancelled');
  assert.ok(pages > 5 && pages < 200);
  assert.equal((cancelled.progress as { done: number }).done, pages);
  gate.open();
  await web.call('retry_job', { id });
  await until('it is over', async () => (await web.jobs.get(id)).status === 'completed');
  const asked = site.hits.filter(({ path }) => path.startsWith('/p/')).map(({ path }) => path);
  assert.equal(await pagesOf(web, id), 200);
  assert.ok(asked.length - new Set(asked).size <= 3, 'only what was under way is asked for twice');
});

test('a paused crawl fetches nothing and continues after resume', async (t) => {
  const site = await startSite(t, { pages: 80 });
  const web = await createWeb(t);
  const { id } = await web.call<{ id: string }>('crawl_site', {
    url: site.url('/'), maxPages: 1000, sitemap: 'skip', delayMs: 10,
  }); // prettier-ignore
  await until('it has begun', async () => (await pagesOf(web, id)) > 3);
  await web.call('control_crawl', { id, action: 'pause' });
  await until('it is paused', async () => (await web.call('get_job', { id })).stage === 'paused');
  const still = site.hits.length;
  const held = await web.call<{ paused: boolean; progress: { done: number } }>('get_job', { id });
  assert.equal(held.paused, true);
  assert.equal(held.progress.done, await pagesOf(web, id));
  await web.call('control_crawl', { id, action: 'resume' });
  await until('it is over', async () => (await web.jobs.get(id)).status === 'completed');
  assert.ok(site.hits.length > still);
  assert.equal(await pagesOf(web, id), 80);
});

test('retryFailed fetches the failed pages only', async (t) => {
  const site = await startSite(t, { pages: 20 });
  for (const n of [3, 4]) site.on(`/p/${n}`, html('', 500));
  const web = await createWeb(t, { settings: { maxTries: 1 } });
  const first = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  assert.deepEqual([first.result.pages, first.result.outcomes.errored], [18, 2]);
  site.routes.delete('/p/3');
  site.routes.delete('/p/4');
  site.hits.length = 0;
  await web.call('control_crawl', { id: first.id, action: 'retryFailed' });
  await until('it is over', async () => {
    const job = await web.jobs.get(first.id);
    return job.status === 'completed' && job.attempt === 2;
  });
  assert.equal(
    (await web.jobs.get(first.id)).cost,
    20,
    'a credit for each page, not for each attempt',
  );
  assert.deepEqual(site.hits.map(({ path }) => path).toSorted(), ['/p/3', '/p/4']);
  for (const n of [3, 4]) site.on(`/p/${n}`, html('', 404));
  const full = await web.crawl({ url: site.url('/'), sitemap: 'skip', maxPages: 18 });
  assert.deepEqual([full.result.stopReason, full.result.outcomes.errored], ['limit', 2]);
  await assert.rejects(
    web.call('control_crawl', { id: full.id, action: 'retryFailed' }),
    /maxPages/,
  );
  assert.equal((await web.jobs.get(full.id)).status, 'completed', 'nothing of it has changed');
  assert.equal(await pagesOf(web, first.id), 20);
});

test('a crawl of a lost node does not request failed pages again', async (t) => {
  const site = await startSite(t, { pages: 20 });
  for (const n of [3, 4]) site.on(`/p/${n}`, html('', 404));
  const gate = gated(site, '/p/15');
  const first = await createWeb(t);
  const { id } = await first.call<{ id: string }>('crawl_site', {
    url: site.url('/'), sitemap: 'skip',
  }); // prettier-ignore
  await until('the rest waits', async () => (await pagesOf(first, id)) === 17);
  await first.stop();
  const { attemptId } = await first.jobs.get(id);
  await first.jobs.applyFact(id, { type: 'lost', attemptId, random: 0 });
  await first.store.promote(Date.now() + 1000);
  gate.open();
  const web = await createWeb(t, { store: first.store });
  await until('it is over', async () => (await web.jobs.get(id)).status === 'completed');
  assert.equal((await web.jobs.get(id)).attempt, 2);
  assert.equal(await pagesOf(web, id), 18);
  for (const n of [3, 4]) assert.equal(site.count(`/p/${n}`), 1);
});

test('change tracking: new, same by 304, changed with a diff, removed', async (t) => {
  const site = await startSite(t);
  const shape = { pages: 4, links: 3, bytes: 600 };
  const tagged = (n: number, body: string) => {
    site.on(n === 0 ? '/' : `/p/${n}`, (request, response) => {
      const etag = `"${Buffer.from(body).length}-${body.includes('news') ? 1 : 0}"`;
      if (request.headers['if-none-match'] === etag) response.writeHead(304).end();
      else response.writeHead(200, { 'content-type': 'text/html', etag }).end(body);
    });
  };
  for (const n of [0, 1, 2, 3]) tagged(n, page(n, shape));
  site.on('/p/0', html('', 301, { location: '/' }));
  const web = await createWeb(t);
  const first = await web.crawl({ url: site.url('/'), sitemap: 'skip' });
  assert.equal(first.result.pages, 4);
  tagged(
    2,
    page(2, shape).replace('<p>Number 2 part 1', '<p>Here is news for you.</p><p>Number 2 part 1'),
  );
  site.on('/p/3', html('', 404));
  site.on('/p/9', page(9, shape));
  tagged(
    1,
    page(1, shape)
      .replace('</nav>', '<a href="/p/9">nine</a></nav>')
      .replace('Number 1 part 0', 'Number 1, news'),
  );
  const again = await web.crawl({ url: site.url('/'), sitemap: 'skip', compareWith: first.id });
  assert.deepEqual(again.result.changes, { same: 1, changed: 2, new: 1, removed: 1 });
  assert.equal(again.result.outcomes.unchanged, 1);
  const { pages } = await web.call<{ pages: { url: string; diff: string }[] }>('read_pages', {
    id: again.id, change: 'changed', fields: ['diff'],
  }); // prettier-ignore
  assert.match(pages.find(({ url }) => url.endsWith('/p/2'))!.diff, /^\+Here is news for you\.$/m);
  const same = await web.call<{ pages: { markdown: string }[] }>('read_pages', {
    id: again.id, change: 'same', fields: ['markdown'],
  }); // prettier-ignore
  assert.match(
    same.pages[0]!.markdown,
    /Number 0 part 0/,
    'the body of an unchanged page is there too',
  );
  await assert.rejects(
    web.crawl({ url: site.url('/'), compareWith: 'job_none' }),
    /does not exist/,
  );
});

test('an unchanged page is fetched again when it was stored with other options', async (t) => {
  const site = await startSite(t);
  const tagged =
    (body: string): Handler =>
    (request, response) => {
      if (request.headers['if-none-match'] === '"1"') response.writeHead(304).end();
      else html(body, 200, { etag: '"1"' })(request, response);
    };
  const part = (name: string) => `<p id="${name}">${`${name} of the page, `.repeat(20)}</p>`;
  site.on('/', tagged(`<title>Start</title><main>${part('first')}${part('second')}</main><a href="/next">next</a>`)); // prettier-ignore
  site.on('/next', tagged(`<title>Next</title><main>${part('third')}</main>`));
  site.on('/sitemap.xml', `<urlset><url><loc>${site.url('/')}</loc></url></urlset>`);
  const web = await createWeb(t);
  const start = { url: site.url('/'), sitemap: 'skip' };
  const first = await web.crawl(start);
  const again = async (options: object, compareWith = first.id) => {
    const end = await web.crawl({ ...start, ...options, compareWith });
    const { pages } = await web.call<{ pages: { markdown: string; data?: { data: unknown } }[] }>('read_pages', { id: end.id, fields: ['markdown', 'data'] }); // prettier-ignore
    return { pages, unchanged: end.result.outcomes.unchanged ?? 0 };
  };
  assert.equal((await again({})).unchanged, 2);
  const withData = await again({ schema: { type: 'object', properties: { title: { type: 'string' } } } }); // prettier-ignore
  assert.deepEqual(withData.pages.map(({ data }) => data?.data), [{ title: 'Start' }, { title: 'Next' }]); // prettier-ignore
  const cut = await again({ includeSelectors: ['#second'] });
  assert.doesNotMatch(cut.pages[0]!.markdown, /first/);
  assert.equal((await again({ formats: ['markdown', 'html'] })).unchanged, 0);
  assert.equal((await again({ render: 'auto' })).unchanged, 0, 'scripts may bring something else');
  const listed = await web.crawl({ ...start, sitemap: 'only' });
  assert.equal((await again({}, listed.id)).pages.length, 2, 'of which no links are known');
});

test('a budget stops a crawl with its reason, or rejects it before it starts', async (t) => {
  const site = await startSite(t, { pages: 100 });
  const web = await createWeb(t, { settings: { budget: { creditsPerDay: 12 } } });
  const options = { url: site.url('/'), maxPages: 1000, sitemap: 'skip' };
  assert.equal((await web.crawl({ ...options, maxCredits: 4 })).result.stopReason, 'credits');
  const bytes = await web.crawl({ ...options, maxBytes: 5000, concurrency: 1 });
  assert.equal(bytes.result.stopReason, 'bytes');
  const end = await web.crawl(options);
  assert.equal(end.result.stopReason, 'budget', 'stopped in the middle, however fast it is');
  assert.ok(end.result.pages > 0);
  await assert.rejects(web.crawl(options), { code: 'budgetExhausted' });
  const usage = await web.call<{ creditsUsed: number; budgets: { remaining: number }[] }>(
    'web_usage',
    {},
  );
  assert.equal(usage.creditsUsed, 12, 'not one more');
  assert.equal(usage.budgets[0]!.remaining, 0);
});

test('maxBytes is never exceeded with any number of concurrent requests, and no URL is lost', async (t) => {
  const site = await startSite(t, { pages: 40, bytes: 30_000 });
  const body = (path: string) => Buffer.byteLength(generatedPage(path, site.options));
  site.on('/big', html(`<h1>Big</h1>${paragraphs(1, 900_000)}`));
  const web = await createWeb(t);
  for (const maxBytes of [100_000, 1_000_000]) {
    site.hits.length = 0;
    const end = await web.crawl({ url: site.url('/'), maxPages: 1000, sitemap: 'skip', maxBytes, concurrency: 20 }); // prettier-ignore
    const { result } = end;
    assert.equal(result.stopReason, 'bytes');
    assert.ok(result.bytes <= maxBytes && result.bytes > maxBytes - body('/p/1') - 5000, `${result.bytes} of ${maxBytes}`); // prettier-ignore
    const rows = await web.call<{ pages: { bytes: number }[] }>('read_pages', { id: end.id, limit: 500, outcomes: ['fetched', 'duplicate'] }); // prettier-ignore
    const bytes = rows.pages.map((row) => row.bytes).reduce((sum, n) => sum + n, 0);
    assert.equal(bytes, result.bytes);
    const { fetched = 0, duplicate = 0, queued = 0, ...others } = result.outcomes;
    assert.deepEqual(others, {});
    assert.equal(fetched + duplicate, rows.pages.length);
    assert.ok(queued > 0);
    const asked = site.hits.filter(({ path }) => path !== '/robots.txt');
    assert.ok(asked.length <= rows.pages.length + 1, 'hardly more was asked for than kept');
  }
  // What is longer than its share is asked for again with a larger one; what is longer than the rest waits.
  site.on('/mixed', `<h1>Mixed</h1>${['/p/1', '/big', '/p/2', '/p/3', '/p/4', '/p/5'].map((path) => `<a href="${path}">${path}</a>`).join(' ')}`); // prettier-ignore
  const options = { url: site.url('/mixed'), maxDepth: 1, sitemap: 'skip', concurrency: 3 };
  const enough = await web.crawl({ ...options, maxBytes: 2_000_000 });
  assert.deepEqual([enough.result.stopReason, enough.result.pages], ['exhausted', 7]);
  const few = await web.crawl({ ...options, maxBytes: 600_000 });
  assert.equal(few.result.stopReason, 'bytes');
  assert.equal((await outcomesOf(web, few.id))['/big'], 'queued');
});

test('a page that may cost two credits is not started with one credit left', async () => {
  const budgetReserve = new BudgetReserve(systemClock, async () => 7);
  await budgetReserve.refresh(0);
  const row = (credits: number) => ({ bytes: 0, activeMs: 0, credits }) as CrawlRow;
  const url = 'https://a.test/';
  for (const options of [{ render: 'always' }, { render: 'auto' }, { formats: ['screenshot'] }]) {
    const limits = new Limits(
      crawlOptions.parse({ url, maxCredits: 5, ...options }),
      budgetReserve,
    );
    assert.ok(limits.hasRoom(0, 0, 1), 'two concurrent requests');
    assert.ok(!limits.hasRoom(0, 0, 2), 'a third might cost the sixth credit');
    assert.equal(limits.reached(1, row(3)), undefined);
    assert.equal(limits.reached(2, row(4)), 'credits');
  }
  const owned = new Limits(crawlOptions.parse({ url, render: 'always' }), budgetReserve);
  assert.equal(owned.reached(3, row(6)), 'budget');
  const plain = new Limits(crawlOptions.parse({ url, maxCredits: 5 }), budgetReserve);
  assert.ok(plain.hasRoom(4, 4, 0));
  assert.equal(plain.reached(5, row(5)), 'credits');
});

test('an idle crawl renews its credit reservation', async () => {
  let now = 1000;
  let free = 150;
  const asked: boolean[] = [];
  const clock: Clock = Object.create(systemClock, { now: { value: () => now } });
  const budgetReserve = new BudgetReserve(clock, async (credits, renew) => {
    asked.push(renew);
    return Math.min(credits, free);
  });
  await budgetReserve.refresh(0);
  await budgetReserve.refresh(10);
  assert.deepEqual(
    [budgetReserve.left(10), asked.length],
    [140, 1],
    'what it has is enough for now',
  );
  now += 400_000;
  free = 5;
  await budgetReserve.refresh(10);
  assert.deepEqual(
    [budgetReserve.left(10), asked.at(-1)],
    [5, true],
    'others spent the rest meanwhile',
  );
  assert.ok(budgetReserve.isExhausted(15, 1) && !budgetReserve.isExhausted(14, 1));
});

function gated(site: Site, path: string): { open(): void } {
  const waiting: (() => void)[] = [];
  let open = false;
  const real = page(Number(path.split('/')[2]), site.options);
  site.on(path, (request, response) => {
    if (open) html(real)(request, response);
    else waiting.push(() => response.destroy());
  });
  return {
    open: () => {
      open = true;
      for (const end of waiting) end();
    },
  };
}

async function pagesOf(web: Awaited<ReturnType<typeof createWeb>>, id: string): Promise<number> {
  const outcomes = Object.values(await outcomesOf(web, id));
  return outcomes.filter((outcome) => outcome === 'fetched' || outcome.startsWith('unchanged'))
    .length;
}
