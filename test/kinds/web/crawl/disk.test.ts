// A full disk during a crawl: the crawl pauses, resumes when there is space, and requests no page twice. Tested on a separate disk
// if mounting is possible, and always with a database of limited size.
import assert from 'node:assert/strict';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isFinal } from '../../../../src/jobs/job.ts';
import { jobMigrations } from '../../../../src/jobs/migrations.ts';
import { webhookMigrations } from '../../../../src/webhooks/rows.ts';
import { webPlugin } from '../../../../src/kinds/web/index.ts';
import { SqliteStore } from '../../../../src/store/sqlite/sqlite.ts';
import { startSite } from '../../../fixtures/site/site.ts';
import { smallDisk } from '../../../helpers/disk.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';
import { createWeb } from '../../../helpers/web.ts';

const pages = 60;

test('a full disk loses no fetched page', async (t) => {
  const root = smallDisk(t, '24m');
  if (root === undefined) return;
  const ballast = join(root, 'ballast');
  writeFileSync(ballast, Buffer.alloc(20 * 2 ** 20));
  const isFull = () => {
    const { bavail, bsize } = statfsSync(root);
    return bavail * bsize < 200_000;
  };
  await crawlOn(t, await openStore(t, root), {
    isFull,
    makeRoom: () => rmSync(ballast),
  });
});

test('a crawl pauses and resumes when SQLite reaches max_page_count', async (t) => {
  const store = await openStore(t, tempFolder(t));
  const limit = (count: number) => store.commit([{ sql: `PRAGMA max_page_count = ${count}` }]);
  const size = async () =>
    (await store.read<{ page_count: number }>('PRAGMA page_count'))[0]!.page_count;
  const most = (await size()) + 500;
  await limit(most);
  await crawlOn(t, store, {
    // Several pages are written in one transaction, so the disk may be full long before the last page.
    isFull: async () => (await size()) > most - 250,
    makeRoom: () => limit(1_000_000),
  });
});

async function openStore(t: TestContext, root: string): Promise<SqliteStore> {
  const store = new SqliteStore(join(root, 'errand.sqlite'));
  t.after(() => store.close());
  await store.migrate([...jobMigrations, ...webhookMigrations, ...(webPlugin.migrations ?? [])]);
  return store;
}

interface Disk {
  isFull(): boolean | Promise<boolean>;
  makeRoom(): unknown;
}

async function crawlOn(t: TestContext, store: SqliteStore, disk: Disk): Promise<void> {
  const site = await startSite(t, { pages, bytes: 60_000, links: 12 });
  const web = await createWeb(t, { store });
  const { id } = await web.call<{ id: string }>('crawl_site', {
    url: site.url('/'), sitemap: 'skip', formats: ['markdown', 'html', 'raw'], concurrency: 4,
  }); // prettier-ignore
  await until('the disk is full', () => disk.isFull());
  await until('it stands still', async () => {
    const before = site.hits.length;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return site.hits.length === before;
  });
  assert.equal((await web.jobs.get(id)).status, 'running', 'it waits for room');
  await disk.makeRoom();
  const job = await until(
    'it is over',
    async () => {
      const present = await web.jobs.get(id);
      return isFinal(present.status) ? present : undefined;
    },
    120_000,
  );
  assert.equal(job.status, 'completed', JSON.stringify(job.error));
  assert.equal((job.result as { pages: number }).pages, pages);
  const asked = site.hits.filter(({ path }) => path.startsWith('/p/')).map(({ path }) => path);
  assert.equal(asked.length, new Set(asked).size, 'no page is asked for twice');
}
