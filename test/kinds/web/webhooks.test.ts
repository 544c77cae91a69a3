// Webhooks of web jobs: durable, signed, every page reported exactly once, in the shape the receiver expects.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { generatedPage } from '../../fixtures/site/pages.ts';
import { html, startSite, type Handler, type Hit, type Site } from '../../fixtures/site/site.ts';
import { until } from '../../helpers/until.ts';
import { createWeb } from '../../helpers/web.ts';

type Json = ReturnType<typeof JSON.parse>;

function receiver(site: Site): () => Hit[] {
  site.on('/hook', html('ok'));
  return () => site.hits.filter(({ path }) => path === '/hook');
}

test('each page is reported once, with the commit that stores it, followed by the end', async (t) => {
  const site = await startSite(t, { pages: 40 });
  const heard = receiver(site);
  site.on('/p/5', html('', 404));
  const web = await createWeb(t);
  const webhook = { url: site.url('/hook'), events: ['start', 'page', 'end'], secret: 's3cret', headers: { 'x-mine': 'yes' } }; // prettier-ignore
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip', webhook });
  const kept = await web.store.read<{ body: string }>(
    `SELECT body FROM deliveries WHERE job_id = ? AND event = 'page'`,
    [end.id],
  );
  const urls = kept.flatMap(({ body }) => JSON.parse(body).pages.map(({ url }: Json) => url));
  assert.equal(urls.length, end.result.pages + 1, 'pages and the one that failed');
  assert.equal(new Set(urls).size, urls.length, 'no page is reported twice');
  const last = await until('the end is reported', async () =>
    heard().find(({ headers }) => headers['x-errand-event'] === 'end'),
  );
  assert.equal(JSON.parse(last.body).result.pages, end.result.pages);
  const mac = createHmac('sha256', 's3cret').update(last.body).digest('hex');
  assert.equal(last.headers['x-errand-signature'], `sha256=${mac}`);
  assert.equal(last.headers['x-mine'], 'yes');
  assert.ok(last.headers['webhook-signature'], 'and signed as every webhook here');
  const job = await web.call('get_job', { id: end.id, includeInput: true });
  assert.doesNotMatch(JSON.stringify(job), /s3cret|x-mine/, 'the secret is not part of the job');
  await until('all are delivered', async () => heard().length >= kept.length + 2);
  const messages = heard().map(({ headers }) => headers['webhook-id']);
  assert.equal(new Set(messages).size, messages.length);
});

test('deliveries are repeated after a receiver or the server was down', async (t) => {
  const site = await startSite(t, { pages: 8 });
  let broken = true;
  site.on('/hook', (request, response) => html('', broken ? 503 : 200)(request, response));
  const first = await createWeb(t);
  const webhook = { url: site.url('/hook'), events: ['page', 'end'] };
  const { id } = await first.crawl({ url: site.url('/'), sitemap: 'skip', webhook });
  await until('the end was tried', async () =>
    site.hits.some(({ body }) => body.includes('"end"')),
  );
  await first.stop();
  broken = false;
  const before = site.count('/hook');
  await first.store.commit([
    {
      sql: `UPDATE deliveries SET next_at = 0 WHERE job_id = ? AND status = 'pending'`,
      params: [id],
    },
  ]);
  await createWeb(t, { store: first.store });
  await until('the end is reported later', async () =>
    site.hits.slice(before).some(({ path, body }) => path === '/hook' && body.includes('"end"')),
  );
});

test('a webhook to a private address is refused, and the crawl continues', async (t) => {
  const site = await startSite(t, { pages: 5 });
  const web = await createWeb(t);
  const webhook = { url: 'http://169.254.169.254/hook', events: ['page', 'end'] };
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip', webhook });
  assert.equal(end.result.pages, 5);
  const [row] = await until('it was refused', async () => {
    const rows = await web.store.read<{ answer: string }>(
      'SELECT answer FROM deliveries WHERE job_id = ? AND answer IS NOT NULL',
      [end.id],
    );
    return rows.length > 0 ? rows : undefined;
  });
  assert.match(row!.answer, /egressRefused/);
  await assert.rejects(web.crawl({ url: site.url('/'), webhook: { url: 'ftp://a.test/' } }), {
    code: 'invalidInput',
  });
});

test('webhooks of SearchClaw and Firecrawl have their own formats', async (t) => {
  const site = await startSite(t, { pages: 4 });
  const heard = receiver(site);
  const web = await createWeb(t, {
    settings: { search: { engines: ['local'] } },
  });
  const url = site.url('/hook');
  const options = { url: site.url('/'), sitemap: 'skip' };
  await web.crawl({ ...options, webhook: { url, secret: 'k', format: 'searchclaw' } });
  const claw = await until('the SearchClaw webhook arrives', async () => heard()[0]);
  assert.equal(claw.headers['x-searchclaw-event'], 'job.completed');
  const mac = createHmac('sha256', 'k').update(claw.body).digest('hex');
  assert.equal(claw.headers['x-searchclaw-signature'], `sha256=${mac}`);
  const reported: Json = JSON.parse(claw.body);
  assert.deepEqual([reported.status, reported.progress.pages_crawled], ['completed', 4]);
  assert.match(reported.data[0].markdown, /Number 0/);
  site.hits.length = 0;
  const hook = { url, events: ['start', 'page', 'end'], format: 'firecrawl', metadata: { a: 1 } };
  await web.crawl({ ...options, webhook: hook });
  const bodies = await until('the Firecrawl webhook arrives', async () => {
    const all: Json[] = heard().map(({ body }) => JSON.parse(body));
    return all.length >= 6 ? all : undefined;
  });
  const types = bodies.map(({ type }) => String(type)).toSorted();
  assert.deepEqual(types, [
    'crawl.completed',
    ...Array.from({ length: 4 }, () => 'crawl.page'),
    'crawl.started',
  ]);
  const page: Json = bodies.find(({ type }) => type === 'crawl.page');
  assert.match(page.data[0].markdown, /Number/);
  assert.deepEqual(page.metadata, { a: 1 });
  site.hits.length = 0;
  const request = { prompt: 'page', urls: [site.url('/p/1')], onlyUrls: true, waitMs: 0 };
  await web.call('run_agent', { ...request, webhook: { url, format: 'searchclaw' } });
  const agent = await until('the end of the agent is reported', async () => heard()[0]);
  assert.equal(JSON.parse(agent.body).status, 'completed');
});

test('the cursor in a SearchClaw webhook returns the remaining pages, each once', async (t) => {
  const site = await startSite(t, { pages: 8, bytes: 15_000 });
  const heard = receiver(site);
  // Found first, answered after others: pages are not reported in the order in which they were found.
  let late = () => {};
  const page = (path: string): Handler => html(generatedPage(path, site.options));
  site.on('/p/1', (...asked) => void (late = () => page('/p/1')(...asked)));
  site.on('/p/6', (...asked) => (page('/p/6')(...asked), late()));
  const web = await createWeb(t);
  const webhook = { url: site.url('/hook'), format: 'searchclaw' };
  const end = await web.crawl({ url: site.url('/'), sitemap: 'skip', webhook });
  const reported: Json = JSON.parse(
    (await until('the webhook arrives', async () => heard()[0])).body,
  );
  assert.ok(reported.data.length > 0 && reported.data.length < 8, `${reported.data.length} fit`);
  const rest = await web.call<{ pages: Json[] }>('read_pages', { id: end.id, cursor: reported.next_cursor }); // prettier-ignore
  const urls = [...reported.data, ...rest.pages].map(({ url }: Json) => url);
  assert.deepEqual([urls.length, new Set(urls).size], [8, 8]);
  assert.equal(reported.data[0].status_code, 200);
  assert.ok(reported.meta.duration_ms > 0);
});

test('a webhook for failures receives only failures', async (t) => {
  const site = await startSite(t, { pages: 2 });
  const heard = receiver(site);
  const web = await createWeb(t);
  const webhook = { url: site.url('/hook'), events: ['failed'], format: 'firecrawl' };
  await web.crawl({ url: site.url('/'), sitemap: 'skip', webhook });
  await web.crawl({ url: site.url('/gone'), sitemap: 'skip', webhook });
  const reported = await until('the failure is reported', async () => heard()[0]);
  assert.equal(JSON.parse(reported.body).type, 'crawl.failed');
  assert.equal(heard().length, 1);
});
