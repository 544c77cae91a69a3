// Data that older versions stored stays readable after the web migrations, on every database.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessMigrations } from '../../../src/access/keys.ts';
import { jobMigrations } from '../../../src/jobs/migrations.ts';
import { webhookMigrations } from '../../../src/webhooks/rows.ts';
import { webMigrations } from '../../../src/kinds/web/migrations.ts';
import { crawlOptions } from '../../../src/kinds/web/crawl/options.ts';
import { pageOutcomes } from '../../../src/kinds/web/store/rows.ts';
import { WebStore } from '../../../src/kinds/web/store/crawls.ts';
import type { Step } from '../../../src/store/store.ts';
import { stores } from '../../helpers/stores.ts';

const all = [...jobMigrations, ...accessMigrations, ...webhookMigrations, ...webMigrations];
const webBefore = (id: string) =>
  webMigrations.slice(
    0,
    webMigrations.findIndex((migration) => migration.id === id),
  );

/** Outcomes of an ended crawl's rows by `seq`, as the older version wrote them. */
const oldRows = ['redirected', 'fetched', 'errored', 'unchanged', 'skipped', 'fetched', 'queued', 'fetched']; // prettier-ignore

for (const factory of stores) {
  test(`${factory.name}: pages of crawls from before web/3 are read in order with a cursor`, async (t) => {
    const store = await factory.open(t, webBefore('web/3'));
    const web = new WebStore(store);
    const first = await web.open('job_1', 'me', 1000);
    const second = await web.open('job_2', 'me', 2000);
    await store.commit([
      ...oldRows.map((outcome, i) => oldRow(first.crawl, i + 1, outcome)),
      oldRow(second.crawl, 1, 'errored'),
      oldRow(second.crawl, 2, 'fetched'),
    ]);
    await store.migrate(all);
    assert.deepEqual(await pagesOf(web, first.crawl), [2, 4, 6, 8]);
    assert.deepEqual(await pagesOf(web, second.crawl), [2], 'each crawl has its own numbering');
    const [other] = await web.list(first.crawl, { after: 2, limit: 1 });
    assert.deepEqual(
      [other!.seq, other!.outcome, other!.nth],
      [3, 'errored', null],
      'errored rows are not numbered',
    );
    await assert.rejects(
      store.commit([
        { sql: 'UPDATE web_urls SET nth = 1 WHERE crawl = ? AND seq = 4', params: [first.crawl] },
      ]),
      'each number is unique',
    );
  });

  test(`${factory.name}: web/9 renames the bounds and counts that jobs stored before`, async (t) => {
    const store = await factory.open(t, webBefore('web/9'));
    const old = {
      url: 'http://a.test/',
      similarPagesMax: 1,
      timeMsMax: 2000,
      bytesMax: 3,
      creditsMax: 4,
      exclude: ['bytesMax'],
    };
    const result = { pages: 1, fates: { fetched: 1 } };
    await store.commit([
      oldJob('job_crawl', 'web', 'crawl', old, result),
      oldJob('job_map', 'web', 'map', { url: 'http://a.test/', fetchMax: 5 }, { fates: {} }),
      oldJob('job_command', 'command', null, { bytesMax: 3 }, result),
      {
        sql: `INSERT INTO attempts (job_id, attempt, attempt_id, status, result)
              VALUES ('job_crawl', 1, 'a1', 'failed', ?)`,
        params: [JSON.stringify(result)],
      },
    ]);
    await store.migrate(all);
    const rows = await store.read<{ id: string; input: string; result: string }>(
      'SELECT id, input, result FROM jobs ORDER BY id',
    );
    const [command, crawl, map] = rows.map((row) => ({
      input: JSON.parse(row.input) as Record<string, unknown>,
      result: JSON.parse(row.result) as Record<string, unknown>,
    }));
    assert.deepEqual(crawl, {
      input: {
        url: 'http://a.test/',
        maxSimilarPages: 1,
        maxTimeMs: 2000,
        maxBytes: 3,
        maxCredits: 4,
        exclude: ['bytesMax'],
      },
      result: { pages: 1, outcomes: { fetched: 1 } },
    });
    assert.ok(crawlOptions.safeParse(crawl.input).success, 'the crawl can run');
    assert.deepEqual(map!.input, { url: 'http://a.test/', maxFetch: 5 });
    assert.deepEqual(map!.result, { fates: {} }, 'only crawls have outcomes');
    assert.deepEqual(command, { input: { bytesMax: 3 }, result });
    const [attempt] = await store.read<{ result: string }>('SELECT result FROM attempts');
    assert.deepEqual(JSON.parse(attempt!.result), { pages: 1, outcomes: { fetched: 1 } });
  });
}

/** Reads two pages at a time; the cursor is the number of the last one. */
async function pagesOf(web: WebStore, crawl: number): Promise<number[]> {
  const seen: number[] = [];
  for (let after = 0; ;) {
    const rows = await web.listPages(crawl, { after, limit: 2, outcomes: [...pageOutcomes] });
    if (rows.length === 0) return seen;
    seen.push(...rows.map(({ seq }) => seq));
    after = rows.at(-1)!.nth!;
  }
}

function oldRow(crawl: number, seq: number, outcome: string): Step {
  return {
    sql: `INSERT INTO web_urls (crawl, seq, key, url, host, depth, parent, via, fate, ready_at, tries, hops, flags)
          VALUES (?, ?, ?, ?, 'a.test', 0, NULL, 'link', ?, 0, 1, 0, 0)`,
    params: [crawl, seq, `key-${seq}`, `http://a.test/${seq}`, outcome],
  };
}

function oldJob(
  id: string,
  kind: string,
  action: string | null,
  input: unknown,
  result: unknown,
): Step {
  return {
    sql: `INSERT INTO jobs (id, kind, action, queue, status, visibility, owner, input, result, priority, attempt,
            attempt_id, lost, run_at, waiting_for, created_at, updated_at, pinned, version)
          VALUES (?, ?, ?, 'default', 'completed', 'private', 'me', ?, ?, 0, 1, 'a1', 0, 0, 0, 0, 0, 0, 1)`,
    params: [id, kind, action, JSON.stringify(input), JSON.stringify(result)],
  };
}
