// Puts the parts of escrow together. The plugin gives the real outside world; tests give their own clock and network.
import type { Access } from '../../access/access.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Webhooks } from '../../jobs/webhooks.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Store } from '../../store/store.ts';
import { Escrow } from './escrow.ts';
import { Evaluation } from './evaluators/evaluation.ts';
import { RuleRunner, type RunCheck } from './evaluators/runner.ts';
import { SchemaChecks } from './evaluators/schema-checks.ts';
import { Payments } from './payments.ts';
import { Posting } from './posting.ts';
import type { EscrowServices } from './services.ts';
import type { EscrowSettings } from './settings.ts';
import { LedgerSettlement } from './settlement/ledger/ledger.ts';
import type { Settlement } from './settlement/settlement.ts';
import { EscrowStore } from './store.ts';
import { Sweeper } from './sweeper.ts';
import { WalletHooks } from './webhooks.ts';
import { Wallets, type MakeAddress } from './wallets.ts';
import { X402, type Fetch } from './x402.ts';

export interface Outside {
  jobs: Jobs;
  store: Store;
  access: Access;
  webhooks: Webhooks;
  clock: Clock;
  log: Log;
  settings: EscrowSettings;
  /** This server, the same after a restart. */
  node: string;
  fetch: Fetch;
  /** Throws when an address may never be reached. */
  vetUrl(url: string): Promise<void>;
  sign(text: string): string;
  runCheck?: RunCheck | undefined;
  settlements?: readonly Settlement[];
  makeAddress?: MakeAddress;
}

export interface Assembled extends EscrowServices {
  sweeper: Sweeper;
  schemas: SchemaChecks;
}

export function assemble(outside: Outside): Assembled {
  const { jobs, access, clock, log, settings, fetch } = outside;
  const store = new EscrowStore(outside.store);
  const settlements = new Map<string, Settlement>();
  for (const one of [new LedgerSettlement(store), ...(outside.settlements ?? [])]) {
    settlements.set(one.name, one);
  }
  const escrow = new Escrow({ store, jobs, clock, settings, settlements });
  const schemas = new SchemaChecks(settings.schemaMsMax);
  const rules = new RuleRunner({
    settings,
    schemas,
    get: (url, limits) => fetch(url, { headers: {}, ...limits }),
    vetUrl: (url) => outside.vetUrl(url),
    runCheck: outside.runCheck,
  });
  const evaluation = new Evaluation(escrow, rules, outside.node);
  const payments = new Payments(store, clock, settings);
  const sign = (text: string) => outside.sign(text);
  return {
    escrow,
    posting: new Posting(escrow, rules),
    evaluation,
    wallets: new Wallets(store, clock, outside.makeAddress),
    hooks: new WalletHooks(outside.webhooks, store),
    payments,
    x402: new X402({ payments, store, fetch, sign }),
    store,
    settings,
    jobs,
    access,
    clock,
    sweeper: new Sweeper(escrow, evaluation, log),
    schemas,
  };
}
