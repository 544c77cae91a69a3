// watch_jobs on both stores: nothing is missing or repeated, filters, limits of keys, deleted jobs and old cursors.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { allMigrations } from '../../src/app.ts';
import { startApp, type TestApp } from '../helpers/app.ts';
import { tempFolder } from '../helpers/folder.ts';
import { migratedDatabase } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

interface Item {
  event: string;
  id?: string;
  data: {
    cursor: string;
    event?: { jobId: string; n: number; type: string };
    job?: { id: string; status: string; name?: string };
    matches?: boolean;
    removed?: string;
    reset?: boolean;
  };
}

const stores: [string, () => Promise<Record<string, string>>][] = [
  ['sqlite', async () => ({})],
  ['postgres', async () => ({ ERRAND_STORE: await migratedDatabase(allMigrations()) })],
];

for (const [store, env] of stores) {
  test(`watch_jobs on ${store}`, async (t) => {
    const place = await startApp(t, {}, { env: await env() });
    const { call } = place;
    const watch = watcher(t, place);
    const run = async (name: string, more: object = {}, owner = 'me') =>
      (
        await call<{ id: string }>(
          'run_command',
          { argv: ['true'], name, waitMs: 20_000, ...more },
          { caller: { owner } },
        )
      ).id;

    await t.test('every event arrives once, in order, from any cursor', async () => {
      const { cursor } = await call<{ cursor: string }>('watch_jobs');
      const early = await watch({ cursor });
      const ids = await Promise.all(['a', 'b', 'c'].map((name) => run(name)));
      const late = await watch({ cursor });
      for (const items of [early, late]) {
        await until('all jobs have ended', () => ids.every((id) => ended(items, id)));
        const keys = items.map(({ data }) => `${data.event!.jobId} ${data.event!.n}`);
        assert.equal(new Set(keys).size, keys.length, 'no event is repeated');
        for (const id of ids) {
          const own = items.filter(({ data }) => data.event!.jobId === id);
          assert.deepEqual(
            own.map(({ data }) => data.event!.n),
            own.map((_, i) => i + 1),
          );
          assert.equal(own.at(-1)!.data.job!.status, 'completed');
        }
        const cursors = items.map(({ id }) => Number(id));
        assert.deepEqual(
          cursors,
          cursors.toSorted((a, b) => a - b),
        );
      }
      const middle = early[Math.floor(early.length / 2)]!;
      const resumed = await watch({ cursor: middle.id! });
      await until('the rest arrives', () => resumed.at(-1)?.id === early.at(-1)!.id);
      const rest = early.slice(early.indexOf(middle) + 1);
      assert.deepEqual(
        resumed.map(({ id }) => id),
        rest.map(({ id }) => id),
      );
    });

    await t.test('a job that leaves the filter is sent once more, other jobs are not', async () => {
      const failed = await watch({ status: ['failed'], name: 'flaky' });
      const texts = await watch({ text: 'EXIT 7' });
      await run('other');
      // Fails at first. The second attempt runs until it is cancelled, so that it stays outside the filter.
      const marker = join(tempFolder(t), 'failed');
      const script = `[ -e ${marker} ] && exec sleep 600; touch ${marker}; echo; exit 7`;
      const id = await run('flaky', { argv: ['sh', '-c', script] });
      await until('it failed', () => failed.some(({ data }) => data.matches === true));
      await until('the text matches', () => ended(texts, id));
      assert.ok(failed.every(({ data }) => data.event!.jobId === id));
      assert.equal(texts.filter(({ data }) => data.matches).at(-1)!.data.job!.name, 'flaky');
      await call('retry_job', { id });
      await until('it leaves the filter', () => failed.at(-1)!.data.matches === false);
      await call('cancel_job', { id });
    });

    await t.test('a key sees only the jobs within its limits, and deletions of those', async () => {
      const mine = await watch({}, { owner: 'ann', admin: false });
      const ci = await watch({}, { owner: 'ann', admin: false, queues: ['ci'] });
      const all = await watch({});
      const ids = [
        await run('secret', {}, 'bob'),
        await run('visible', {}, 'ann'),
        await run('built', { queue: 'ci' }, 'ann'),
      ];
      for (const id of ids) await call('delete_job', { id });
      const removed = (items: Item[]) => items.flatMap(({ data }) => data.removed ?? []);
      await until('the deletions arrive', () => removed(all).length === 3);
      await until('the deletions arrive', () => removed(mine).length === 2);
      await until('the deletion arrives', () => removed(ci).length === 1);
      assert.ok(!JSON.stringify(mine).includes(ids[0]!));
      assert.ok(!JSON.stringify(ci).includes(ids[1]!));
      assert.deepEqual(removed(ci), [ids[2]]);
    });

    await t.test(
      'a reader far behind starts at the newest event, or gets every event',
      async () => {
        const { cursor } = await call<{ cursor: string }>('watch_jobs');
        const id = await run('busy');
        const many = `WITH RECURSIVE numbers(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 11000)
        INSERT INTO events (job_id, n, type, at, data) SELECT job_id, numbers.n, 'progress', at, '{}'
        FROM events, numbers WHERE job_id = ? AND events.n = 1`;
        await place.app.store.commit([{ sql: many, params: [id] }]);
        const late = await watch({ cursor });
        const complete = await watch({ cursor, complete: true });
        await until('the reset arrives', () => late[0]?.data.reset === true);
        await run('next');
        await until('it gets the newest events', () =>
          late.some(({ data }) => data.job?.name === 'next'),
        );
        await until('it gets all', () => complete.some(({ data }) => data.job?.name === 'next'));
        const mine = complete.filter(({ data }) => data.event?.jobId === id);
        assert.ok(mine.length > 10_000, String(mine.length));
        assert.ok(complete.every(({ data }) => data.reset === undefined));
      },
    );

    await t.test('a cursor that is too old or unknown resets the reader', async () => {
      const { cursor } = await call<{ cursor: string }>('watch_jobs');
      const unknown = await watch({ cursor: String(Number(cursor) + 1_000_000) });
      await until('the reset arrives', () => unknown[0]?.data.reset === true);
      await run('after');
      await until('it continues', () => unknown.some(({ data }) => data.job?.name === 'after'));
      await assert.rejects(call('watch_jobs', { kind: ['unknown'] }), { code: 'invalidInput' });
      const wrong = place.stream('watch_jobs', { cursor: 'x' }, new AbortController().signal);
      await assert.rejects(wrong[Symbol.asyncIterator]().next(), { code: 'invalidInput' });
    });
  });
}

const ended = (items: readonly Item[], id: string): boolean =>
  items.some(({ data }) => data.event?.jobId === id && /completed|failed/.test(data.event.type));

function watcher(t: TestContext, { app }: TestApp) {
  const stop = new AbortController();
  t.after(() => stop.abort());
  /** The items so far. */
  return async (given: object, caller: object = {}): Promise<Item[]> => {
    const items: Item[] = [];
    // The cursor is taken before the test continues, so that no event is missed.
    const input = { cursor: String(await app.store.eventCursor()), ...given };
    const context = {
      caller: {
        owner: 'me',
        scopes: new Set(['read'] as const),
        admin: true,
        local: true,
        ...caller,
      },
      signal: stop.signal,
    };
    const read = async () => {
      for await (const item of app.operations.stream('watch_jobs', input, context)) {
        assert.equal(item.encoded ?? JSON.stringify(item.data), JSON.stringify(item.data));
        items.push(item as Item);
      }
    };
    void read();
    return items;
  };
}
