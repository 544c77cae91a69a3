// The escrow plugin: one agent hires another for a budget, the agreed rule decides, and the money moves once.
import { definePlugin, type KindDeps, type KindParts } from '../../plugin.ts';
import type { Operation } from '../../operation.ts';
import { isRecord } from '../../runtime/json.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import { assemble, type Assembled } from './assemble.ts';
import { escrowErrors } from './errors.ts';
import { commandChecks } from './evaluators/command.ts';
import { escrowMigrations } from './migrations.ts';
import { guardedFetch, rpcOf, vetUrl } from './outbound.ts';
import type { EscrowDeps } from './deps.ts';
import { escrowKind } from './kind.ts';
import { escrowSettingsSchema, type EscrowSettings } from './settings.ts';
import { createEvm, type Evm } from './settlement/evm/index.ts';
import { evmMigrations } from './migrations.ts';
import { adminOperations } from './operations/admin.ts';
import { deliveryOperations } from './operations/delivery.ts';
import { walletOperations } from './operations/wallets.ts';
import { workOperations } from './operations/work.ts';
import { isPolicy, isState, isTerms } from './store/rows.ts';
import { verifyBooks } from './verify.ts';

export const escrowPlugin = definePlugin<EscrowSettings>({
  name: 'escrow',
  settings: escrowSettingsSchema,
  errors: escrowErrors,
  migrations: [...escrowMigrations, ...evmMigrations],
  jsonColumns: {
    escrow_accounts: { policy: isPolicy },
    escrow_work: { spec: isTerms, state: isState },
    escrow_payments: { detail: isRecord },
    escrow_intents: { input: isRecord },
    escrow_chain_events: { before: isRecord },
  },
  check: async (reader) =>
    (await verifyBooks(reader)).problems.map((text) => ({ check: 'books', text })),
  undispatched: ['escrow'],
  create: createEscrow,
});

async function createEscrow(deps: KindDeps<EscrowSettings>): Promise<KindParts> {
  const { settings, clock, log, egress } = deps;
  const evm = await chainOf(deps);
  const services = assemble({
    ...deps,
    fetch: guardedFetch(egress),
    vetUrl: (url) => vetUrl(egress, url),
    sign: (text) => deps.sign('x402', text),
    runCheck: commandChecks(deps.jobs, settings, checkFolder(deps)),
    ...(evm ? { settlements: [evm.settlement], makeAddress: evm.makeAddress } : {}),
  });
  const loops = [sweepLoop(services, deps), ...(evm ? [chainLoop(evm, services, deps)] : [])];
  return {
    kind: escrowKind(() => services),
    operations: escrowOperations(services),
    services: [
      services.schemas,
      leasesService(services),
      ...loops.map((loop) => runWhenDue(loop, services)),
    ],
    busy: async () => (await services.store.works.openWork()) > 0,
  };

  function sweepLoop(of: Assembled, { settings: { sweepMs: everyMs } }: KindDeps<EscrowSettings>) {
    const run = async (signal: AbortSignal) => void (await of.sweeper.turn(signal));
    return new Loop({ name: 'escrow sweep', everyMs, clock, log, run });
  }
}

/** A check may run on any cluster node, and each node has its home in a different place. */
const checkFolder = ({ store, home }: KindDeps<EscrowSettings>): string =>
  store.engine === 'sqlite' ? home : '/';

function chainLoop(evm: Evm, services: Assembled, deps: KindDeps<EscrowSettings>): Loop {
  const { clock, log, settings } = deps;
  const everyMs = settings.evm!.pollMs;
  return new Loop({
    name: 'escrow chain',
    everyMs,
    clock,
    log,
    run: () => evm.turn(services.escrow),
  });
}

async function chainOf(deps: KindDeps<EscrowSettings>): Promise<Evm | undefined> {
  const { store, clock, log, settings, egress } = deps;
  if (!settings.evm) return undefined;
  const rpc = rpcOf(egress, settings.evm.rpcUrl, settings.evm.timeoutMs);
  const secret = deps.sign('escrow keystore', 'v1');
  return createEvm({ store, clock, log, settings: settings.evm, rpc, secret });
}

/** Runs before the first sweep: evaluations that this server held when it died become due. */
const leasesService = ({ evaluation }: Assembled): Service => ({
  name: 'escrow leases',
  start: () => evaluation.releaseLeases(),
  stop: async () => undefined,
});

/** Runs the loop immediately when something becomes due, instead of waiting for the next turn. */
function runWhenDue(loop: Loop, services: Assembled): Service {
  let off: (() => void) | undefined;
  return {
    name: loop.name,
    start: async () => {
      off = services.escrow.onDue(() => loop.wake());
      await loop.start();
    },
    stop: async () => {
      off?.();
      await loop.stop();
      await services.sweeper.finish();
    },
  };
}

export function escrowOperations(services: EscrowDeps): Operation[] {
  return [
    ...workOperations(services),
    ...deliveryOperations(services),
    ...walletOperations(services),
    ...adminOperations(services),
  ];
}
