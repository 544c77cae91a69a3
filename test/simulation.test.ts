// Random submissions, claims, heartbeats, ends, cancels, retries, crashes between any two steps and clock jumps, on both
// stores. SEED=… replays one run; ERRAND_TEST_DEEP=1 runs more and longer simulations.
import { test } from 'node:test';
import { PostgresStore } from '../src/store/postgres/postgres.ts';
import { accessMigrations } from '../src/access/keys.ts';
import { jobMigrations } from '../src/jobs/migrations.ts';
import { webhookMigrations } from '../src/webhooks/rows.ts';
import type { Store } from '../src/store/store.ts';
import { migratedDatabase } from './helpers/postgres.ts';
import { stores } from './helpers/stores.ts';
import { World } from './simulation.ts';
import type { TestContext } from 'node:test';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const fixed = process.env.SEED === undefined ? undefined : Number(process.env.SEED);
const turns = deep ? 1000 : 150;
const worlds = { sqlite: deep ? 40 : 4, postgres: deep ? 12 : 2 };

for (const name of ['sqlite', 'postgres'] as const) {
  for (let i = 0; i < (fixed === undefined ? worlds[name] : 1); i++) {
    const seed = fixed ?? Math.floor(Math.random() * 2 ** 31);
    test(`random actions and crashes violate no invariant on ${name} (SEED=${seed})`, async (t) => {
      const world = new World(seed, await openStores(t, name));
      await world.prepare();
      for (let turn = 0; turn < turns; turn++) await world.turn();
      await world.settle();
      await world.check();
    });
  }
}

/** In a cluster every node has its own store on the shared database. */
async function openStores(t: TestContext, name: 'sqlite' | 'postgres'): Promise<Store[]> {
  if (name === 'sqlite') return [await stores[0]!.open(t)];
  const migrations = [...jobMigrations, ...accessMigrations, ...webhookMigrations];
  const url = await migratedDatabase(migrations);
  const opened: Store[] = [];
  for (let i = 0; i < 2; i++) {
    const store = await PostgresStore.open(url);
    t.after(() => store.close());
    await store.check(migrations);
    opened.push(store);
  }
  return opened;
}
