// Databases of earlier versions: what a migration renames stays usable, on every store.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { Jobs } from '../../src/jobs/jobs.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { webhookMigrations } from '../../src/webhooks/rows.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { SqliteStore } from '../../src/store/sqlite/sqlite.ts';
import type { Migration, Store } from '../../src/store/store.ts';
import { startApp } from '../helpers/app.ts';
import { tempFolder } from '../helpers/folder.ts';
import { toyKind } from '../helpers/jobs.ts';
import { applyMigration } from '../helpers/migration.ts';
import { stores } from '../helpers/stores.ts';
import { migratedDatabase } from '../helpers/postgres.ts';

const all = [...jobMigrations, ...webhookMigrations];
const before = all.filter(({ id }) => id !== 'jobs/10' && id !== 'webhooks/3');

const oldStores: [string, (t: TestContext, migrations: Migration[]) => Promise<Store>][] = [
  [
    'sqlite',
    async (t, migrations) => {
      const store = new SqliteStore(join(tempFolder(t), 'errand.sqlite'));
      await store.migrate(migrations);
      return store;
    },
  ],
  ['postgres', async (_t, migrations) => PostgresStore.open(await migratedDatabase(migrations))],
];

for (const [name, open] of oldStores) {
  test(`${name}: stored events and subscriptions get the spelling of statuses`, async (t) => {
    const store = await open(t, before);
    t.after(() => store.close());
    await store.commit([
      ...['submitted', 'inputRequired', 'timedOut'].map((type, i) => ({
        event: { jobId: 'job_a', n: i + 1, type, at: 5, data: '{}' },
      })),
      {
        sql: `INSERT INTO webhooks (id, owner, url, events, format, created_at)
              VALUES ('hook_a', 'ada', 'http://receiver.test/', ?, 'errand', 1)`,
        params: [JSON.stringify(['completed', 'timedOut', 'inputRequired'])],
      },
      {
        sql: `INSERT INTO deliveries (id, webhook_id, job_id, event, body, status, tries, next_at, created_at)
              VALUES ('msg_a', 'hook_a', 'job_a', 'timedOut', '{}', 'pending', 0, 1, 1)`,
      },
    ]);
    await store.migrate(all);
    assert.deepEqual(
      (await store.events(0, 10)).map(({ type }) => type),
      ['submitted', 'input_required', 'timed_out'],
    );
    const [hook] = await store.read<{ events: string }>('SELECT events FROM webhooks');
    assert.deepEqual(JSON.parse(hook!.events), ['completed', 'timed_out', 'input_required']);
    const [delivery] = await store.read<{ event: string }>('SELECT event FROM deliveries');
    assert.equal(delivery!.event, 'timed_out');
  });
}

test('create_webhook accepts the former spelling of an event', async (t) => {
  const { call } = await startApp(t);
  const created = await call<{ events: string[] }>('create_webhook', {
    url: 'https://example.com/hook',
    events: ['timedOut', 'timed_out', 'inputRequired'],
  });
  assert.deepEqual(created.events, ['timed_out', 'input_required']);
});

for (const factory of stores)
  describe(`ledger migrations on ${factory.name}`, () => {
    test('jobs/9 renames the fields of stored retry policies', async (t) => {
      const store = await factory.open(t);
      const jobs = new Jobs(store, systemClock);
      jobs.addKind(toyKind);
      const submit = async () =>
        (await jobs.submit({ kind: 'toy', owner: 'ada', input: 1 })).job.id;
      const [old, current, plain] = [await submit(), await submit(), await submit()];
      const setRetry = (id: string, retry: string) => ({
        sql: 'UPDATE jobs SET retry = ? WHERE id = ?',
        params: [retry, id],
        expect: 1,
      });
      await store.commit([
        setRetry(
          old,
          '{"attemptsMax":5,"backoffMs":10,"backoffFactor":3,"backoffMsMax":700,"jitter":0,"lostMax":2}',
        ),
        setRetry(current, '{"maxAttempts":4,"maxLost":3}'),
      ]);
      await applyMigration(store, jobMigrations, 'jobs/9');
      const reader = new Jobs(store, systemClock);
      const retryOf = async (id: string) => (await reader.get(id)).retry;
      assert.deepEqual(await retryOf(old), {
        ...{ maxAttempts: 5, backoffMs: 10, backoffFactor: 3, maxBackoffMs: 700 },
        ...{ jitter: 0, maxLost: 2 },
      });
      assert.equal((await retryOf(current)).maxAttempts, 4);
      assert.equal((await retryOf(current)).maxLost, 3);
      assert.equal((await retryOf(plain)).maxAttempts, 1);
    });
  });
