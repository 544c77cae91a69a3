// The default settlement: double-entry bookkeeping in the job store. Funding is a pending transfer into the job's own escrow
// account; it is posted (paid out) or voided (refunded) once, in the transaction that moves the job.
import { AppError } from '../../../../errors.ts';
import type { Step } from '../../../../store/store.ts';
import type { Money, Move } from '../../move.ts';
import { divide } from '../../money.ts';
import { spending } from '../../policy.ts';
import type { Wallet } from '../../store/rows.ts';
import type { EscrowStore } from '../../store/store.ts';
import { evaluatorsOf } from '../../terms.ts';
import type { Work } from '../../work.ts';
import { capabilityNames, type Plan, type Settlement } from '../settlement.ts';
import { escrowAccount, feeAccount, type Line } from './book.ts';
import { transferSteps } from '../../store/entries.ts';

export class LedgerSettlement implements Settlement {
  readonly name = 'ledger';
  readonly currency = 'CREDIT';
  readonly capabilities: ReadonlySet<string> = new Set(capabilityNames);
  private readonly store: EscrowStore;

  constructor(store: EscrowStore) {
    this.store = store;
  }

  async fixed(): Promise<Record<string, never>> {
    return {};
  }

  async open(): Promise<Plan> {
    return { when: 'now', steps: [] };
  }

  async plan({ before, move }: { before: Work; move: Move }): Promise<Plan> {
    const { money } = move;
    if (money.hold > 0) return { when: 'now', steps: await this.hold(before, move) };
    if (money.release + money.refund === 0) return { when: 'now', steps: [] };
    return { when: 'now', steps: await this.payOut(before, move) };
  }

  async balanceOf({ balance }: Wallet): Promise<number> {
    return balance;
  }

  async trouble(): Promise<undefined> {
    return undefined;
  }

  private async hold(before: Work, move: Move): Promise<Step[]> {
    const wallet = await this.store.wallet(before.client);
    const at = move.work.updatedAt;
    const also = spending(wallet, { amount: move.money.hold, payee: before.provider, now: at });
    const escrow = escrowAccount(before.jobId);
    return [
      this.store.insertEscrowAccount(escrow, at),
      ...transferSteps({
        id: transferId(move),
        source: wallet,
        lines: [{ credit: escrow, amount: move.money.hold, kind: 'hold' }],
        jobId: before.jobId,
        at,
        also,
      }),
    ];
  }

  /** Pays out the balance of the escrow account, never the budget that the job states. */
  private async payOut(before: Work, move: Move): Promise<Step[]> {
    const source = await this.store.account(escrowAccount(before.jobId));
    const { money } = move;
    if (
      !source ||
      source.balance !== before.held ||
      money.release + money.refund > source.balance
    ) {
      throw new AppError(
        'escrowMismatch',
        `The escrow balance of ${before.jobId} does not match the job.`,
        {
          hint: 'Nothing was paid. Run `errand escrow verify` and inform the operator.',
          data: { held: before.held, found: source?.balance ?? 0 },
        },
      );
    }
    return transferSteps({
      id: transferId(move),
      source,
      lines: payouts(before, move, money),
      jobId: before.jobId,
      at: move.work.updatedAt,
    });
  }
}

const transferId = (move: Move): string => move.work.state.txs.at(-1)!.id;

/** Provider, evaluators and platform share the released amount; the client gets the rest back. */
function payouts(work: Work, move: Move, money: Money): Line[] {
  const shares = divide(money.release, work.terms.fees);
  const voters = paidEvaluators(work, move);
  const each = voters.length > 0 ? Math.floor(shares.evaluator / voters.length) : 0;
  const evaluators: Line[] =
    voters.length > 0
      ? voters.map((credit) => ({ credit, amount: each, kind: 'fee' }))
      : [{ credit: feeAccount('evaluator', work.jobId), amount: shares.evaluator, kind: 'fee' }];
  const remainder = voters.length > 0 ? shares.evaluator - each * voters.length : 0;
  const lines: Line[] = [
    { credit: work.provider, amount: shares.provider + remainder, kind: 'release' },
    ...evaluators,
    { credit: feeAccount('platform', work.jobId), amount: shares.platform, kind: 'fee' },
    { credit: work.client, amount: money.refund, kind: 'refund' },
  ];
  return lines.filter(({ amount }) => amount > 0);
}

/** Wallets that decided: the manual evaluator, or the quorum members that voted. */
function paidEvaluators(work: Work, move: Move): string[] {
  const named = evaluatorsOf(work.terms);
  if (work.terms.evaluation.type !== 'quorum') return named;
  const voted = new Set(move.work.state.votes.map(({ by }) => by));
  return [...new Set(named)].filter((wallet) => voted.has(wallet));
}
