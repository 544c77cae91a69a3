// The dependencies of escrow operations, and the checks they share: who calls, and may they see this job.
import type { z } from 'zod';
import type { Access } from '../../access/keys.ts';
import { AppError } from '../../errors.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { CallContext, Caller } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Escrow } from './escrow.ts';
import type { Evaluation } from './evaluators/evaluation.ts';
import { formatUnits } from './money.ts';
import type { Payments } from './payments.ts';
import { isActive } from './policy.ts';
import type { Posting } from './posting.ts';
import type { Wallet } from './store/rows.ts';
import type { EscrowSettings } from './settings.ts';
import type { EscrowStore } from './store/store.ts';
import { rolesOf, type Silence } from './terms.ts';
import { viewWallet, viewWork, type Viewer, type walletView, type WorkView } from './view.ts';
import type { Wallets } from './wallets.ts';
import type { WalletHooks } from './webhooks.ts';
import type { Verdict, Work } from './work.ts';
import type { X402 } from './x402.ts';

export interface EscrowDeps {
  escrow: Escrow;
  posting: Posting;
  evaluation: Evaluation;
  wallets: Wallets;
  hooks: WalletHooks;
  payments: Payments;
  x402: X402;
  store: EscrowStore;
  settings: EscrowSettings;
  jobs: Jobs;
  access: Access;
  clock: Clock;
}

/** Every operation whose scope is not public has a caller. */
export function callerOf(context: CallContext): Caller {
  if (!context.caller) throw new AppError('unauthorized', 'A valid API key is required.');
  return context.caller;
}

/** Resolves the wallet that the caller acts for, and the job as that wallet may see it. */
export async function actingOn(
  deps: EscrowDeps,
  input: { id: string; wallet?: string | undefined },
  context: CallContext,
): Promise<{ wallet: Wallet; before: Work }> {
  const caller = callerOf(context);
  const wallet = await deps.wallets.actingFor(caller, input.wallet);
  return { wallet, before: await visibleWork(deps, input.id, caller, wallet.id) };
}

/** A private job looks as if it did not exist to everybody without a role in it. */
export async function visibleWork(
  deps: EscrowDeps,
  id: string,
  caller: Caller | undefined,
  wallet: string | undefined,
): Promise<Work> {
  const work = await deps.store.works.work(id);
  const party = rolesOf(work.terms, wallet).size > 1 || caller?.admin;
  if (party) return work;
  const job = await deps.jobs.get(id);
  const own = caller?.subject === undefined && job.owner === caller?.owner;
  if (job.visibility === 'private' && !own) {
    throw new AppError('notFound', `Escrow job ${id} does not exist.`, {
      hint: 'list_work lists the jobs of your wallet.',
    });
  }
  return work;
}

export async function toWorkView(deps: EscrowDeps, work: Work, wallet: Wallet): Promise<WorkView> {
  return viewWork(work, await viewerOf(deps, wallet));
}

/** A freeze stops for one wallet what a pause stops for all. */
export async function viewerOf(
  deps: Pick<EscrowDeps, 'store' | 'clock'>,
  wallet: Wallet,
): Promise<Viewer> {
  const now = deps.clock.now();
  const paused = !isActive(wallet, now) || (await deps.store.paused());
  return { wallet: wallet.id, now, paused };
}

/** Acts, or returns the job unchanged if an earlier call (a retry or a concurrent duplicate) already did the same. */
export async function once(
  deps: EscrowDeps,
  id: string,
  done: (work: Work) => boolean,
  act: () => Promise<Work>,
): Promise<{ work: Work; existing: boolean }> {
  const before = await deps.store.works.work(id);
  if (done(before)) return { work: before, existing: true };
  try {
    return { work: await act(), existing: false };
  } catch (error) {
    const late = error instanceof AppError && ['wrongStage', 'jobFinal'].includes(error.code);
    const work = late ? await deps.store.works.work(id) : before;
    if (late && done(work)) return { work, existing: true };
    throw error;
  }
}

/** Shows the balance on this server's settlement. If a chain does not respond, only the balance is missing. */
export async function toWalletView(
  deps: EscrowDeps,
  wallet: Wallet,
  reader: string | undefined,
): Promise<z.infer<typeof walletView>> {
  const settlement = deps.escrow.settlement(deps.settings.settlement);
  const { currency, name } = settlement;
  if (name === 'ledger') return viewWallet(wallet, { micro: wallet.balance, currency }, reader);
  const micro = await settlement.balanceOf(wallet).catch(() => undefined);
  return {
    ...viewWallet(wallet, { micro, currency }, reader),
    credit: formatUnits(wallet.balance),
  };
}

export async function toCallResult(
  deps: EscrowDeps,
  result: { work: Work; existing: boolean },
  wallet: Wallet,
): Promise<WorkView> {
  const view = await toWorkView(deps, result.work, wallet);
  return result.existing ? { ...view, existing: true } : view;
}

export const isFundedBy = (wallet: string) => (work: Work) =>
  work.client === wallet &&
  work.phase !== 'open' &&
  work.state.txs.some((tx) => tx.kind === 'fund');

/** True if the wallet already gave this verdict, alone or as a quorum member: the call is a retry. */
export const isJudgedBy = (wallet: string, outcome: Verdict['outcome']) => (work: Work) => {
  const { verdict, votes } = work.state;
  const given = [...(work.phase === 'submitted' || !verdict ? [] : [verdict]), ...votes];
  return given.some((one) => one.by === wallet && one.outcome === outcome);
};

export const isDisputedBy = (wallet: string) => (work: Work) =>
  work.phase === 'disputed' && work.state.dispute?.by === wallet;

export const isResolvedBy = (wallet: string, answer: Silence) => (work: Work) =>
  work.terms.dispute?.arbiter === wallet &&
  work.state.outcome === (answer === 'split' ? 'split' : 'resolved') &&
  work.phase === (answer === 'refund' ? 'rejected' : 'completed');
