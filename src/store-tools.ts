// Work on a store that no server of ours has open: applying migrations, moving everything to another store.
import { existsSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { allMigrations, searchIndexes } from './app.ts';
import { NodeRows } from './cluster/store.ts';
import { AppError } from './errors.ts';
import { isPostgres, storeAddress } from './config.ts';
import { environment } from './config-place.ts';
import { inheritSecret, openHome, standAlone } from './home.ts';
import { databaseOf, halfCopied, openHomeStore, replaceLedger } from './home-ledger.ts';
import { copyStore, type CopyReport } from './store/copy.ts';
import { beginCopy, endCopy, ledgerOf } from './store/ledger.ts';
import { PostgresStore } from './store/postgres/postgres.ts';
import type { Store } from './store/store.ts';

/** Answers the ids of what was applied: none when the schema fits already. */
export async function migrateStore(wish: string | undefined): Promise<string[]> {
  const address = storeAddress(wish === undefined ? {} : { store: wish });
  if (address === undefined) {
    throw new AppError('invalidInput', 'No store is named.', {
      hint: 'Name it with --store, in ERRAND_STORE or in home/env.',
    });
  }
  if (!isPostgres(address)) {
    throw new AppError('invalidInput', 'Only a PostgreSQL store is migrated by hand.', {
      hint: 'A home brings its own database up to date when its server starts.',
    });
  }
  const store = await PostgresStore.open(address);
  try {
    return await store.applyMigrations(allMigrations());
  } finally {
    await store.close();
  }
}

export async function copyBetween(from: string, to: string): Promise<CopyReport> {
  const source = await openSide(from, false);
  try {
    await refuseServed(source.store);
    const secret = await source.secret();
    const target = await openSide(to, true);
    try {
      await refuseServed(target.store);
      const { ledger } = (await ledgerOf(source.store))!;
      // Until the last step is done no server starts on the target.
      await beginCopy(target.store);
      const report = await copyStore(source.store, target.store, searchIndexes());
      if (secret) await target.inherit(secret);
      // The copy is the same ledger in another place.
      await target.replace(() => endCopy(target.store, ledger));
      return report;
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

interface Side {
  store: Store;
  /** What rows are signed and sealed with (webhooks, wallets); undefined where there cannot be any yet. */
  secret(): Promise<Buffer | undefined>;
  inherit(secret: Buffer): Promise<void>;
  /** Runs a change of the ledger's identity. */
  replace(change: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

async function openSide(address: string, mayCreate: boolean): Promise<Side> {
  if (isPostgres(address)) {
    const store = await PostgresStore.open(address);
    try {
      if (mayCreate) await store.migrate(allMigrations());
      else await store.check(allMigrations());
      if ((await ledgerOf(store))?.state === 'copying') throw halfCopied(store.shown);
    } catch (error) {
      await store.close();
      throw error;
    }
    return {
      store,
      secret: () => store.sharedSecret(environment().ERRAND_CLUSTER_KEY),
      inherit: (secret) => store.bequeath(secret),
      replace: (change) => change(),
      close: () => store.close(),
    };
  }
  const path = homeOf(address);
  if (!mayCreate && !existsSync(databaseOf(path)))
    throw new AppError('notFound', `There is no database in the home ${path}.`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  // The lock: a copy of a home that somebody serves would not be whole.
  const home = openHome(path);
  const store = await openHomeStore(path, allMigrations()).catch((error: unknown) => {
    home.release();
    throw error;
  });
  return {
    store,
    secret: async () => home.secret,
    inherit: async (secret) => {
      inheritSecret(path, secret);
      standAlone(path, true);
    },
    replace: (change) => replaceLedger(path, change),
    close: async () => {
      await store.close();
      home.release();
    },
  };
}

/** `sqlite:HOME`, or the path alone. */
function homeOf(address: string): string {
  const path = address.replace(/^sqlite:(\/\/)?/, '');
  if (path !== '' && path !== 'sqlite' && !/^\w+:/.test(path)) return resolve(path);
  throw new AppError('invalidInput', 'A side of the copy is neither sqlite:HOME nor postgres://…', {
    hint: 'Write sqlite: and the path of a home, or postgres://user:password@host:5432/database.',
  });
}

const aliveMs = 30_000;

async function refuseServed(store: Store): Promise<void> {
  if (!(store instanceof PostgresStore)) return;
  const now = store.clock.now();
  const alive = (await new NodeRows(store).list()).filter(
    ({ seenAt, stoppedAt }) => stoppedAt === null && now - seenAt < aliveMs,
  );
  if (alive.length === 0) return;
  throw new AppError(
    'conflict',
    `Nodes still work on it: ${alive.map(({ name }) => name).join(', ')}.`,
    {
      hint: 'Stop all nodes first; a copy of a store in use would not be whole.',
    },
  );
}
