// kill -9 of the server at random moments of a crawl, on both stores: no page lost, none counted twice, the limit exact.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../../../../src/app.ts';
import { urlOutcomes } from '../../../../src/kinds/web/store/rows.ts';
import { html, startSite, type Site } from '../../../fixtures/site/site.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { migratedDatabase } from '../../../helpers/postgres.ts';
import { startServer, type TestServer } from '../../../helpers/server.ts';
import { until } from '../../../helpers/until.ts';

interface View {
  status: string;
  result?: { pages: number; outcomes: Record<string, number>; stopReason: string };
}
interface Row {
  url: string;
  outcome: string;
}

const deep = process.env.ERRAND_TEST_DEEP === '1';
const kills = deep ? 15 : 2;
const pages = deep ? 1500 : 300;
const maxUnderWay = 8;
/** A busy machine may take this long. */
const slowMs = 120_000;

for (const engine of ['sqlite', 'postgres']) {
  test(`${engine}: a crawl killed at random moments ends with the same result`, async (t) => {
    const site = await startSite(t, { pages, links: 6 });
    for (const n of [11, 77]) site.on(`/p/${n}`, html('', 404));
    const open = await servers(t, engine);
    if (engine === 'sqlite' || deep) {
      const all = await crawl(site, open, { maxPages: 10_000 });
      // «/» and «/p/0» have one text; two pages are gone.
      assert.equal(all.result!.pages, pages - 2);
      assert.equal(all.result!.stopReason, 'exhausted');
    }
    if (engine === 'postgres' || deep) {
      const part = await crawl(site, open, { maxPages: Math.floor(pages / 2) });
      assert.equal(part.result!.pages, Math.floor(pages / 2), 'exactly as many as wanted');
      assert.equal(part.result!.stopReason, 'limit');
    }
  });
}

async function servers(t: TestContext, engine: string): Promise<() => Promise<TestServer>> {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify({ egress: { allow: ['127.0.0.1'] } }));
  const env: Record<string, string> =
    engine === 'postgres' ? { ERRAND_STORE: await migratedDatabase(allMigrations()) } : {};
  let server: TestServer | undefined;
  return async () => {
    await server?.kill();
    return (server = await startServer(t, { home, env }));
  };
}

/** Starts a crawl, kills its server now and then, and checks that rows, counts and requests agree at the end. */
async function crawl(
  site: Site,
  open: () => Promise<TestServer>,
  limit: { maxPages: number },
): Promise<View> {
  site.hits.length = 0;
  let server = await open();
  const options = { url: site.url('/'), sitemap: 'skip', concurrency: maxUnderWay, formats: ['links', 'metadata'], ...limit }; // prettier-ignore
  const { id } = (await server.api('POST', '/api/web/crawls', options)).json<{
    id: string;
  }>();
  const goal = Math.min(pages, limit.maxPages);
  for (let i = 0; i < kills; i++) {
    const moment = site.hits.length + Math.random() * (goal / (kills + 1));
    await until('it has gone on', () => site.hits.length > Math.min(moment, goal * 0.9), slowMs);
    server = await open();
  }
  const view = await until(
    'it is over',
    async () => {
      const job = (await server.api('GET', `/api/jobs/${id}`)).json<View>();
      return job.status === 'completed' ? job : undefined;
    },
    slowMs,
  );
  const rows = await rowsOf(server, id);
  assert.equal(new Set(rows.map(({ url }) => url)).size, rows.length, 'one row per address');
  for (const [outcome, n] of Object.entries(view.result!.outcomes))
    assert.equal(
      rows.filter((row) => row.outcome === outcome).length,
      n,
      `${outcome} counted right`,
    );
  const asked = site.hits.filter(({ path }) => path.startsWith('/p/')).length;
  const again = (kills + 1) * (maxUnderWay + 100);
  assert.ok(asked <= goal * 1.1 + again, `${asked} requests for ${goal} pages`);
  return view;
}

async function rowsOf(server: TestServer, id: string): Promise<Row[]> {
  const found: Row[] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const query = new URLSearchParams({ limit: '500', maxBytes: '1000000' });
    for (const outcome of urlOutcomes) query.append('outcomes', outcome);
    if (cursor !== '') query.set('cursor', cursor);
    const page: { pages: Row[]; nextCursor?: string } = (
      await server.api('GET', `/api/web/crawls/${id}/pages?${query.toString()}`)
    ).json();
    found.push(...page.pages);
    cursor = page.nextCursor;
  }
  return found;
}
