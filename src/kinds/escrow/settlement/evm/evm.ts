// The settlement on an EVM chain: an action becomes an intent in the job's own transaction, the chain decides, and the job
// moves when the contract's event is read. It declares exactly the contract's capabilities.
import { AppError } from '../../../../errors.ts';
import { randomId } from '../../../../runtime/id.ts';
import type { Step } from '../../../../store/store.ts';
import type { MoveInput } from '../../move.ts';
import { spending } from '../../policy.ts';
import type { Effect } from '../../stage.ts';
import type { Wallet } from '../../store/rows.ts';
import type { Work } from '../../work.ts';
import type { FixedTerms, Plan, Settlement } from '../settlement.ts';
import { reconcile, type ChainReport } from './reconcile.ts';
import type { Intent } from '../../store/chain.ts';
import type { EvmDeps } from './deps.ts';

/** Chain time is in seconds. */
const secondMs = 1000;

export class EvmSettlement implements Settlement {
  readonly name = 'evm';
  readonly currency: string;
  readonly capabilities: ReadonlySet<string> = new Set(['counter', 'quorum', 'release-on-silence']);
  private readonly deps: EvmDeps;
  private fixedTerms: (FixedTerms & { maxExpiryMs: number }) | undefined;

  constructor(deps: EvmDeps) {
    this.deps = deps;
    this.currency = deps.currency;
  }

  /** Read for every job: the contract's owner may change the fees of later jobs. */
  async fixed(): Promise<FixedTerms> {
    const { chain, identity } = this.deps;
    await identity.check();
    const platformBps = Number(await chain.read('platformFeeBP'));
    const evaluatorBps = Number(await chain.read('evaluatorFeeBP'));
    return { ...(await this.immutable()), fees: { platformBps, evaluatorBps } };
  }

  async open(work: Work): Promise<Plan> {
    const { maxExpiryMs } = await this.immutable();
    if (Date.parse(work.terms.expiredAt) - work.createdAt > maxExpiryMs) {
      throw new AppError(
        'expiryTooLong',
        `The contract accepts at most ${maxExpiryMs} ms for delivery.`,
        {
          hint: `Set expiresAt to ${new Date(work.createdAt + maxExpiryMs).toISOString()} or earlier.`,
        },
      );
    }
    const client = await this.deps.store.wallet(work.client);
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
    // The transaction pays this amount, even if the budget changes before it is signed.
    const input = hold > 0 ? { ...request.input, budget: hold } : request.input;
    const also = hold > 0 ? await this.spend(before, hold, input.now) : [];
    const signer = await this.signerOf(before, effect, input);
    return this.later({ work: before, action: input.action, effect, input, signer }, also);
  }

  async balanceOf({ address }: Wallet): Promise<number> {
    return Number(await this.deps.chain.tokenBalance(address));
  }

  async verify(): Promise<ChainReport> {
    await this.deps.identity.check();
    return reconcile(this.deps);
  }

  async trouble(): Promise<string | undefined> {
    try {
      const { chain, operator, identity } = this.deps;
      await identity.check();
      const gas = await chain.gasBalance(operator.address);
      return gas === 0n ? `the operator account ${operator.address} has no gas` : undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** The constants of the contract. */
  private async immutable() {
    const { chain } = this.deps;
    const ms = async (name: string) => Number(await chain.read(name)) * secondMs;
    return (this.fixedTerms ??= {
      evaluationMs: await ms('EVALUATION_GRACE_PERIOD'),
      minExpiryMs: await ms('minExpirySeconds'),
      maxExpiryMs: await ms('MAX_EXPIRY'),
    });
  }

  /** Wallet limits apply on every settlement; the balance comes from the chain. */
  private async spend(work: Work, amount: number, now: number): Promise<Step[]> {
    const { store } = this.deps;
    const wallet = await store.wallet(work.client);
    const balance = await this.balanceOf(wallet);
    const also = spending({ ...wallet, balance }, { amount, payee: work.provider, now });
    return [store.recordSpending(wallet, also)];
  }

  /** The operator signs verdicts of rules and quorums, and actions that are open to everybody. */
  private async signerOf(work: Work, effect: Effect, input: MoveInput): Promise<string> {
    const { store, operator } = this.deps;
    const isVerdict = effect === 'verdictApprove' || effect === 'verdictReject';
    const isJoint = work.evaluator === null && isVerdict;
    if (isJoint || input.action === 'conclude') return operator.address;
    const wallet = await store.wallet(input.by);
    if (wallet.secret === null) {
      throw new AppError(
        'unsupportedBySettlement',
        `Wallet ${wallet.id} has no key on this chain.`,
        {
          hint: 'Only wallets created while the evm settlement is configured have one. Create a new wallet.',
        },
      );
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
      createdAt: this.deps.now(),
    };
    return { when: 'later', id: row.id, steps: [...also, this.deps.evmStore.insertIntent(row)] };
  }
}
