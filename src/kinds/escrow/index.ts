// The escrow kind: one agent hires another under a budget; the rule agreed on decides; the money moves once.
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Kind } from '../../jobs/kind.ts';
import { definePlugin, type KindNeeds, type KindParts } from '../../jobs/plugin.ts';
import type { Caller, Operation } from '../../operation.ts';
import { quoted } from '../../runtime/foreign-text.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import { assemble, type Assembled } from './assemble.ts';
import { escrowErrors } from './codes.ts';
import { commandChecks } from './evaluators/command.ts';
import { escrowMigrations } from './migrations.ts';
import { formatUnits } from './money.ts';
import { guardedFetch, rpcOf, vetUrl } from './outbound.ts';
import type { Wallet } from './rows.ts';
import { viewerOf, type EscrowServices } from './services.ts';
import { escrowSettingsSchema, type EscrowSettings } from './settings.ts';
import { createEvm, type Evm } from './settlement/evm/index.ts';
import { evmMigrations } from './settlement/evm/store.ts';
import { adminOperations } from './operations/admin.ts';
import { deliveryOperations } from './operations/delivery.ts';
import { walletOperations } from './operations/wallets.ts';
import { workOperations } from './operations/work.ts';
import { evaluatorsOf, rolesOf } from './terms.ts';
import { verifyBooks } from './verify.ts';
import { turnWords, viewFields } from './view.ts';
import { listenerOf } from './webhooks.ts';
import { momentOf, type Work } from './work.ts';

export const escrowPlugin = definePlugin<EscrowSettings>({
  name: 'escrow',
  settings: escrowSettingsSchema,
  errors: escrowErrors,
  migrations: [...escrowMigrations, ...evmMigrations],
  jsonColumns: {
    escrow_accounts: ['policy'],
    escrow_work: ['spec', 'state'],
    escrow_payments: ['detail'],
  },
  check: async (reader) =>
    (await verifyBooks(reader)).problems.map((text) => ({ check: 'books', text })),
  create: createEscrow,
});

async function createEscrow(needs: KindNeeds<EscrowSettings>): Promise<KindParts> {
  const { settings, clock, log, egress } = needs;
  const evm = await chainOf(needs);
  const services = assemble({
    ...needs,
    fetch: guardedFetch(egress),
    vetUrl: (url) => vetUrl(egress, url),
    sign: (text) => needs.sign('x402', text),
    runCheck: commandChecks(needs.jobs, settings, checkFolder(needs)),
    ...(evm ? { settlements: [evm.settlement], makeAddress: evm.makeAddress } : {}),
  });
  const loops = [sweepLoop(services, needs), ...(evm ? [chainLoop(evm, services, needs)] : [])];
  return {
    kind: escrowKind(() => services),
    operations: escrowOperations(services),
    services: [
      services.schemas,
      leasesService(services),
      ...loops.map((loop) => waking(loop, services)),
    ],
    busy: async () => (await services.store.works.openWork()) > 0,
  };

  function sweepLoop(of: Assembled, { settings: { sweepMs: everyMs } }: KindNeeds<EscrowSettings>) {
    const run = async (signal: AbortSignal) => void (await of.sweeper.turn(signal));
    return new Loop({ name: 'escrow sweep', everyMs, clock, log, run });
  }
}

/** A check may run on any node of a cluster, and the homes of nodes are not in the same place. */
const checkFolder = ({ store, home }: KindNeeds<EscrowSettings>): string =>
  store.engine === 'sqlite' ? home : '/';

function chainLoop(evm: Evm, services: Assembled, needs: KindNeeds<EscrowSettings>): Loop {
  const { clock, log, settings } = needs;
  const everyMs = settings.evm!.pollMs;
  return new Loop({
    name: 'escrow chain',
    everyMs,
    clock,
    log,
    run: () => evm.turn(services.escrow),
  });
}

async function chainOf(needs: KindNeeds<EscrowSettings>): Promise<Evm | undefined> {
  const { store, clock, log, settings, egress } = needs;
  if (!settings.evm) return undefined;
  const rpc = rpcOf(egress, settings.evm.rpcUrl, settings.evm.timeoutMs);
  const secret = needs.sign('escrow keystore', 'v1');
  return createEvm({ store, clock, log, settings: settings.evm, rpc, secret });
}

/** Before anything is looked at: evaluations that were in hand when this server died are due. */
const leasesService = ({ evaluation }: Assembled): Service => ({
  name: 'escrow leases',
  start: () => evaluation.releaseLeases(),
  stop: async () => undefined,
});

/** What becomes due at once does not wait for the next turn. */
function waking(loop: Loop, services: Assembled): Service {
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

export function escrowOperations(services: EscrowServices): Operation[] {
  return [
    ...workOperations(services),
    ...deliveryOperations(services),
    ...walletOperations(services),
    ...adminOperations(services),
  ];
}

/** Works of jobs that are looked at again and again: reading one anew costs more than asking for its version. */
const worksKept = 1000;

interface KeptWork {
  work: Work;
  /** As strangers see it. */
  seen?: { over: boolean; fields: Record<string, unknown> };
}

/** `services` is asked for late: the kind is registered before its parts exist. */
export function escrowKind(services: () => EscrowServices): Kind {
  const kept = new Map<string, KeptWork>();
  const workOf = async (job: Job): Promise<Work | undefined> => {
    const { store } = services();
    const known = kept.get(job.id);
    if (known && (await store.works.workVersion(job.id)) === known.work.version) return known.work;
    const work = await store.works.findWork(job.id).catch(orUndecodable);
    if (!work) return undefined;
    if (kept.size >= worksKept) kept.clear();
    kept.set(job.id, { work });
    return work;
  };
  return {
    name: 'escrow',
    subject: 'wallet',
    allows: "spend from the owner's wallets, and hire and work for other agents",
    belongsTo: async (job, subject) => {
      const work = await services().store.works.findWork(job.id).catch(orUndecodable);
      return work !== undefined && rolesOf(work.terms, subject.slice('wallet:'.length)).size > 1;
    },
    dispatched: false,
    retryable: false,
    cancellable: false,
    keeps: true,
    capacity: () => 0,
    summary: (job) => {
      const { title, budget } = job.input as { title: string; budget: string };
      const agreed = job.facts.budget ?? budget;
      return `${quoted(title)} (budget ${formatUnits(Number(agreed))})`;
    },
    // The row does not say who reads it: name and tags are the client's words for everybody.
    line: ({ name, tags }) => ({
      ...(name === null ? {} : { name: quoted(name) }),
      ...(tags.length > 0 ? { tags: tags.map(quoted) } : {}),
    }),
    view: async (job, caller) => {
      const { clock } = services();
      const work = await workOf(job);
      if (!work) return {};
      const wallet = await walletOf(services(), caller, work.terms);
      const now = clock.now();
      if (wallet !== undefined) return viewFields(job, work, await viewerOf(services(), wallet));
      // All strangers see the same until the job or its deadline changes it; a pause is nothing to them.
      const over = momentOf(work, now) === 'after';
      const known = kept.get(job.id);
      if (known?.work === work && known.seen?.over === over) return known.seen.fields;
      const fields = viewFields(job, work, { now, paused: false });
      if (known?.work === work) known.seen = { over, fields };
      return fields;
    },
    words: turnWords,
    audience: async (job) => {
      const { store } = services();
      const work = await store.works.findWork(job.id);
      if (!work) return [];
      const { dispute } = work.terms;
      const arbiters = dispute ? [dispute.arbiter] : [];
      const parties = [work.client, work.provider, ...evaluatorsOf(work.terms), ...arbiters];
      const wallets = await Promise.all([...new Set(parties)].map((id) => store.findWallet(id)));
      return wallets.flatMap((wallet) => (wallet ? [wallet.owner, listenerOf(wallet.id)] : []));
    },
    readableBy: async (job, caller) => {
      const work = await services().store.works.findWork(job.id);
      return work !== undefined && (await walletOf(services(), caller, work.terms)) !== undefined;
    },
  };
}

/** A job whose terms cannot be decoded is shown with the fields of every job. */
function orUndecodable(error: unknown): undefined {
  if (error instanceof AppError && error.data?.undecodable) return undefined;
  throw error;
}

/** The caller's wallet that has a role in the job; of several, the client's: its texts are the caller's own. */
async function walletOf(
  services: EscrowServices,
  caller: Caller | undefined,
  terms: Parameters<typeof rolesOf>[0],
): Promise<Wallet | undefined> {
  if (!caller) return undefined;
  const wallets = await services.wallets.list(caller);
  const parties = wallets.filter(({ id }) => rolesOf(terms, id).size > 1);
  return parties.find(({ id }) => rolesOf(terms, id).has('client')) ?? parties[0];
}
