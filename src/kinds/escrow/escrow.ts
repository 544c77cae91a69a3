// The only path by which escrow jobs change: read the job, check the stage machine, let the settlement plan the money,
// then commit job, work, entries and event together. On a conflict, start again from the read.
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import { amountToFund, refuseAboveMaxBudget, refuseFurtherOffers } from './agreement.ts';
import { planMove, type Move, type MoveInput } from './move.ts';
import { refuseAboveLimits, refuseInactive } from './policy.ts';
import type { Settlement } from './settlement/settlement.ts';
import type { EscrowSettings } from './settings.ts';
import { finalPhases, judge, type Action, type Effect } from './stage.ts';
import type { EscrowStore } from './store/store.ts';
import { rolesOf } from './terms.ts';
import {
  availableActions,
  errorOf,
  isExtendable,
  momentOf,
  reasonText,
  stageOf,
  statusOf,
  type Work,
} from './work.ts';

/** Who acts: a wallet, or the system when a deadline passes or an automatic rule decides. */
export interface Actor {
  wallet?: string;
  system?: true;
}

interface ActRequest extends Omit<MoveInput, 'by' | 'now'> {
  actor: Actor;
  /** The amount that the client accepts with this call; it must equal the latest proposal. */
  expectedBudget?: number;
  /** The caller's own rows, committed together with the move. */
  steps?: (work: Work) => Step[];
}

/** Another writer committed first. The decision is stale and is made again from the start. */
class Stale extends Error {}

const maxConflicts = 100;

interface EscrowCoreDeps {
  store: EscrowStore;
  jobs: Jobs;
  clock: Clock;
  settings: EscrowSettings;
  settlements: ReadonlyMap<string, Settlement>;
}

/** A change that moves no money. */
interface Note {
  work: Work;
  event?: { type: string; data: Record<string, unknown> };
  /** The evaluation that is running continues. */
  keepsLease?: boolean;
}

export class Escrow {
  readonly deps: EscrowCoreDeps;
  private readonly listeners = new Set<() => void>();

  constructor(deps: EscrowCoreDeps) {
    this.deps = deps;
  }

  settlement(name: string): Settlement {
    const settlement = this.deps.settlements.get(name);
    if (!settlement) {
      throw new AppError('unsupportedBySettlement', `Settlement ${name} does not exist.`, {
        hint: `Configured: ${[...this.deps.settlements.keys()].join(', ')}.`,
      });
    }
    return settlement;
  }

  /** Called when something becomes due immediately (a delivery to evaluate, an intent to send). */
  onDue(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  due(): void {
    for (const listener of this.listeners) listener();
  }

  /** Applies one action to one job. Of two conflicting actions exactly one wins; the other is checked again and refused. */
  async act(jobId: string, request: ActRequest): Promise<Work> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const work = await this.deps.store.works.work(jobId);
      const { effect, input, paused } = await this.judge(work, request);
      const move = planMove(work, effect, input);
      // Applies to every caller: an action that pays somebody waits until the pause ends.
      if (paused && move.money.release > 0) throw refusal(work, request.action, 'escrowPaused', []);
      const plan = await this.settlement(work.settlement).plan({
        before: work,
        move,
        effect,
        input,
      });
      const extra = request.steps?.(move.work) ?? [];
      const after =
        plan.when === 'now'
          ? await this.tryApply(work, move, [...plan.steps, ...extra])
          : await this.tryPending(work, input, plan, extra);
      if (after) return after;
    }
    throw conflictError();
  }

  /** Applies what a settlement confirmed. The settlement is the authority, so the stage machine is not consulted. */
  async confirm(
    jobId: string,
    effect: Effect,
    input: MoveInput,
    steps: (before: Work) => Step[],
  ): Promise<Work> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const work = await this.deps.store.works.work(jobId);
      const after = await this.tryApply(work, planMove(work, effect, input), steps(work));
      if (after) return after;
    }
    throw conflictError();
  }

  /** Updates the record without moving the job: a vote, a rule attempt, the settlement's id. */
  async note(
    jobId: string,
    change: (work: Work) => Note | undefined,
    steps: (before: Work) => Step[] = () => [],
  ): Promise<Work> {
    for (let tries = 0; tries < maxConflicts; tries++) {
      const before = await this.deps.store.works.work(jobId);
      const noted = change(before);
      if (!noted) return before;
      const events = noted.event ? [noted.event] : [];
      const update = this.deps.store.works.updateWork(before, noted.work, noted.keepsLease);
      const own = [update, ...steps(before)];
      const after = await this.commit(before, noted.work, events, own);
      if (after) return after;
    }
    throw conflictError();
  }

  /** Moves an expired deadline once if the automatic rule has not finished. Returns the current job. */
  async extendDeadline(work: Work): Promise<Work> {
    const { clock, settings } = this.deps;
    const now = clock.now();
    const isDue = (one: Work) => one.deadlineAt !== null && now >= one.deadlineAt;
    if (!isDue(work) || !isExtendable(work)) return work;
    return this.note(work.jobId, (present) => {
      if (!isDue(present) || !isExtendable(present)) return undefined;
      const deadlineAt = now + settings.maxEvaluationMs;
      const busy = present.isLeased ? settings.evaluationLeaseMs : 0;
      const nextAt = Math.min(now + busy, deadlineAt);
      const state = { ...present.state, extended: true };
      const data = { deadline: new Date(deadlineAt).toISOString() };
      return {
        work: { ...present, deadlineAt, nextAt, state, updatedAt: now },
        event: { type: 'deadlineMoved', data },
        keepsLease: true,
      };
    });
  }

  private async judge(
    work: Work,
    request: ActRequest,
  ): Promise<{ effect: Effect; input: MoveInput; paused: boolean }> {
    const now = this.deps.clock.now();
    const { actor, expectedBudget, steps: _, ...rest } = request;
    const input: MoveInput = { ...rest, by: actor.wallet ?? 'system', now };
    const roles = rolesOf(work.terms, actor.wallet);
    if (actor.system) roles.add('system');
    const moment = momentOf(work, now);
    const paused = await this.deps.store.paused();
    const answer = judge({ phase: work.phase, action: request.action }, roles, moment, paused);
    if ('refused' in answer) {
      // The action may become possible once the settlement confirms the pending one.
      if (answer.refused === 'wrongStage') refusePending(work);
      const can = availableActions(work, roles, moment, paused);
      throw refusal(work, request.action, answer.refused, can);
    }
    refusePending(work);
    // A freeze pauses one wallet: it stops the same actions, but never a refund.
    const stoppable =
      'refused' in judge({ phase: work.phase, action: request.action }, roles, moment, true);
    if (actor.wallet !== undefined && (stoppable || paysProvider(request))) {
      const wallet = await this.deps.store.wallet(actor.wallet);
      refuseInactive(wallet, now);
      if (wallet.id === work.client) refuseAboveLimits(wallet, request.budget ?? 0);
    }
    if (request.budget !== undefined) {
      refuseAboveMaxBudget(work, request.budget);
      refuseFurtherOffers(work, input.by, this.deps.settings.maxOffers);
    }
    if (request.action === 'dispute' && !work.terms.dispute) throw noArbiter(work);
    if (request.action === 'fund') input.budget = amountToFund(work, expectedBudget);
    return { effect: answer.effect, input, paused };
  }

  private async tryApply(before: Work, move: Move, steps: Step[]): Promise<Work | undefined> {
    const own = [this.deps.store.works.updateWork(before, move.work), ...steps];
    const after = await this.commit(before, move.work, [move.event], own);
    if (after && after.nextAt !== null && after.nextAt <= this.deps.clock.now()) this.due();
    return after;
  }

  private async tryPending(
    before: Work,
    input: MoveInput,
    plan: { id: string; steps: Step[] },
    extra: Step[],
  ): Promise<Work | undefined> {
    const pending = { action: input.action, id: plan.id, since: input.now };
    const { fundNext, ...state } = before.state;
    const nextAt = fundNext === undefined ? before.nextAt : before.deadlineAt;
    const work = { ...before, state: { ...state, pending }, nextAt, updatedAt: input.now };
    const own = [this.deps.store.works.updateWork(before, work), ...plan.steps, ...extra];
    const event = {
      type: 'settling',
      data: { action: input.action, by: input.by, intent: plan.id },
    };
    const after = await this.commit(before, work, [event], own);
    if (after) this.due();
    return after;
  }

  /** Returns undefined if a step found stale data; then nothing was written. */
  private async commit(
    before: Work,
    after: Work,
    events: { type: string; data: Record<string, unknown> }[],
    steps: Step[],
  ): Promise<Work | undefined> {
    // The job row itself does not change: only the escrow record does, guarded by its own version.
    if (events.length === 0) {
      const { applied } = await this.deps.store.store.commit(steps);
      return applied ? { ...after, version: before.version + 1 } : undefined;
    }
    let asked = false;
    try {
      const job = await this.deps.jobs.change(before.jobId, (present) => {
        if (asked) throw new Stale();
        asked = true;
        return { patch: jobPatch(present, after), events, intents: [], steps };
      });
      if (finalPhases.has(after.phase)) await this.deps.jobs.releaseDependents(job);
    } catch (error) {
      if (error instanceof Stale) return undefined;
      throw error;
    }
    return { ...after, version: before.version + 1 };
  }
}

const conflictError = (): AppError =>
  new AppError('unavailable', 'The job kept changing while this was being applied.', {
    hint: 'Try again.',
  });

const paysProvider = ({ resolution }: ActRequest): boolean =>
  resolution !== undefined && resolution.answer !== 'refund';

function jobPatch(job: Job, work: Work): Partial<Job> {
  const status = statusOf(work);
  const final = finalPhases.has(work.phase);
  return {
    ...(status === job.status ? {} : { status }),
    ...(stageOf(work.phase) === job.stage ? {} : { stage: stageOf(work.phase) }),
    ...(job.startedAt === null && work.phase === 'funded' ? { startedAt: work.updatedAt } : {}),
    ...budgetFact(job, work),
    ...(final ? { finishedAt: work.updatedAt, result: resultOf(work), error: errorOf(work) } : {}),
    // A chain reorganisation can undo a final stage.
    ...(!final && job.finishedAt !== null ? { finishedAt: null, result: null, error: null } : {}),
  };
}

/** The job input states the posted budget; the summary shows the currently agreed one. */
function budgetFact({ input, facts }: Job, { terms }: Work): Partial<Job> {
  const { amount } = terms.budget;
  const shown = facts.budget ?? (input as { budget?: string }).budget;
  return shown === amount ? {} : { facts: { ...facts, budget: amount } };
}

/** How the job ended. Every job view lists the transactions separately. */
function resultOf(work: Work): Record<string, unknown> {
  const { outcome, verdict } = work.state;
  return {
    outcome,
    ...(verdict ? { verdict: verdict.outcome, reason: reasonText(verdict) } : {}),
    settlement: work.settlement,
  };
}

function refusePending(work: Work): void {
  const { pending } = work.state;
  if (!pending) return;
  throw new AppError(
    'settlementPending',
    `The ${work.settlement} settlement has not confirmed ${pending.action} for ${work.jobId} yet.`,
    {
      hint: 'Try again in a few seconds. Until then get_job shows the pending action as `settling`.',
      data: { action: pending.action },
    },
  );
}

const reasons: Record<string, string> = byName({
  jobFinal: 'The job has ended and its money has moved.',
  wrongStage: 'This action is not possible in the current stage.',
  notClient: 'Only the client can do this.',
  notProvider: 'Only the provider can do this.',
  notEvaluator: 'Only the evaluator named at creation can do this.',
  notArbiter: 'Only the arbiter named at creation can do this.',
  notParty: 'Only the client and the provider can do this.',
  deadlinePassed: 'The deadline of this stage has passed.',
  notYetExpired: 'The deadline of this stage has not passed yet.',
  evaluationPending: 'The evaluator can still decide; the evaluation deadline has not passed yet.',
  escrowPaused: 'The operator has paused escrow. Refunds still work.',
});

function refusal(work: Work, action: Action, code: string, can: Action[]): AppError {
  const until = work.deadlineAt === null ? null : new Date(work.deadlineAt).toISOString();
  return new AppError(code, `Cannot ${action} ${work.jobId}: ${reasons[code]}`, {
    hint: can.length > 0 ? `You can now: ${can.join(', ')}.` : 'No action is open to you now.',
    data: { stage: stageOf(work.phase), availableActions: can, deadline: until },
  });
}

function noArbiter(work: Work): AppError {
  return new AppError('wrongStage', `${work.jobId} was created without an arbiter.`, {
    hint: 'The arbiter is set at creation (post_work, field dispute).',
  });
}
