// Commands for a store without a running server: apply migrations, copy everything to another store.
import { existsSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { allMigrations, searchIndexes } from './app.ts';
import { NodeRows } from './cluster/store.ts';
import { AppError } from './errors.ts';
import { isPostgres, storeAddress } from './config.ts';
import { environment } from './config-place.ts';
import { inheritSecret, openHome, standAlone } from './home.ts';
import { databaseOf, incompleteCopyError, openHomeStore, replaceLedger } from './home-ledger.ts';
import { copyStore, type CopyReport } from './store/copy.ts';
import { beginCopy, endCopy, readLedger } from './store/ledger.ts';
import { PostgresStore } from './store/postgres/postgres.ts';
import type { Store } from './store/store.ts';

/** Returns the ids of the applied migrations. */
export async function migrateStore(options: string | undefined): Promise<string[]> {
  const address = storeAddress(options === undefined ? {} : { store: options });
  if (address === undefined) {
    throw new AppError('invalidInput', 'No store is configured.', {
      hint: 'Set it with --store, ERRAND_STORE or home/env.',
    });
  }
  if (!isPostgres(address)) {
    throw new AppError('invalidInput', 'Only a PostgreSQL store needs `errand migrate`.', {
      hint: 'A home migrates its own database when its server starts.',
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
      const { ledger } = (await readLedger(source.store))!;
      // No server starts on the target until the last step is done.
      await beginCopy(target.store);
      const report = await copyStore(source.store, target.store, searchIndexes());
      if (secret) await target.inherit(secret);
      // The copy is the same ledger in another database.
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
  /** The secret that signs and encrypts rows (webhooks, wallets). Undefined if none can exist yet. */
  secret(): Promise<Buffer | undefined>;
  inherit(secret: Buffer): Promise<void>;
  /** Runs a change of the ledger identity. */
  replace(change: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

async function openSide(address: string, mayCreate: boolean): Promise<Side> {
  if (isPostgres(address)) {
    const store = await PostgresStore.open(address);
    try {
      if (mayCreate) await store.migrate(allMigrations());
      else await store.check(allMigrations());
      if ((await readLedger(store))?.state === 'copying') throw incompleteCopyError(store.label);
    } catch (error) {
      await store.close();
      throw error;
    }
    return {
      store,
      secret: () => store.sharedSecret(environment().ERRAND_CLUSTER_KEY),
      inherit: (secret) => store.setSharedSecret(secret),
      replace: (change) => change(),
      close: () => store.close(),
    };
  }
  const path = homeOf(address);
  if (!mayCreate && !existsSync(databaseOf(path)))
    throw new AppError('notFound', `The home ${path} has no database.`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  // Takes the lock: a copy of a home in use would be inconsistent.
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

/** Accepts `sqlite:HOME` or the path alone. */
function homeOf(address: string): string {
  const path = address.replace(/^sqlite:(\/\/)?/, '');
  if (path !== '' && path !== 'sqlite' && !/^\w+:/.test(path)) return resolve(path);
  throw new AppError('invalidInput', 'Source and target must be sqlite:HOME or postgres://…', {
    hint: 'Use sqlite: with the path of a home, or postgres://user:password@host:5432/database.',
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
    `These nodes are still running: ${alive.map(({ name }) => name).join(', ')}.`,
    {
      hint: 'Stop all nodes first. A copy of a store in use would be inconsistent.',
    },
  );
}
