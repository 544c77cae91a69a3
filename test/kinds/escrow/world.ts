// A small economy for tests: escrow on its own store, wallets with credit, calls on behalf of a wallet.
import type { TestContext } from 'node:test';
import { Access } from '../../../src/access/keys.ts';
import { walletWebhook } from '../../../src/dialects/cardzero/webhooks.ts';
import { AppError, registerErrors } from '../../../src/errors.ts';
import { EventFeed } from '../../../src/jobs/events.ts';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { jobLimits } from '../../../src/jobs/limits.ts';
import { jobOperations } from '../../../src/jobs/operations/index.ts';
import { JobReferences } from '../../../src/jobs/references.ts';
import { webhookOperations } from '../../../src/webhooks/operations.ts';
import { removeWebhooksOfKey } from '../../../src/webhooks/rows.ts';
import { Webhooks } from '../../../src/webhooks/webhooks.ts';
import { JobWaiter } from '../../../src/jobs/wait.ts';
import { assemble, type Assembled, type AssembleDeps } from '../../../src/kinds/escrow/assemble.ts';
import { escrowErrors } from '../../../src/kinds/escrow/errors.ts';
import { escrowOperations } from '../../../src/kinds/escrow/index.ts';
import { escrowKind } from '../../../src/kinds/escrow/kind.ts';
import { escrowMigrations } from '../../../src/kinds/escrow/migrations.ts';
import { escrowSettingsSchema } from '../../../src/kinds/escrow/settings.ts';
import { Operations, type Caller } from '../../../src/operation.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import type { Store } from '../../../src/store/store.ts';
import { stores, type StoreFactory } from '../../helpers/stores.ts';

export type Answer = ReturnType<typeof JSON.parse>;

export interface Agent {
  wallet: string;
  address: string;
  caller: Caller;
}

export interface World {
  services: Assembled;
  operations: Operations;
  clock: ManualClock;
  store: Store;
  /** Sends nothing until it is started. */
  webhooks: Webhooks;
  /** Webhook messages by address. */
  sent: { url: string; body: string }[];
  admin: Caller;
  agent(name: string, credit?: string): Promise<Agent>;
  call(who: Agent | Caller | undefined, name: string, input?: unknown): Promise<Answer>;
  balance(who: Agent): Promise<number>;
}

export const hourMs = 3_600_000;
const adminCaller: Caller = {
  owner: 'owner',
  scopes: new Set(['read', 'run', 'worker', 'admin']),
  admin: true,
  local: true,
};

export interface WorldOptions {
  factory?: StoreFactory;
  store?: Store;
  settings?: Record<string, unknown>;
  deps?: Partial<AssembleDeps>;
  clock?: ManualClock;
}

export async function createWorld(t: TestContext, options: WorldOptions = {}): Promise<World> {
  const store = options.store ?? (await (options.factory ?? stores[0]!).open(t, escrowMigrations));
  const clock = options.clock ?? new ManualClock(Date.UTC(2026, 0, 10));
  registerErrors(escrowErrors);
  const jobs = new Jobs(store, clock);
  let services: Assembled | undefined;
  jobs.addKind(escrowKind(() => services!));
  const access = new Access(store, clock, 'errand_owner_key_of_the_test');
  access.onEnd(removeWebhooksOfKey);
  const sent: World['sent'] = [];
  const webhooks = new Webhooks({
    jobs,
    store,
    clock,
    log: silentLog,
    send: async ({ url, body }) => {
      sent.push({ url, body });
      return 200;
    },
    secretOf: () => Buffer.alloc(32),
  });
  webhooks.addFormat(walletWebhook);
  services = assemble({
    jobs,
    store,
    access,
    webhooks,
    clock,
    log: silentLog,
    node: 'node-1',
    // Evaluators have one hour, so that tests need not skip days.
    settings: escrowSettingsSchema.parse({ evaluationMsDefault: hourMs, ...options.settings }),
    fetch: async () => {
      throw new AppError('egressRefused', 'This test has no network.');
    },
    vetUrl: async () => undefined,
    sign: (text) => `signed:${text}`,
    ...options.deps,
  });
  const feed = new EventFeed(store, silentLog);
  t.after(() => feed.close());
  const operations = new Operations({
    jobLimits: jobLimits(jobs),
    references: new JobReferences(jobs),
  });
  const waiting = new JobWaiter(jobs, feed, clock);
  operations.add(
    jobOperations({ jobs, feed, waiting, clock, maxWaitMs: 1000, cancelMsDefault: 1000 }),
  );
  operations.add(webhookOperations(webhooks, jobs));
  operations.add(escrowOperations(services), 'escrow');
  return { ...worldOf(services, operations, clock), webhooks, sent };
}

function worldOf(
  services: Assembled,
  operations: Operations,
  clock: ManualClock,
): Omit<World, 'sent' | 'webhooks'> {
  const call: World['call'] = (who, name, input = {}) =>
    operations.call<Answer>(name, input, {
      caller: who && 'wallet' in who ? who.caller : who,
      signal: new AbortController().signal,
    });
  return {
    services,
    operations,
    clock,
    store: services.store.store,
    admin: adminCaller,
    call,
    agent: async (name, credit) => {
      const wallet = await services.wallets.create(name, name);
      const caller: Caller = {
        owner: name,
        scopes: new Set(['read', 'run']),
        admin: false,
        local: false,
        subject: `wallet:${wallet.id}`,
      };
      if (credit !== undefined) {
        const input = { wallet: wallet.id, amount: credit, transferId: `start-${wallet.id}` };
        await call(adminCaller, 'mint_credit', input);
      }
      return { wallet: wallet.id, address: wallet.address, caller };
    },
    balance: async (who) => (await services.store.wallet(who.wallet)).balance,
  };
}

/** Returns the refusal code; any error other than an AppError fails the test. */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  return 'nothing was refused';
}

export const isoIn = (world: World, ms: number): string =>
  new Date(world.clock.now() + ms).toISOString();

/** Posts a job between two agents with the given rule. */
export async function posted(
  world: World,
  client: Agent | Caller,
  provider: Agent,
  more: Record<string, unknown> = {},
): Promise<Answer> {
  return world.call(client, 'post_work', {
    provider: provider.wallet,
    budget: '1000000',
    title: 'Summarise the report',
    description: 'One page, plain words.',
    expiresAt: isoIn(world, 24 * hourMs),
    ...more,
  });
}

/** The exact bytes of a job's spec. */
export async function specOf(world: World, id: string): Promise<string> {
  const { specBytes } = await world.call(undefined, 'read_work', { id, exact: true });
  return Buffer.from(specBytes, 'base64').toString('utf8');
}
