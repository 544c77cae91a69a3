// The settlement on an EVM chain: an action becomes an intent in the job's own transaction; the chain decides; the job
// moves when the contract's event is read. It declares what the contract can do, no more.
import { AppError } from '../../../../errors.ts';
import { randomId } from '../../../../jobs/job.ts';
import type { Step } from '../../../../store/store.ts';
import type { MoveInput } from '../../move.ts';
import { spending } from '../../policy.ts';
import type { Effect } from '../../stage.ts';
import type { Wallet } from '../../rows.ts';
import type { EscrowStore } from '../../store.ts';
import type { Work } from '../../work.ts';
import type { FixedTerms, Plan, Settlement } from '../settlement.ts';
import type { Chain, Hex } from './chain.ts';
import type { Identity } from './identity.ts';
import { reconcile, type ChainReport } from './reconcile.ts';
import type { EvmStore, Intent } from './store.ts';

export interface EvmParts {
  chain: Chain;
  evmStore: EvmStore;
  store: EscrowStore;
  operator: { address: string; key: Hex };
  identity: Identity;
  currency: string;
  now(): number;
}

/** Chain time counts in seconds. */
const secondMs = 1000;

export class EvmSettlement implements Settlement {
  readonly name = 'evm';
  readonly currency: string;
  readonly capabilities: ReadonlySet<string> = new Set(['counter', 'quorum', 'release-on-silence']);
  private readonly parts: EvmParts;
  private fixedTerms: (FixedTerms & { expiryMsMax: number }) | undefined;

  constructor(parts: EvmParts) {
    this.parts = parts;
    this.currency = parts.currency;
  }

  /** Asked again for every job: the contract's owner may change the fees of later jobs. */
  async fixed(): Promise<FixedTerms> {
    const { chain, identity } = this.parts;
    await identity.check();
    const platformBps = Number(await chain.read('platformFeeBP'));
    const evaluatorBps = Number(await chain.read('evaluatorFeeBP'));
    return { ...(await this.immutable()), fees: { platformBps, evaluatorBps } };
  }

  async open(work: Work): Promise<Plan> {
    const { expiryMsMax } = await this.immutable();
    if (Date.parse(work.terms.expiredAt) - work.createdAt > expiryMsMax) {
      throw new AppError('expiryTooLong', `The contract accepts at most ${expiryMsMax} ms.`, {
        hint: `Set expiresAt to ${new Date(work.createdAt + expiryMsMax).toISOString()} or earlier.`,
      });
    }
    const client = await this.parts.store.wallet(work.client);
    const { client: by, createdAt: now, budget } = work;
    const input: MoveInput = { action: 'counter', by, now, budget };
    return this.later({ work, action: 'create', effect: null, input, signer: client.address });
  }

  async plan(request: {
    before: Work;
    effect: Effect;
    input: MoveInput;
    move: { money: { hold: number } };
  }): Promise<Plan> {
    const { before, effect, move } = request;
    const { hold } = move.money;
    // The transaction pays this amount, whatever the budget is by the time it is signed.
    const input = hold > 0 ? { ...request.input, budget: hold } : request.input;
    const also = hold > 0 ? await this.spend(before, hold, input.now) : [];
    const signer = await this.signerOf(before, effect, input);
    return this.later({ work: before, action: input.action, effect, input, signer }, also);
  }

  async balanceOf({ address }: Wallet): Promise<number> {
    return Number(await this.parts.chain.tokenBalance(address));
  }

  async verify(): Promise<ChainReport> {
    await this.parts.identity.check();
    return reconcile(this.parts);
  }

  async trouble(): Promise<string | undefined> {
    try {
      const { chain, operator, identity } = this.parts;
      await identity.check();
      const gas = await chain.gasBalance(operator.address);
      return gas === 0n ? `the operator ${operator.address} has no gas` : undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** What the contract fixes for good. */
  private async immutable() {
    const { chain } = this.parts;
    const ms = async (name: string) => Number(await chain.read(name)) * secondMs;
    return (this.fixedTerms ??= {
      evaluationMs: await ms('EVALUATION_GRACE_PERIOD'),
      expiryMsMin: await ms('minExpirySeconds'),
      expiryMsMax: await ms('MAX_EXPIRY'),
    });
  }

  /** Limits of the wallet hold on every settlement; its balance is what the chain says. */
  private async spend(work: Work, amount: number, now: number): Promise<Step[]> {
    const { store } = this.parts;
    const wallet = await store.wallet(work.client);
    const balance = await this.balanceOf(wallet);
    const also = spending({ ...wallet, balance }, { amount, payee: work.provider, now });
    return [store.recordSpending(wallet, also)];
  }

  /** Verdicts of rules and quorums, and what anybody may do, are signed by the operator. */
  private async signerOf(work: Work, effect: Effect, input: MoveInput): Promise<string> {
    const { store, operator } = this.parts;
    const isVerdict = effect === 'verdictApprove' || effect === 'verdictReject';
    const isJoint = work.evaluator === null && isVerdict;
    if (isJoint || input.action === 'conclude') return operator.address;
    const wallet = await store.wallet(input.by);
    if (wallet.secret === null) {
      throw new AppError('unsupportedBySettlement', `${wallet.id} has no key on this chain.`, {
        hint: 'Wallets made while the evm settlement is configured have one.',
      });
    }
    return wallet.address;
  }

  private later(
    intent: { work: Work; action: string; effect: Effect | null; input: MoveInput; signer: string },
    also: Step[] = [],
  ): Plan {
    const row: Intent = {
      id: randomId('int_'),
      jobId: intent.work.jobId,
      action: intent.action,
      effect: intent.effect,
      input: JSON.stringify(intent.input),
      signer: intent.signer,
      step: 0,
      status: 'active',
      error: null,
      createdAt: this.parts.now(),
    };
    return { when: 'later', id: row.id, steps: [...also, this.parts.evmStore.insertIntent(row)] };
  }
}
