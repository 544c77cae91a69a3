// Creates a job: completes the terms, refuses what can never work before money moves, freezes the spec, stores the purchase key.
import { hash } from 'node:crypto';
import { AppError } from '../../errors.ts';
import { newJobId } from '../../runtime/id.ts';
import type { Step } from '../../store/store.ts';
import type { Escrow } from './escrow.ts';
import type { RuleRunner } from './evaluators/runner.ts';
import { refuseInactive } from './policy.ts';
import type { RememberedKey, Wallet } from './store/rows.ts';
import { finalPhases } from './stage.ts';
import type { Settlement } from './settlement/settlement.ts';
import {
  arbiterSilenceDefault,
  evaluatorsOf,
  requiredCapabilities,
  specText,
  type Rule,
  type Silence,
  type Terms,
} from './terms.ts';
import { newState, stageOf, type Work } from './work.ts';

interface PostRequest {
  client: Wallet;
  owner: string;
  provider: string;
  budget: number;
  /** Higher offers and acceptances are refused. */
  maxBudget?: number;
  title: string;
  description: string;
  rule: Rule;
  settlement?: string;
  fundBy?: number;
  expiresAt?: number;
  evaluationMs?: number;
  silence?: Silence;
  splitBps?: number;
  disputeWindowMs?: number;
  dispute?: { arbiter: string; resolveMs?: number; silence?: Silence };
  milestones?: { title: string; amount: number }[];
  visibility?: 'private' | 'public';
  tags?: readonly string[];
  idempotencyKey?: string;
  /** Fund the job after posting. With a slow settlement, the job stores this and is funded later. */
  fund?: boolean;
  /** True: a second, separate purchase of the same thing. */
  repeat?: boolean;
  minExpiryMs?: number;
}

class KeyTaken extends Error {}

export class Posting {
  private readonly escrow: Escrow;
  private readonly rules: RuleRunner;

  constructor(escrow: Escrow, rules: RuleRunner) {
    this.escrow = escrow;
    this.rules = rules;
  }

  async post(request: PostRequest): Promise<{ work: Work; existing: boolean }> {
    const { store, clock, settings } = this.escrow.deps;
    for (let tries = 0; tries < 20; tries++) {
      const now = clock.now();
      const terms = await this.terms(request, now);
      const key = this.keyOf(request, terms, now);
      const before = key && (await this.existing(request, key, now));
      if (before?.work) return { work: before.work, existing: true };
      await this.refuse(request, terms);
      if (await store.paused()) throw pausedError();
      await this.refuseTooMany(request.client);
      const work = newWork(request, terms, now);
      const plan = await this.escrow.settlement(work.settlement).open(work);
      if (plan.when === 'later') {
        work.state.pending = { action: 'create', id: plan.id, since: now };
        if (request.fund) work.state.fundNext = request.budget;
      }
      const steps = [
        ...(key ? [store.rememberKey(key, now, before?.replaces)] : []),
        ...store.works.insertWork(work, settings.maxOpenWork),
        ...plan.steps,
      ];
      if (await this.write(request, work, steps)) return { work, existing: false };
    }
    throw new AppError('unavailable', 'Too many concurrent calls of this client.', {
      hint: 'Try again with the same idempotency key, if you passed one.',
    });
  }

  private async write(request: PostRequest, work: Work, steps: Step[]): Promise<boolean> {
    let asked = false;
    try {
      await this.escrow.deps.jobs.submit({
        id: work.jobId,
        kind: 'escrow',
        action: 'work',
        input: { title: request.title, budget: String(request.budget), provider: work.provider },
        owner: request.owner,
        name: request.title,
        tags: request.tags ?? [],
        visibility: request.visibility ?? this.escrow.deps.settings.visibility,
        status: 'queued',
        stage: stageOf('open'),
        steps: () => {
          if (asked) throw new KeyTaken();
          asked = true;
          return steps;
        },
      });
      this.escrow.due();
      return true;
    } catch (error) {
      if (error instanceof KeyTaken) return false;
      throw error;
    }
  }

  private async terms(request: PostRequest, now: number): Promise<Terms> {
    const { store, settings } = this.escrow.deps;
    const provider = await store.wallet(request.provider);
    const expiresAt = request.expiresAt ?? now + settings.expiryMsDefault;
    const id = async (wallet: string) => (await store.wallet(wallet)).id;
    const settlement = request.settlement ?? settings.settlement;
    const iso = (at: number) => new Date(at).toISOString();
    const fixed = await this.escrow.settlement(settlement).fixed();
    const { platformFeeBps: platformBps, evaluatorFeeBps: evaluatorBps } = settings;
    return {
      version: '1.0',
      jobId: newJobId(),
      title: request.title,
      description: request.description,
      settlement,
      client: { wallet: request.client.id, address: request.client.address },
      provider: { wallet: provider.id, address: provider.address },
      budget: {
        amount: String(request.budget),
        currency: this.escrow.settlement(settlement).currency,
        decimals: 6,
        ...(request.maxBudget === undefined ? {} : { max: String(request.maxBudget) }),
      },
      evaluation: await resolveRule(request.rule, id),
      fees: fixed.fees ?? { platformBps, evaluatorBps },
      fundBy: iso(Math.min(request.fundBy ?? expiresAt, expiresAt)),
      expiredAt: iso(expiresAt),
      evaluationMs: request.evaluationMs ?? fixed.evaluationMs ?? settings.evaluationMsDefault,
      silence: request.silence ?? silenceDefault(this.escrow.settlement(settlement)),
      splitBps: request.splitBps ?? 5000,
      disputeWindowMs: request.disputeWindowMs ?? 0,
      dispute: request.dispute
        ? {
            arbiter: await id(request.dispute.arbiter),
            resolveMs: request.dispute.resolveMs ?? settings.disputeMsDefault,
            silence: request.dispute.silence ?? request.silence ?? arbiterSilenceDefault,
          }
        : null,
      milestones: request.milestones ?? [],
      createdAt: iso(now),
    };
  }

  /** Refuses everything that would make the job impossible later, before money is at stake. */
  private async refuse(request: PostRequest, terms: Terms): Promise<void> {
    const { clock, settings, store } = this.escrow.deps;
    const now = clock.now();
    refuseInactive(request.client, now);
    refuseInactive(await store.wallet(terms.provider.wallet), now);
    refuseSelfDealing(terms);
    const until = Date.parse(terms.expiredAt) - now;
    const settlement = this.escrow.settlement(terms.settlement);
    const fixed = await settlement.fixed();
    // A caller may raise the operator's minimum, never lower it.
    const { minExpiryMs = 0 } = request;
    const least = Math.max(minExpiryMs, settings.minExpiryMs, fixed.minExpiryMs ?? 0);
    if (until < least) {
      throw new AppError(
        'expiryTooShort',
        `The job must allow at least ${least} ms for delivery.`,
        {
          hint: `Set expiresAt to ${new Date(now + least).toISOString()} or later.`,
        },
      );
    }
    if (until > settings.maxExpiryMs) {
      throw new AppError('expiryTooLong', `A job may last at most ${settings.maxExpiryMs} ms.`, {
        hint: `Set expiresAt to ${new Date(now + settings.maxExpiryMs).toISOString()} or earlier.`,
      });
    }
    refuseEndless(terms, settings.maxEvaluationWindowMs);
    if (Date.parse(terms.fundBy) <= now) {
      throw new AppError('expiryTooShort', 'fundBy is in the past.');
    }
    if (terms.disputeWindowMs > 0 && !terms.dispute) {
      throw new AppError('invalidInput', 'A dispute window requires an arbiter.', {
        hint: 'Set dispute.arbiter.',
      });
    }
    if (request.maxBudget !== undefined && request.maxBudget < request.budget) {
      throw new AppError('invalidAmount', 'maxBudget is lower than the budget.', {
        hint: 'Omit maxBudget, or set it to the budget or more.',
      });
    }
    refuseMilestones(terms, request.budget);
    const missing = requiredCapabilities(terms).filter(
      (need) => !settlement.capabilities.has(need),
    );
    if (fixed.evaluationMs !== undefined && terms.evaluationMs !== fixed.evaluationMs) {
      missing.push(`an evaluation time other than ${fixed.evaluationMs} ms`);
    }
    if (missing.length > 0) {
      throw new AppError(
        'unsupportedBySettlement',
        `The ${terms.settlement} settlement does not support: ${missing.join(', ')}.`,
        { hint: 'Omit it, or use the ledger settlement.', data: { missing } },
      );
    }
    await this.rules.refuseImpossible(terms.evaluation);
  }

  /** Inserting the job checks this again, because concurrent calls can post jobs in between. */
  private async refuseTooMany({ id }: Wallet): Promise<void> {
    const { store, settings } = this.escrow.deps;
    const open = await store.works.countOpen(id);
    if (open < settings.maxOpenWork) return;
    throw new AppError(
      'limitExceeded',
      `Wallet ${id} has ${open} open jobs that are not funded, which is the maximum.`,
      {
        hint: 'Fund one with fund_work, or withdraw one with decline_work. list_work with role "client" and stage ["open"] lists them. The setting `escrow.maxOpenWork` sets this limit.',
      },
    );
  }

  /** If the caller passes a key, only the key counts; otherwise the purchase is recognised by its fields for a while. */
  private keyOf(request: PostRequest, terms: Terms, now: number): RememberedKey | undefined {
    const { settings } = this.escrow.deps;
    const purchase = purchaseOf(terms, request.budget);
    const ref = terms.jobId;
    if (request.idempotencyKey !== undefined) {
      const key = `post:${request.client.id}:${request.idempotencyKey}`;
      const body = hash('sha256', JSON.stringify(purchase));
      return { key, body, ref, until: now + settings.keyWindowMs };
    }
    if (request.repeat || settings.purchaseWindowMs === 0) return undefined;
    const body = hash('sha256', JSON.stringify([...purchase, ...offerOf(request, terms)]));
    return { key: `purchase:${body}`, body, ref, until: now + settings.purchaseWindowMs };
  }

  /** A caller's key always returns its job; equal fields return a job that has not ended yet. */
  private async existing(
    { idempotencyKey }: PostRequest,
    key: RememberedKey,
    now: number,
  ): Promise<{ work?: Work; replaces?: string }> {
    const { store } = this.escrow.deps;
    const found = await store.remembered(key.key, now);
    if (!found) return {};
    if (found.body !== key.body) {
      throw new AppError(
        'idempotencyConflict',
        `The idempotency key ${idempotencyKey} belongs to another purchase (${found.ref}).`,
        { hint: 'Use a new key for a new purchase.', data: { jobId: found.ref } },
      );
    }
    const work = await store.works.work(found.ref);
    const isSamePurchase = idempotencyKey !== undefined || !finalPhases.has(work.phase);
    return isSamePurchase ? { work } : { replaces: found.ref };
  }
}

/** Where the settlement supports it, silence after a delivery pays the provider. */
const silenceDefault = ({ capabilities }: Settlement): Silence =>
  capabilities.has('release-on-silence') ? 'release' : 'refund';

function newWork(request: PostRequest, terms: Terms, now: number): Work {
  const fundBy = Date.parse(terms.fundBy);
  const state = newState();
  state.txs.push({ kind: 'create', id: `${terms.jobId}/0`, amount: 0, at: now });
  return {
    jobId: terms.jobId,
    client: terms.client.wallet,
    provider: terms.provider.wallet,
    evaluator: terms.evaluation.type === 'manual' ? evaluatorsOf(terms)[0]! : null,
    settlement: terms.settlement,
    external: null,
    phase: 'open',
    budget: request.budget,
    held: 0,
    deadlineAt: fundBy,
    nextAt: fundBy,
    spec: specText(terms),
    terms,
    state,
    version: 1,
    createdAt: now,
    updatedAt: now,
  };
}

/** What a repeated call with the same key must have in common; texts and times may differ. */
function purchaseOf(terms: Terms, budget: number): unknown[] {
  const { client, provider, evaluation, settlement, milestones } = terms;
  const amounts = milestones.map(({ amount }) => amount);
  return [client, provider, budget, evaluation, settlement, amounts];
}

/** What else distinguishes an offer without a key: its texts, and everything that decides who gets the money or sees the job. */
function offerOf({ visibility }: PostRequest, terms: Terms): unknown[] {
  const { title, description, budget, milestones, evaluationMs } = terms;
  const { silence, splitBps, disputeWindowMs, dispute } = terms;
  const ends = [silence, splitBps, disputeWindowMs, dispute, evaluationMs];
  return [title, description, budget.max, milestones, ...ends, visibility];
}

async function resolveRule(rule: Rule, id: (wallet: string) => Promise<string>): Promise<Rule> {
  if (rule.type === 'manual')
    return rule.wallet ? { ...rule, wallet: await id(rule.wallet) } : rule;
  if (rule.type !== 'quorum') return rule;
  const members = await Promise.all(
    rule.members.map(async (member) =>
      member.type === 'manual' && member.wallet
        ? { ...member, wallet: await id(member.wallet) }
        : member,
    ),
  );
  return { ...rule, members };
}

function refuseSelfDealing(terms: Terms): void {
  const { client, provider, dispute } = terms;
  const evaluators = evaluatorsOf(terms);
  const arbiter = dispute?.arbiter;
  const clash =
    (client.wallet === provider.wallet && 'client and provider') ||
    (evaluators.includes(provider.wallet) && 'provider and evaluator') ||
    (arbiter === provider.wallet && 'provider and arbiter') ||
    (arbiter === client.wallet && 'client and arbiter') ||
    (arbiter !== undefined && evaluators.includes(arbiter) && 'evaluator and arbiter') ||
    (new Set(evaluators).size < evaluators.length && 'two votes of one quorum');
  if (clash) {
    throw new AppError('selfJob', `One wallet cannot be ${clash} of the same job.`, {
      hint: 'Use different wallets.',
    });
  }
}

/** Limits how long anybody's silence can hold the money. */
function refuseEndless(terms: Terms, maxMs: number): void {
  const times = {
    evaluationMs: terms.evaluationMs,
    'dispute.windowMs': terms.disputeWindowMs,
    'dispute.resolveMs': terms.dispute?.resolveMs ?? 0,
  };
  for (const [name, ms] of Object.entries(times)) {
    if (ms <= maxMs) continue;
    throw new AppError('expiryTooLong', `${name} must be at most ${maxMs} ms; ${ms} exceeds it.`, {
      hint: 'Use a shorter time. The setting `escrow.maxEvaluationWindowMs` sets this limit.',
    });
  }
}

function refuseMilestones(terms: Terms, budget: number): void {
  if (terms.milestones.length === 0) return;
  const sum = terms.milestones.reduce((total, { amount }) => total + amount, 0);
  if (sum !== budget) {
    throw new AppError(
      'invalidAmount',
      `The milestones sum to ${sum}, but the budget is ${budget}.`,
      {
        hint: 'The milestone amounts must sum to the budget.',
      },
    );
  }
}

function pausedError(): AppError {
  return new AppError(
    'escrowPaused',
    'The operator has paused escrow: new jobs are not accepted.',
    {
      hint: 'Refunds, declines and rejections still work.',
    },
  );
}
