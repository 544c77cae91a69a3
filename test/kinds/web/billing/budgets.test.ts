// Charging: never more than a budget allows, with any number of concurrent jobs; never twice, whatever is killed; and
// the ledger says what the jobs say.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { allMigrations } from '../../../../src/app.ts';
import { isFinal } from '../../../../src/jobs/job.ts';
import { ReservationStore } from '../../../../src/kinds/web/store/reservations.ts';
import { PostgresStore } from '../../../../src/store/postgres/postgres.ts';
import { html, startSite, type Handler, type Site } from '../../../fixtures/site/site.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { migratedDatabase } from '../../../helpers/postgres.ts';
import { startServer } from '../../../helpers/server.ts';
import { stores } from '../../../helpers/stores.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb, type Web } from '../../../helpers/web.ts';

interface Usage {
  creditsUsed: number;
  budgets: { remaining: number }[];
}

const paths = ['/a', '/b', '/c', '/d'];

/** An engine that finds four pages. */
function engine(site: Site): void {
  for (const path of paths)
    site.on(path, html(`<title>${path}</title><p>The lamp of ${path}.</p>`));
  const results = paths.map((path) => ({ title: path, url: site.url(path), content: 'lamp' }));
  site.on('/search', (_request, response) => void response.end(JSON.stringify({ results })));
}

/** What every job says it cost, together. */
async function costs(web: Web): Promise<number> {
  const { jobs } = await web.jobs.ledger.list({}, { limit: 500 });
  return jobs.reduce((sum, { cost }) => sum + (cost ?? 0), 0);
}

for (const factory of stores) {
  test(`${factory.name}: concurrent jobs never spend the same last credit`, async (t) => {
    const site = await startSite(t, { pages: 60 });
    engine(site);
    const budget = { creditsPerDay: 40, creditsPerMonth: 1000 };
    const settings = { budget, search: { searxngUrl: site.url('') } };
    const web = await createWeb(t, { factory, settings });
    const crawl = { url: site.url('/'), maxPages: 50, sitemap: 'skip', concurrency: 5 };
    const ends = await Promise.allSettled([
      web.crawl(crawl),
      web.crawl(crawl),
      ...Array.from({ length: 12 }, () => web.call('read_page', { url: site.url('/p/1') })),
      ...Array.from({ length: 4 }, () => web.call('run_agent', { prompt: 'lamp', maxSources: 4 })),
    ]);
    // On a busy machine a call may return before its job has ended.
    await until('every job has ended', async () => {
      const { jobs } = await web.jobs.ledger.list({}, { limit: 500 });
      return jobs.every(({ status }) => isFinal(status));
    });
    const usage = await web.call<Usage>('web_usage', {});
    assert.ok(usage.creditsUsed <= 40, `${usage.creditsUsed} of 40 credits`);
    assert.equal(await costs(web), usage.creditsUsed, 'the ledger says what the jobs say');
    for (const end of ends) {
      if (end.status === 'rejected') assert.match((end.reason as { code: string }).code, /^(budgetExhausted|nothingFound)$/);
    } // prettier-ignore
    const { remaining } = usage.budgets[0]!;
    for (let n = 0; n < remaining; n++) await web.call('read_page', { url: site.url('/p/1') });
    const { creditsUsed } = await web.call<Usage>('web_usage', {});
    assert.equal(creditsUsed, 40, 'ended jobs keep no reserved credits');
    await assert.rejects(web.call('read_page', { url: site.url('/p/1') }), {
      code: 'budgetExhausted',
    });
    assert.equal((await web.call('web_search', { query: 'x', type: 'crawled' })).status, 'completed', 'what is free is never refused'); // prettier-ignore
  });
}

test('two servers that reserve credits concurrently never exceed the budget', async (t) => {
  const address = await migratedDatabase(allMigrations());
  const nodes = await Promise.all([PostgresStore.open(address), PostgresStore.open(address)]);
  for (const node of nodes) t.after(() => node.close());
  const now = Date.now();
  const spans = [{ limit: 10, from: '2026-01-01' }];
  const taken = await Promise.all(
    Array.from({ length: 40 }, (_, i) => {
      const hold = { jobId: `job_${i}`, owner: 'me', credits: 1 };
      return new ReservationStore(nodes[i % 2]!).reserve(hold, spans, now);
    }),
  );
  assert.equal(taken.filter(Boolean).length, 10);
  assert.equal(await new ReservationStore(nodes[0]).reserved('me', now), 10);
  assert.equal(await new ReservationStore(nodes[0]).reserved('me', now + 3_600_000), 0, 'a server that vanished keeps nothing for ever'); // prettier-ignore
});

test('a cancelled agent keeps what it read and paid for, and a retry continues from there', async (t) => {
  const site = await startSite(t);
  engine(site);
  const gate: Handler = () => {};
  site.on('/b', gate);
  const web = await createWeb(t, { settings: { search: { searxngUrl: site.url('') } } });
  const options = { prompt: 'lamp', maxSources: 4, maxCredits: 5, waitMs: 0 };
  const { id } = await web.call<{ id: string }>('run_agent', options);
  await until('three are read', async () => {
    const { steps } = await web.call<{ steps?: { phase: string }[] }>('get_job', { id });
    return steps?.filter(({ phase }) => phase === 'read').length === 3;
  });
  const ended = await web.call<{ status: string; cost: number; result: Record<string, unknown> }>('cancel_job', { id }); // prettier-ignore
  assert.deepEqual([ended.status, ended.cost, ended.result.stopReason], ['cancelled', 4, 'cancelled']); // prettier-ignore
  assert.equal((ended.result.sources as unknown[]).length, 3);
  assert.deepEqual(ended.result.unread, [site.url('/b')]);
  assert.match(ended.result.context as string, /The lamp of \/a/);
  assert.equal((await web.call<Usage>('web_usage', {})).creditsUsed, 4);

  site.on('/b', html('<title>b</title><p>The lamp of /b.</p>'));
  await web.call('retry_job', { id });
  const again = await until('it is over', async () => {
    const job = await web.jobs.get(id);
    return job.status === 'completed' ? job : undefined;
  });
  assert.equal((again.result as { sources: unknown[] }).sources.length, 4);
  assert.equal(again.cost, 5, 'maxCredits counts all attempts');
  assert.equal((await web.call<Usage>('web_usage', {})).creditsUsed, 5);
  assert.deepEqual([site.count('/a'), site.count('/search?q=lamp&format=json&categories=general')], [1, 1]); // prettier-ignore
});

for (const store of ['sqlite', 'postgres']) {
  test(`${store}: a killed pipeline continues after its last step and pays once`, async (t) => {
    const site = await startSite(t);
    engine(site);
    let answer = (): void => {};
    site.on(
      '/c',
      (_request, response) => void (answer = () => void response.end('<title>c</title>')),
    );
    const home = join(tempFolder(t), 'home');
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const web = { search: { searxngUrl: site.url('') }, budget: { creditsPerDay: 6 } };
    writeFileSync(join(home, 'config.json'), JSON.stringify({ egress: { allow: ['127.0.0.1'] }, web })); // prettier-ignore
    const env: Record<string, string> =
      store === 'postgres' ? { ERRAND_STORE: await migratedDatabase(allMigrations()) } : {};
    const first = await startServer(t, { home, env });
    const options = { query: 'lamp', schema: { title: 'string' }, extractFrom: 4, maxCredits: 5, waitMs: 0 }; // prettier-ignore
    const { id } = (await first.api('POST', '/api/web/pipelines', options)).json<{ id: string }>(); // prettier-ignore
    const job = async (server: typeof first) => (await server.api('GET', `/api/jobs/${id}`)).json<{ status: string; cost: number; steps?: unknown[]; result: { extracted: number; creditsUsed: number; steps: unknown[] } }>(); // prettier-ignore
    await until('all but one are read', async () => (await job(first)).steps?.length === 4);
    await first.kill();
    const second = await startServer(t, { home, env });
    await until('the last one is asked for again', () => site.count('/c') === 2);
    answer();
    const ended = await until('it is over', async () => {
      const view = await job(second);
      return view.status === 'completed' ? view : undefined;
    });
    assert.deepEqual([ended.cost, ended.result.creditsUsed, ended.result.extracted, ended.result.steps.length], [5, 5, 4, 5]); // prettier-ignore
    for (const path of ['/a', '/b', '/d'])
      assert.equal(site.count(path), 1, `${path} is read once`);
    const usage = (await second.api('GET', '/api/web/usage')).json<Usage>();
    assert.deepEqual([usage.creditsUsed, usage.budgets[0]!.remaining], [5, 1]);
  });
}
