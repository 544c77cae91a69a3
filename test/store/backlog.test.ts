// The cost of the hot queries does not grow with the number of waiting or ended jobs: each reads a dedicated index in
// order. The test compares query plans instead of times, so its result does not depend on the machine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Value } from '../../src/store/store.ts';
import { claimSql, lostSql } from '../../src/store/sqlite/dispatcher.ts';
import { createCore, type Core } from '../helpers/jobs.ts';

async function planOf({ store }: Core, sql: string, params: readonly Value[]): Promise<string> {
  const rows = await store.read<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, params);
  return rows.map(({ detail }) => detail).join('; ');
}

/** The plan of the last query that `run` makes. */
async function planWhile(core: Core, run: () => Promise<unknown>): Promise<string> {
  const read = core.store.read.bind(core.store);
  let last: [string, readonly Value[] | undefined] | undefined;
  core.store.read = (sql, params) => {
    last = [sql, params];
    return read(sql, params);
  };
  await run();
  core.store.read = read;
  return planOf(core, last![0], last![1] ?? []);
}

test('a claim reads the ready index in order, regardless of the backlog', async (t) => {
  const core = await createCore(t);
  const plan = await planOf(core, claimSql, ['toy:default', 1]);
  assert.match(plan, /^SEARCH dispatch USING INDEX dispatch_ready \(queue=\?\)$/);
  assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/);
});

test('sweeps read only leased or due entries', async (t) => {
  const core = await createCore(t);
  assert.match(await planOf(core, lostSql, [1, 10]), /INDEX dispatch_leased/);
  const expired = await planWhile(core, () => core.jobs.ledger.expiredIds(1, 10));
  assert.match(expired, /INDEX jobs_expiring/);
});

test('running and broken jobs are found without a full scan', async (t) => {
  const core = await createCore(t);
  const { ledger } = core.jobs;
  const plans = {
    running: await planWhile(core, () => ledger.running({ holder: 'me', kinds: ['toy'] })),
    listed: await planWhile(core, () =>
      ledger.list({ owner: 'me', statuses: ['running'] }, { limit: 5 }),
    ),
  };
  for (const plan of Object.values(plans)) assert.match(plan, /INDEX jobs_open/);
  const failed = { owner: 'me', statuses: ['failed', 'timed_out'] } as const;
  const next = await planWhile(core, () => ledger.list(failed, { limit: 5, before: 100 }));
  assert.match(next, /SEARCH jobs USING INDEX jobs_broken \(seq<\?\)/);
  const mine = await planWhile(core, () => ledger.list({ owner: 'me' }, { limit: 5 }));
  assert.match(mine, /INDEX jobs_owner/);
  for (const plan of [...Object.values(plans), next, mine]) assert.doesNotMatch(plan, /TEMP/);
});
