// Executes intents, one at a time per signer and in order: simulate the call, take the next nonce, sign, store the exact
// transaction, and only then send it. After a crash the same bytes are sent again, so an intent is executed once.
import { AppError } from '../../../../errors.ts';
import { randomId } from '../../../../runtime/id.ts';
import type { Log } from '../../../../runtime/log.ts';
import type { Step } from '../../../../store/store.ts';
import { agreedBudget } from '../../agreement.ts';
import type { Escrow } from '../../escrow.ts';
import type { MoveInput } from '../../move.ts';
import { specHash } from '../../terms.ts';
import type { Work } from '../../work.ts';
import { RpcError, type Call, type Hex, type SignedTx } from './chain.ts';
import type { EvmDeps } from './deps.ts';
import type { Keystore } from './keystore.ts';
import { isCurrent, type Intent, type Tx } from '../../store/chain.ts';

const batch = 200;
/** Maximum fee increases of one transaction: the last pays about six times the first. */
const maxReplacements = 8;
/** Chain time is in seconds. */
const secondMs = 1000;
/** The contract's `Silence` enum. */
const [silenceReleases, silenceRefunds] = [0, 1];
const noHook = '0x0000000000000000000000000000000000000000';

interface SenderDeps extends EvmDeps {
  escrow: Escrow;
  keystore: Keystore;
  confirmations: number;
  gasTopUpWei: bigint;
  /** A transaction not mined for this long gets a higher fee. */
  stuckMs: number;
  log: Log;
}

export class Sender {
  private readonly deps: SenderDeps;

  constructor(deps: SenderDeps) {
    this.deps = deps;
  }

  /** Advances every active intent once. If the node does not respond, the turn stops, but no intent is lost. */
  async turn(): Promise<void> {
    const busy = new Set<string>();
    for (const intent of await this.deps.evmStore.activeIntents(batch)) {
      // In order per signer (nonces) and per job (the contract would permanently refuse a call in another state).
      const keys = [intent.signer, ...(intent.jobId === null ? [] : [intent.jobId])];
      const waits = keys.some((key) => busy.has(key));
      for (const key of keys) busy.add(key);
      if (waits) continue;
      try {
        await this.advance(intent);
      } catch (error) {
        // The node will accept this transaction later (gas is on its way, or an earlier nonce is missing); others continue.
        if (error instanceof RpcError) this.log('not accepted yet', intent, error);
        else if (isEarly(intent, error)) await this.postpone(intent, error);
        else if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
        else await this.fail(intent, error);
      }
    }
  }

  private log(what: string, intent: Intent, error: Error): void {
    this.deps.log.debug(`escrow transaction ${what}`, { intent: intent.id, error });
  }

  private async advance(intent: Intent): Promise<void> {
    const txs = await this.deps.evmStore.txsOf(intent.id, intent.step);
    if (await this.follow(intent, txs)) return;
    const work = intent.jobId === null ? undefined : await this.deps.store.works.work(intent.jobId);
    const calls = await this.callsOf(intent, work);
    const call = calls[intent.step];
    if (call === 'wait') return;
    if (!call) return this.finish(intent, intent.step);
    if (await this.needsGas(intent)) return;
    await this.signAndSend(intent, call);
  }

  private async signAndSend(intent: Intent, call: Call): Promise<void> {
    const { chain, evmStore } = this.deps;
    const key = await this.keyOf(intent.signer);
    const nonce = Math.max(
      await chain.nonce(intent.signer),
      await evmStore.nonceAfter(intent.signer),
    );
    await this.writeAndSend(intent, nonce, await chain.sign(key, intent.signer, nonce, call));
  }

  /** Stores the transaction before sending it, so that the exact bytes survive a crash. */
  private async writeAndSend(
    intent: Intent,
    nonce: number,
    { raw, hash }: SignedTx,
    before: Step[] = [],
  ): Promise<void> {
    const { chain, evmStore, now } = this.deps;
    const { signer, step, id: intentId } = intent;
    const status = 'signed';
    const tx: Tx = {
      hash,
      intentId,
      step,
      signer,
      nonce,
      raw,
      status,
      block: null,
      createdAt: now(),
    };
    const written = await evmStore.commit([...before, evmStore.insertTx(tx)]);
    if (written.applied) await chain.send(raw);
  }

  /** Follows signed transactions: confirmed, lost, stuck or to be sent again. Returns false if a new one must be signed. */
  private async follow(intent: Intent, txs: readonly Tx[]): Promise<boolean> {
    const { chain, evmStore } = this.deps;
    for (const tx of txs) {
      const receipt = await chain.receipt(tx.hash);
      if (!receipt) continue;
      await this.mined(intent, tx, txs, receipt);
      return true;
    }
    const current = txs.find(isCurrent);
    if (!current) return false;
    if ((await this.usedNonces(current.signer)) > current.nonce) {
      // Another transaction used the nonce permanently: it can never be mined.
      await evmStore.commit([evmStore.txStatus(current.hash, 'dropped', null)]);
    } else if (this.deps.now() - current.createdAt < this.deps.stuckMs) {
      await chain.send(current.raw);
    } else await this.unstick(intent, current, txs);
    return true;
  }

  /** Counted at a depth where no reorganisation is expected; newer blocks may be undone. */
  private async usedNonces(signer: string): Promise<number> {
    const { chain, confirmations } = this.deps;
    const head = await chain.block('latest');
    const deep = (head?.number ?? 0) - confirmations;
    return deep < 0 ? 0 : chain.nonce(signer, deep);
  }

  /** Not mined for too long: raise the fee, or fill an earlier nonce that no transaction uses. */
  private async unstick(intent: Intent, current: Tx, txs: readonly Tx[]): Promise<void> {
    const { chain, evmStore, log } = this.deps;
    const next = await chain.nonce(current.signer);
    const ours = await evmStore.noncesFrom(current.signer, next);
    if (next < current.nonce && !ours.has(next)) {
      log.warn('an escrow transaction waits for an unused earlier nonce', {
        hash: current.hash,
        next,
      });
      await evmStore.commit([evmStore.txStatus(current.hash, 'dropped', null)]);
    } else if (next < current.nonce || txs.length > maxReplacements) await chain.send(current.raw);
    else {
      const key = await this.keyOf(current.signer);
      const signed = await chain.replacement(key, current.raw as Hex);
      log.warn('an escrow transaction is stuck: raising its fee', {
        stuck: current.hash,
        replacement: signed.hash,
      });
      const replaced = evmStore.txStatus(current.hash, 'replaced', null);
      await this.writeAndSend(intent, current.nonce, signed, [replaced]);
    }
  }

  private async mined(
    intent: Intent,
    tx: Tx,
    txs: readonly Tx[],
    receipt: { ok: boolean; block: number },
  ): Promise<void> {
    const { chain, evmStore, confirmations } = this.deps;
    const head = await chain.block('latest');
    if (!head || head.number - receipt.block + 1 < confirmations) return;
    if (!receipt.ok) throw new AppError('settlementFailed', `The chain reverted ${tx.hash}.`);
    const others = txs.filter((one) => one !== tx && one.status !== 'dropped');
    await evmStore.commit([
      ...others.map(({ hash }) => evmStore.txStatus(hash, 'dropped', null)),
      evmStore.txStatus(tx.hash, 'mined', receipt.block),
      evmStore.intentStep(intent.id, intent.step + 1, 'active'),
    ]);
    await this.advance({ ...intent, step: intent.step + 1 });
  }

  private async finish(intent: Intent, step: number): Promise<void> {
    const { evmStore } = this.deps;
    await evmStore.commit([evmStore.intentStep(intent.id, step, 'done')]);
  }

  /** The chain's clock is behind, or a pause stopped the evaluation window: the job gets the later deadline. */
  private async postpone(intent: Intent, error: AppError): Promise<void> {
    const { chain, store, now, stuckMs } = this.deps;
    this.log('too early', intent, error);
    const work = await store.works.work(intent.jobId!);
    if (work.phase !== 'submitted' || work.external === null) return;
    const end = Number(await chain.read('evaluationEnd', [BigInt(work.external)])) * secondMs;
    if (end < (work.deadlineAt ?? 0) + secondMs) return;
    await this.fail(intent, error, { deadlineAt: end, nextAt: Math.max(end, now() + stuckMs) });
  }

  /** Releases the job and logs the reason; a job that was never created on the chain ends. */
  private async fail(
    intent: Intent,
    error: AppError,
    later?: Pick<Work, 'deadlineAt' | 'nextAt'>,
  ): Promise<void> {
    const { evmStore, escrow, log } = this.deps;
    const over = evmStore.intentStep(intent.id, intent.step, 'failed', error.message);
    log.warn('an escrow action failed on the chain', { intent: intent.id, code: error.code });
    if (intent.jobId === null) return void (await evmStore.commit([over]));
    const now = this.deps.now();
    if (intent.action === 'create') {
      const input: MoveInput = { action: 'cancel', by: 'system', now, reason: error.message };
      await escrow.confirm(intent.jobId, 'withdraw', input, () => [over]);
      return;
    }
    const data = { action: intent.action, code: error.code, message: error.message };
    await escrow.note(
      intent.jobId,
      (work) => {
        const pending = work.state.pending?.id === intent.id ? null : work.state.pending;
        const state = { ...work.state, pending };
        // An immediate retry would fail again, so the next attempt is delayed.
        const isDue = work.nextAt !== null && work.nextAt <= now;
        const nextAt = isDue ? now + this.deps.stuckMs : work.nextAt;
        const event = { type: 'settlementFailed', data };
        return { work: { ...work, state, nextAt, ...later, updatedAt: now }, event };
      },
      () => [over],
    );
  }

  /** Wallets hold no gas: the operator tops them up through the same queue. */
  private async needsGas(intent: Intent): Promise<boolean> {
    const { chain, operator, gasTopUpWei, evmStore, now } = this.deps;
    if (intent.signer === operator.address) return false;
    if ((await chain.gasBalance(intent.signer)) >= gasTopUpWei / 5n) return false;
    const active = await evmStore.activeIntents(batch);
    const input = JSON.stringify({ to: intent.signer });
    if (active.some((one) => one.action === 'gas' && one.input === input)) return true;
    const topUp: Intent = {
      ...intent,
      id: randomId('int_'),
      jobId: null,
      action: 'gas',
      effect: null,
      input,
      signer: operator.address,
      step: 0,
      createdAt: now(),
    };
    await evmStore.commit([evmStore.insertIntent(topUp)]);
    return true;
  }

  private async keyOf(address: string): Promise<Hex> {
    const { operator, store, keystore } = this.deps;
    if (address === operator.address) return operator.key;
    return keystore.open((await store.wallet(address)).secret!);
  }

  /** The calls of an intent in order; `wait` if one needs data from the event of an earlier one. */
  private async callsOf(intent: Intent, work: Work | undefined): Promise<(Call | 'wait')[]> {
    const { chain, gasTopUpWei } = this.deps;
    if (intent.action === 'withdraw') {
      const hasCredit = (await chain.credit(intent.signer)) > 0n;
      return hasCredit ? [chain.encode('withdraw', [chain.token, intent.signer])] : [];
    }
    if (!work) {
      const { to } = JSON.parse(intent.input) as { to: Hex };
      return [{ to, data: '0x', value: gasTopUpWei }];
    }
    const input = JSON.parse(intent.input) as MoveInput;
    const id = work.external === null ? undefined : BigInt(work.external);
    const call = (name: string, ...args: unknown[]) =>
      id === undefined ? 'wait' : chain.encode(name, [id, ...args]);
    const amount = BigInt(input.budget ?? agreedBudget(work));
    const reason = bytes32(specHash(input.verdict?.reason ?? input.reason ?? ''));
    switch (intent.action) {
      case 'create':
        return [
          await this.creation(work),
          call('setBudget', chain.token, BigInt(input.budget!), '0x'),
        ];
      case 'counter':
        return [call('setBudget', chain.token, amount, '0x')];
      case 'fund':
        // The amount that the client agreed to when it acted. The contract rejects the call if the budget differs by now.
        return [chain.approval(amount), call('fund', amount, '0x')];
      case 'submit':
        return [call('submit', bytes32(input.submission!.hash), '0x')];
      case 'approve':
        return [call('complete', reason, '0x')];
      case 'conclude':
        return [call(isReleased(intent, work) ? 'claimRelease' : 'claimRefund')];
      default:
        return [call('reject', reason, '0x')];
    }
  }

  /** If a rule or a quorum decides, the operator is the evaluator on the chain and submits the verdict. */
  private async creation(work: Work): Promise<Call> {
    const { chain, store, operator } = this.deps;
    const judge = work.evaluator;
    const evaluator = judge === null ? operator.address : (await store.wallet(judge)).address;
    const provider = (await store.wallet(work.provider)).address;
    const expiry = BigInt(Math.floor(Date.parse(work.terms.expiredAt) / 1000));
    const { fees, silence } = work.terms;
    // The contract rejects fees that differ from the spec: its owner may have changed them since.
    const conditions = {
      silence: silence === 'release' ? silenceReleases : silenceRefunds,
      platformFeeBP: BigInt(fees.platformBps),
      evaluatorFeeBP: BigInt(fees.evaluatorBps),
    };
    const args = [provider, evaluator, expiry, specHash(work.spec), noHook, 0n, conditions];
    return chain.encode('createJobWithTerms', args);
  }
}

/** Silence after a delivery pays the provider, unless the terms say otherwise. */
const isReleased = (intent: Intent, work: Work): boolean =>
  intent.effect === 'silence' && work.terms.silence === 'release';

const isEarly = (intent: Intent, error: unknown): error is AppError =>
  intent.action === 'conclude' &&
  error instanceof AppError &&
  ['notYetExpired', 'evaluationPending'].includes(error.code);

/** The 32 bytes of a hash, without its prefix. */
const bytes32 = (hash: string): Hex => `0x${hash.replace(/^(0x|sha256:)/, '')}`;
