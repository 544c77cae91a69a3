// Reads the contract's events and moves jobs accordingly: the chain is the authority, even for calls made without this
// server. Each event stores the job as it was before, so that a chain reorganisation can be undone and read again.
import type { Log } from '../../../../runtime/log.ts';
import type { Step } from '../../../../store/store.ts';
import type { Escrow } from '../../escrow.ts';
import { planMove, type MoveInput } from '../../move.ts';
import { finalPhases, type Effect, type Phase } from '../../stage.ts';
import type { EscrowStore } from '../../store/store.ts';
import type { Terms } from '../../terms.ts';
import type { Work } from '../../work.ts';
import type { Chain, ChainEvent } from './chain.ts';
import type { EvmStore, Intent } from '../../store/chain.ts';

const pageBlocks = 2000;
/** Number of stored block hashes: a deeper reorganisation cannot be undone. */
const blocksKept = 5000;

interface IndexerDeps {
  chain: Chain;
  evmStore: EvmStore;
  store: EscrowStore;
  escrow: Escrow;
  confirmations: number;
  /** Throws if the node's genesis block differs from the stored one. */
  sameChain(): Promise<void>;
  log: Log;
}

export class Indexer {
  private readonly deps: IndexerDeps;

  constructor(deps: IndexerDeps) {
    this.deps = deps;
  }

  async turn(): Promise<void> {
    const { chain, evmStore, confirmations } = this.deps;
    const from = await this.rewindToCommonBlock();
    const head = await chain.block('latest');
    const to = (head?.number ?? 0) - (confirmations - 1);
    for (let start = from + 1; start <= to; start += pageBlocks) {
      const end = Math.min(start + pageBlocks - 1, to);
      const last = await chain.block(end);
      if (!last) return;
      // A block is stored right after its events are applied: it marks the progress of the jobs.
      const byBlock = Map.groupBy(await chain.events(start, end), ({ block }) => block);
      for (const [number, events] of byBlock) {
        for (const event of events) await this.apply(event);
        await evmStore.commit(evmStore.insertBlock(number, events[0]!.blockHash, blocksKept));
      }
      await evmStore.commit(evmStore.insertBlock(last.number, last.hash, blocksKept));
    }
  }

  /** Returns the newest block that both sides know, after undoing everything later. */
  private async rewindToCommonBlock(): Promise<number> {
    const { chain, evmStore, log } = this.deps;
    const known = await evmStore.lastBlocks(blocksKept);
    for (const [i, block] of known.entries()) {
      if ((await chain.block(block.number))?.hash !== block.hash) continue;
      if (i > 0) await this.rewind(block.number);
      return block.number;
    }
    if (known.length > 0) {
      await this.deps.sameChain();
      log.warn('no common block with the chain: reading everything again');
      await this.rewind(-1);
    }
    return -1;
  }

  private async rewind(to: number): Promise<void> {
    const { evmStore, escrow, log } = this.deps;
    log.warn('the chain was reorganised', { to });
    for (const event of await evmStore.eventsAfter(to)) {
      const before = JSON.parse(event.before) as Snapshot;
      await escrow.note(
        event.jobId,
        (work) => ({
          work: { ...work, ...before, terms: JSON.parse(before.spec) as Terms },
          event: { type: 'rewound', data: { event: event.name, block: event.block } },
        }),
        () => [evmStore.forgetEvent(event.block, event.logIndex)],
      );
    }
    await evmStore.commit(await evmStore.rewind(to));
  }

  private async apply(event: ChainEvent): Promise<void> {
    const { evmStore } = this.deps;
    if (event.name === 'Credited') return this.storeWithdrawal(event);
    if (!handled.has(event.name)) return;
    if (await evmStore.seen(event.block, event.logIndex)) return;
    const tx = await evmStore.tx(event.txHash);
    const intent = tx && (await evmStore.intent(tx.intentId));
    const external = String(event.args.jobId);
    const jobId = event.name === 'JobCreated' ? intent?.jobId : await evmStore.byExternal(external);
    if (!jobId) return;
    const block = await this.deps.chain.block(event.block);
    const now = (block?.timestamp ?? 0) * 1000;
    const remember = (before: Work): Step[] => [
      evmStore.insertEvent({ ...event, jobId, before: JSON.stringify(snapshot(before)) }),
    ];
    if (event.name === 'JobCreated') return this.created(jobId, external, event.txHash, remember);
    if (event.name === 'BudgetSet' && intent?.action === 'create') {
      return this.ready(jobId, Number(event.args.amount), remember);
    }
    await this.move({ event, intent, jobId, now, remember });
  }

  private async created(
    jobId: string,
    external: string,
    hash: string,
    remember: (before: Work) => Step[],
  ): Promise<void> {
    await this.deps.escrow.note(
      jobId,
      (work) => {
        // If two transactions exist for one step, only the first created this job.
        if (work.external !== null) return undefined;
        const txs = work.state.txs.map((tx, i) => (i === 0 ? { ...tx, hash } : tx));
        return { work: { ...work, external, state: { ...work.state, txs } } };
      },
      remember,
    );
  }

  private async ready(
    jobId: string,
    budget: number,
    remember: (before: Work) => Step[],
  ): Promise<void> {
    const { escrow } = this.deps;
    await escrow.note(
      jobId,
      (work) => {
        const { fundNext } = work.state;
        const nextAt = fundNext === undefined ? work.nextAt : escrow.deps.clock.now();
        const state = { ...work.state, pending: null };
        const event = { type: 'created', data: { settlementId: work.external } };
        return { work: { ...work, budget, nextAt, state }, event };
      },
      remember,
    );
    escrow.due();
  }

  /** A wallet of this server withdraws its credit itself: the intent is stored once per event. */
  private async storeWithdrawal(event: ChainEvent): Promise<void> {
    const { chain, evmStore, store, escrow } = this.deps;
    if (String(event.args.token).toLowerCase() !== chain.token) return;
    const wallet = await store.findWallet(String(event.args.account).toLowerCase());
    if (!wallet || wallet.secret === null) return;
    const intent: Intent = {
      id: `int_${event.blockHash}_${event.logIndex}`,
      jobId: null,
      action: 'withdraw',
      effect: null,
      input: '{}',
      signer: wallet.address,
      step: 0,
      status: 'active',
      error: null,
      createdAt: escrow.deps.clock.now(),
    };
    await evmStore.commit([evmStore.insertIntentOnce(intent)]);
  }

  private async move(of: {
    event: ChainEvent;
    intent: Intent | undefined;
    jobId: string;
    now: number;
    remember: (before: Work) => Step[];
  }): Promise<void> {
    const { event, intent, jobId, now, remember } = of;
    const work = await this.deps.store.works.work(jobId);
    if (!isRelevant(event, work, this.deps.chain.token)) return;
    const effect = (intent?.effect as Effect | null) ?? effectOf(event.name, work.phase);
    if (!effect) return;
    const given = intent
      ? (JSON.parse(intent.input) as MoveInput)
      : await this.readForeignEvent(event, work, now);
    const input: MoveInput = { ...given, now, txHash: event.txHash };
    if (input.submission) input.submission = { ...input.submission, at: now };
    if (amountEvents.has(event.name)) input.budget = Number(event.args.amount);
    if (!intent && effect === 'offer') return this.offered(jobId, input, remember);
    const stranger = !intent && input.submission ? [this.deliverable(jobId, input)] : [];
    await this.deps.escrow.confirm(jobId, effect, input, (before) => [
      ...remember(before),
      ...stranger,
    ]);
  }

  /** An offer made directly on the chain. Pending actions of this server continue with their own amount. */
  private async offered(
    jobId: string,
    input: MoveInput,
    remember: (before: Work) => Step[],
  ): Promise<void> {
    await this.deps.escrow.note(
      jobId,
      (before) => {
        const { work, event } = planMove(before, 'offer', input);
        const state = { ...work.state, pending: before.state.pending };
        return { work: { ...work, state }, event };
      },
      remember,
    );
  }

  /** The contract was called directly: the event is the only source. */
  private async readForeignEvent(event: ChainEvent, work: Work, now: number): Promise<MoveInput> {
    const address = String(
      event.args.rejector ?? event.args.evaluator ?? event.args.provider ?? event.args.client ?? '',
    );
    const wallet = address ? await this.deps.store.findWallet(address) : undefined;
    const by = wallet?.id ?? (address || 'chain');
    const base: MoveInput = { action: actionOf(event.name, by, work), by, now };
    if (event.name === 'JobSubmitted') {
      const hash = String(event.args.deliverable);
      const n = work.state.txs.length;
      return { ...base, submission: { n, hash, uri: null, inline: false, at: now } };
    }
    const reason = `decided on the chain (${String(event.args.reason ?? '')})`;
    if (event.name === 'JobCompleted') {
      return { ...base, verdict: { outcome: 'approved', reason, by, at: now, checks: [] } };
    }
    return { ...base, reason };
  }

  private deliverable(jobId: string, input: MoveInput): Step {
    const { n, hash, uri, at } = input.submission!;
    return this.deps.store.works.insertDeliverable(jobId, { n, hash, uri, at, content: null });
  }
}

const handled: ReadonlySet<string> = new Set([
  'JobCreated',
  'BudgetSet',
  'JobFunded',
  'JobSubmitted',
  'SilenceReleased',
  'JobCompleted',
  'JobRejected',
  'JobExpired',
]);

/** False for events after a release on silence, for another token, and for jobs that the client created with other terms. */
function isRelevant(event: ChainEvent, work: Work, token: string): boolean {
  if (finalPhases.has(work.phase)) return false;
  if (event.name === 'BudgetSet' && String(event.args.token).toLowerCase() !== token) return false;
  return (
    !['BudgetSet', 'JobFunded'].includes(event.name) || work.state.pending?.action !== 'create'
  );
}

/** Events that state the job's budget or what was paid for it. */
const amountEvents: ReadonlySet<string> = new Set(['BudgetSet', 'JobFunded']);

function effectOf(name: string, phase: Phase): Effect | undefined {
  const effects: Record<string, Effect> = {
    BudgetSet: 'offer',
    JobFunded: 'hold',
    JobSubmitted: 'deliver',
    SilenceReleased: 'silence',
    JobCompleted: 'release',
    JobRejected: phase === 'open' ? 'withdraw' : 'return',
    JobExpired: phase === 'open' ? 'lapse' : phase === 'funded' ? 'expire' : 'silence',
  };
  return effects[name];
}

function actionOf(name: string, by: string, work: Work): MoveInput['action'] {
  const actions: Record<string, MoveInput['action']> = {
    BudgetSet: 'counter',
    JobFunded: 'fund',
    JobSubmitted: 'submit',
    JobCompleted: 'approve',
    SilenceReleased: 'conclude',
    JobExpired: 'conclude',
  };
  if (name !== 'JobRejected') return actions[name]!;
  if (by === work.client && work.phase === 'open') return 'cancel';
  return by === work.provider ? 'decline' : 'reject';
}

type Snapshot = Pick<
  Work,
  | 'phase'
  | 'budget'
  | 'held'
  | 'deadlineAt'
  | 'nextAt'
  | 'external'
  | 'state'
  | 'updatedAt'
  | 'spec'
>;

function snapshot(work: Work): Snapshot {
  const { phase, budget, held, deadlineAt, nextAt, external, state, updatedAt, spec } = work;
  return { phase, budget, held, deadlineAt, nextAt, external, state, updatedAt, spec };
}
