// The parts of escrow as operations use them, and the few questions that all of them ask: who calls, may they see this job.
import type { z } from 'zod';
import type { Access } from '../../access/access.ts';
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
import type { Wallet } from './rows.ts';
import type { EscrowSettings } from './settings.ts';
import type { EscrowStore } from './store.ts';
import { rolesOf, type Silence } from './terms.ts';
import { viewWallet, viewWork, type Viewer, type walletView, type WorkView } from './view.ts';
import type { Wallets } from './wallets.ts';
import type { WalletHooks } from './webhooks.ts';
import type { Verdict, Work } from './work.ts';
import type { X402 } from './x402.ts';

export interface EscrowServices {
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

/** Operations with a scope other than public always have a caller. */
export function callerOf(context: CallContext): Caller {
  if (!context.caller) throw new AppError('unauthorized', 'This needs a key.');
  return context.caller;
}

/** Who acts on which job: the wallet that the caller means, and the job as that wallet may know it. */
export async function actingOn(
  services: EscrowServices,
  input: { id: string; wallet?: string | undefined },
  context: CallContext,
): Promise<{ wallet: Wallet; before: Work }> {
  const caller = callerOf(context);
  const wallet = await services.wallets.actingFor(caller, input.wallet);
  return { wallet, before: await knownWork(services, input.id, caller, wallet.id) };
}

/** A private job looks unknown to everybody who has no role in it. */
export async function knownWork(
  services: EscrowServices,
  id: string,
  caller: Caller | undefined,
  wallet: string | undefined,
): Promise<Work> {
  const work = await services.store.works.work(id);
  const party = rolesOf(work.terms, wallet).size > 1 || caller?.admin;
  if (party) return work;
  const job = await services.jobs.get(id);
  const own = caller?.subject === undefined && job.owner === caller?.owner;
  if (job.visibility === 'private' && !own) {
    throw new AppError('notFound', `There is no escrow job ${id}.`, {
      hint: 'list_work shows the jobs of your wallet.',
    });
  }
  return work;
}

export async function shown(
  services: EscrowServices,
  work: Work,
  wallet: Wallet,
): Promise<WorkView> {
  return viewWork(work, await viewerOf(services, wallet));
}

/** What a pause stops for everybody, a freeze stops for one wallet. */
export async function viewerOf(
  services: Pick<EscrowServices, 'store' | 'clock'>,
  wallet: Wallet,
): Promise<Viewer> {
  const now = services.clock.now();
  const paused = !isActive(wallet, now) || (await services.store.paused());
  return { wallet: wallet.id, now, paused };
}

/** Does it, or answers the job as it is when a call before this one (a retry, a twin) has done the same already. */
export async function once(
  services: EscrowServices,
  id: string,
  done: (work: Work) => boolean,
  act: () => Promise<Work>,
): Promise<{ work: Work; existing: boolean }> {
  const before = await services.store.works.work(id);
  if (done(before)) return { work: before, existing: true };
  try {
    return { work: await act(), existing: false };
  } catch (error) {
    const late = error instanceof AppError && ['wrongStage', 'jobFinal'].includes(error.code);
    const work = late ? await services.store.works.work(id) : before;
    if (late && done(work)) return { work, existing: true };
    throw error;
  }
}

/** With what it can spend on the settlement of this server. A chain that is silent hides the balance, not the wallet. */
export async function shownWallet(
  services: EscrowServices,
  wallet: Wallet,
): Promise<z.infer<typeof walletView>> {
  const settlement = services.escrow.settlement(services.settings.settlement);
  const { currency, name } = settlement;
  if (name === 'ledger') return viewWallet(wallet, { micro: wallet.balance, currency });
  const micro = await settlement.balanceOf(wallet).catch(() => undefined);
  return { ...viewWallet(wallet, { micro, currency }), credit: formatUnits(wallet.balance) };
}

export async function shownOnce(
  services: EscrowServices,
  answer: { work: Work; existing: boolean },
  wallet: Wallet,
): Promise<WorkView> {
  const view = await shown(services, answer.work, wallet);
  return answer.existing ? { ...view, existing: true } : view;
}

export const isFundedBy = (wallet: string) => (work: Work) =>
  work.client === wallet &&
  work.phase !== 'open' &&
  work.state.txs.some((tx) => tx.kind === 'fund');

/** The wallet has said so before, alone or as one of a quorum: its call came again. */
export const isJudgedBy = (wallet: string, outcome: Verdict['outcome']) => (work: Work) => {
  const { verdict, votes } = work.state;
  const said = [...(work.phase === 'submitted' || !verdict ? [] : [verdict]), ...votes];
  return said.some((one) => one.by === wallet && one.outcome === outcome);
};

export const isDisputedBy = (wallet: string) => (work: Work) =>
  work.phase === 'disputed' && work.state.dispute?.by === wallet;

export const isResolvedBy = (wallet: string, answer: Silence) => (work: Work) =>
  work.terms.dispute?.arbiter === wallet &&
  work.state.outcome === (answer === 'split' ? 'split' : 'resolved') &&
  work.phase === (answer === 'refund' ? 'rejected' : 'completed');
