// A crawl that was kept before pages had a place of their own (web/3) is read in order afterwards, on every database.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessMigrations } from '../../../src/access/access.ts';
import { jobMigrations } from '../../../src/jobs/migrations.ts';
import { webhookMigrations } from '../../../src/jobs/webhook.ts';
import { webMigrations } from '../../../src/kinds/web/migrations.ts';
import { pageFates } from '../../../src/kinds/web/crawl/rows.ts';
import { WebStore } from '../../../src/kinds/web/store.ts';
import type { Step } from '../../../src/store/store.ts';
import { stores } from '../../helpers/stores.ts';

const before = webMigrations.slice(
  0,
  webMigrations.findIndex(({ id }) => id === 'web/3'),
);
const all = [...jobMigrations, ...accessMigrations, ...webhookMigrations, ...webMigrations];

/** By seq: the rows of an ended crawl, as the version before wrote them. */
const oldRows = ['redirected', 'fetched', 'errored', 'unchanged', 'skipped', 'fetched', 'queued', 'fetched']; // prettier-ignore

for (const factory of stores) {
  test(`${factory.name}: pages of crawls from before web/3 are read in order with a cursor`, async (t) => {
    const store = await factory.open(t, before);
    const web = new WebStore(store);
    const first = await web.open('job_1', 'me', 1000);
    const second = await web.open('job_2', 'me', 2000);
    await store.commit([
      ...oldRows.map((fate, i) => oldRow(first.crawl, i + 1, fate)),
      oldRow(second.crawl, 1, 'errored'),
      oldRow(second.crawl, 2, 'fetched'),
    ]);
    await store.migrate(all);
    assert.deepEqual(await pagesOf(web, first.crawl), [2, 4, 6, 8]);
    assert.deepEqual(await pagesOf(web, second.crawl), [2], 'each crawl counts for itself');
    const [other] = await web.list(first.crawl, { after: 2, limit: 1 });
    assert.deepEqual([other!.seq, other!.fate, other!.nth], [3, 'errored', null], 'no page');
    await assert.rejects(
      store.commit([
        { sql: 'UPDATE web_urls SET nth = 1 WHERE crawl = ? AND seq = 4', params: [first.crawl] },
      ]),
      'a place is given once',
    );
  });
}

/** Two at a time: the cursor is the place of the last one read. */
async function pagesOf(web: WebStore, crawl: number): Promise<number[]> {
  const seen: number[] = [];
  for (let after = 0; ;) {
    const rows = await web.listPages(crawl, { after, limit: 2, fates: [...pageFates] });
    if (rows.length === 0) return seen;
    seen.push(...rows.map(({ seq }) => seq));
    after = rows.at(-1)!.nth!;
  }
}

function oldRow(crawl: number, seq: number, fate: string): Step {
  return {
    sql: `INSERT INTO web_urls (crawl, seq, key, url, host, depth, parent, via, fate, ready_at, tries, hops, flags)
          VALUES (?, ?, ?, ?, 'a.test', 0, NULL, 'link', ?, 0, 1, 0, 0)`,
    params: [crawl, seq, `key-${seq}`, `http://a.test/${seq}`, fate],
  };
}
