// Constructs the escrow services. The plugin passes the real network and clock; tests pass their own.
import type { Access } from '../../access/keys.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Store } from '../../store/store.ts';
import { Escrow } from './escrow.ts';
import { Evaluation } from './evaluators/evaluation.ts';
import { RuleRunner, type RunCheck } from './evaluators/runner.ts';
import { SchemaChecks } from './evaluators/schema-checks.ts';
import { Payments } from './payments.ts';
import { Posting } from './posting.ts';
import type { EscrowDeps } from './deps.ts';
import type { EscrowSettings } from './settings.ts';
import { LedgerSettlement } from './settlement/ledger/ledger.ts';
import type { Settlement } from './settlement/settlement.ts';
import { EscrowStore } from './store/store.ts';
import { Sweeper } from './sweeper.ts';
import { WalletHooks } from './webhooks.ts';
import { Wallets, type MakeAddress } from './wallets.ts';
import { X402, type Fetch } from './x402.ts';

export interface AssembleDeps {
  jobs: Jobs;
  store: Store;
  access: Access;
  webhooks: Webhooks;
  clock: Clock;
  log: Log;
  settings: EscrowSettings;
  /** Identifies this server; stays the same after a restart. */
  node: string;
  fetch: Fetch;
  /** Throws if the address is not allowed. */
  vetUrl(url: string): Promise<void>;
  sign(text: string): string;
  runCheck?: RunCheck | undefined;
  settlements?: readonly Settlement[];
  makeAddress?: MakeAddress;
}

export interface Assembled extends EscrowDeps {
  sweeper: Sweeper;
  schemas: SchemaChecks;
}

export function assemble(deps: AssembleDeps): Assembled {
  const { jobs, access, clock, log, settings, fetch } = deps;
  const store = new EscrowStore(deps.store);
  const settlements = new Map<string, Settlement>();
  for (const one of [new LedgerSettlement(store), ...(deps.settlements ?? [])]) {
    settlements.set(one.name, one);
  }
  const escrow = new Escrow({ store, jobs, clock, settings, settlements });
  const schemas = new SchemaChecks(settings.maxSchemaMs);
  const rules = new RuleRunner({
    settings,
    schemas,
    get: (url, limits) => fetch(url, { headers: {}, ...limits }),
    vetUrl: (url) => deps.vetUrl(url),
    runCheck: deps.runCheck,
  });
  const evaluation = new Evaluation(escrow, rules, deps.node);
  const payments = new Payments(store, clock, settings);
  const sign = (text: string) => deps.sign(text);
  return {
    escrow,
    posting: new Posting(escrow, rules),
    evaluation,
    wallets: new Wallets(store, clock, deps.makeAddress),
    hooks: new WalletHooks(deps.webhooks),
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
