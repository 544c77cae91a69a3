// The one way in which escrow jobs change: read, let the stage machine judge, let the settlement plan the money, commit
// job, work, entries and event together; on a conflict read and judge again.
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import { amountToFund, refuseAboveMax, refuseFurtherOffers } from './agreement.ts';
import { moved, type Move, type MoveInput } from './move.ts';
import { refuseAboveLimits, refuseInactive } from './policy.ts';
import type { Settlement } from './settlement/settlement.ts';
import type { EscrowSettings } from './settings.ts';
import { finalPhases, judge, type Action, type Effect } from './stage.ts';
import type { EscrowStore } from './store.ts';
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

/** Whoever acts: a wallet, or the system itself when a deadline or an automatic rule does. */
export interface Actor {
  wallet?: string;
  system?: true;
}

export interface ActRequest extends Omit<MoveInput, 'by' | 'now'> {
  actor: Actor;
  /** The amount that the client accepts with this call; the proposal on the table must be exactly that. */
  expectedBudget?: number;
  /** Rows of the caller that must happen together with the move. */
  steps?: (work: Work) => Step[];
}

/** Someone else committed first: what was decided is stale, and the whole decision is taken again. */
class Stale extends Error {}

const conflictsMax = 100;

export interface EscrowParts {
  store: EscrowStore;
  jobs: Jobs;
  clock: Clock;
  settings: EscrowSettings;
  settlements: ReadonlyMap<string, Settlement>;
}

export class Escrow {
  readonly parts: EscrowParts;
  private readonly listeners = new Set<() => void>();

  constructor(parts: EscrowParts) {
    this.parts = parts;
  }

  settlement(name: string): Settlement {
    const settlement = this.parts.settlements.get(name);
    if (!settlement) {
      throw new AppError('unsupportedBySettlement', `There is no settlement called ${name}.`, {
        hint: `Configured: ${[...this.parts.settlements.keys()].join(', ')}.`,
      });
    }
    return settlement;
  }

  /** Called after something became due at once (a delivery to evaluate, an intent to send). */
  onDue(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  due(): void {
    for (const listener of this.listeners) listener();
  }

  /** One action on one job. Exactly one of two that exclude each other wins; the other is judged anew and refused. */
  async act(jobId: string, request: ActRequest): Promise<Work> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const work = await this.parts.store.works.work(jobId);
      const { effect, input, paused } = await this.judge(work, request);
      const move = moved(work, effect, input);
      // Whoever concludes or resolves it: what pays somebody waits for the end of a pause.
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
          : await this.tryPend(work, input, plan, extra);
      if (after) return after;
    }
    throw changedTooOften();
  }

  /** What a settlement confirmed: it is the authority, so nothing is judged again. */
  async confirm(
    jobId: string,
    effect: Effect,
    input: MoveInput,
    steps: (before: Work) => Step[],
  ): Promise<Work> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const work = await this.parts.store.works.work(jobId);
      const after = await this.tryApply(work, moved(work, effect, input), steps(work));
      if (after) return after;
    }
    throw changedTooOften();
  }

  /** Changes the record without moving the job: a vote, a try of the rule, a settlement's number. */
  async note(
    jobId: string,
    change: (
      work: Work,
    ) => { work: Work; event?: { type: string; data: Record<string, unknown> } } | undefined,
    steps: (before: Work) => Step[] = () => [],
  ): Promise<Work> {
    for (let tries = 0; tries < conflictsMax; tries++) {
      const before = await this.parts.store.works.work(jobId);
      const noted = change(before);
      if (!noted) return before;
      const events = noted.event ? [noted.event] : [];
      const own = [this.parts.store.works.updateWork(before, noted.work), ...steps(before)];
      const after = await this.commit(before, noted.work, events, own);
      if (after) return after;
    }
    throw changedTooOften();
  }

  /** Moves a deadline that has come before the automatic rule has finished, once; answers the job as it is then. */
  async extended(work: Work): Promise<Work> {
    const { clock, settings } = this.parts;
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
      };
    });
  }

  private async judge(
    work: Work,
    request: ActRequest,
  ): Promise<{ effect: Effect; input: MoveInput; paused: boolean }> {
    const now = this.parts.clock.now();
    const { actor, expectedBudget, steps: _, ...rest } = request;
    const input: MoveInput = { ...rest, by: actor.wallet ?? 'system', now };
    const roles = rolesOf(work.terms, actor.wallet);
    if (actor.system) roles.add('system');
    const moment = momentOf(work, now);
    const paused = await this.parts.store.paused();
    const answer = judge(work.phase, request.action, roles, moment, paused);
    if ('refused' in answer) {
      // It may be possible as soon as the settlement has confirmed what is under way.
      if (answer.refused === 'wrongStage') refusePending(work);
      const can = availableActions(work, roles, moment, paused);
      throw refusal(work, request.action, answer.refused, can);
    }
    refusePending(work);
    // A freeze is a pause of one wallet: it stops the same actions, and never what gives money back.
    const stoppable = 'refused' in judge(work.phase, request.action, roles, moment, true);
    if (actor.wallet !== undefined && (stoppable || paysBy(request))) {
      const wallet = await this.parts.store.wallet(actor.wallet);
      refuseInactive(wallet, now);
      if (wallet.id === work.client) refuseAboveLimits(wallet, request.budget ?? 0);
    }
    if (request.budget !== undefined) {
      refuseAboveMax(work, request.budget);
      refuseFurtherOffers(work, input.by, this.parts.settings.offersMax);
    }
    if (request.action === 'dispute' && !work.terms.dispute) throw noArbiter(work);
    if (request.action === 'fund') input.budget = amountToFund(work, expectedBudget);
    return { effect: answer.effect, input, paused };
  }

  private async tryApply(before: Work, move: Move, steps: Step[]): Promise<Work | undefined> {
    const own = [this.parts.store.works.updateWork(before, move.work), ...steps];
    const after = await this.commit(before, move.work, [move.event], own);
    if (after && after.nextAt !== null && after.nextAt <= this.parts.clock.now()) this.due();
    return after;
  }

  private async tryPend(
    before: Work,
    input: MoveInput,
    plan: { id: string; steps: Step[] },
    extra: Step[],
  ): Promise<Work | undefined> {
    const pending = { action: input.action, id: plan.id, since: input.now };
    const { fundNext, ...state } = before.state;
    const nextAt = fundNext === undefined ? before.nextAt : before.deadlineAt;
    const work = { ...before, state: { ...state, pending }, nextAt, updatedAt: input.now };
    const own = [this.parts.store.works.updateWork(before, work), ...plan.steps, ...extra];
    const event = {
      type: 'settling',
      data: { action: input.action, by: input.by, intent: plan.id },
    };
    const after = await this.commit(before, work, [event], own);
    if (after) this.due();
    return after;
  }

  /** Undefined: a step found something else than what was decided on, and nothing happened. */
  private async commit(
    before: Work,
    after: Work,
    events: { type: string; data: Record<string, unknown> }[],
    steps: Step[],
  ): Promise<Work | undefined> {
    // Nothing that the job itself shows: only the record of the kind changes, under its own fence.
    if (events.length === 0) {
      const { applied } = await this.parts.store.store.commit(steps);
      return applied ? { ...after, version: before.version + 1 } : undefined;
    }
    let asked = false;
    try {
      const job = await this.parts.jobs.change(before.jobId, (present) => {
        if (asked) throw new Stale();
        asked = true;
        return { patch: jobPatch(present, after), events, intents: [], steps };
      });
      if (finalPhases.has(after.phase)) await this.parts.jobs.releaseDependents(job);
    } catch (error) {
      if (error instanceof Stale) return undefined;
      throw error;
    }
    return { ...after, version: before.version + 1 };
  }
}

const changedTooOften = (): AppError =>
  new AppError('unavailable', 'The job changed too often at once.', { hint: 'Try again.' });

const paysBy = ({ resolution }: ActRequest): boolean =>
  resolution !== undefined && resolution.answer !== 'refund';

function jobPatch(job: Job, work: Work): Partial<Job> {
  const status = statusOf(work);
  const final = finalPhases.has(work.phase);
  return {
    ...(status === job.status ? {} : { status }),
    ...(stageOf(work.phase) === job.stage ? {} : { stage: stageOf(work.phase) }),
    ...(job.startedAt === null && work.phase === 'funded' ? { startedAt: work.updatedAt } : {}),
    ...agreedFacts(job, work),
    ...(final ? { finishedAt: work.updatedAt, result: resultOf(work), error: errorOf(work) } : {}),
    // A chain that was reorganised can take an end back.
    ...(!final && job.finishedAt !== null ? { finishedAt: null, result: null, error: null } : {}),
  };
}

/** The job's own input states the posted budget; its summary shows the one agreed to since. */
function agreedFacts({ input, facts }: Job, { terms }: Work): Partial<Job> {
  const { amount } = terms.budget;
  const shown = facts.budget ?? (input as { budget?: string }).budget;
  return shown === amount ? {} : { facts: { ...facts, budget: amount } };
}

/** How it ended; the transactions stand beside it in every view of the job. */
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
    `The ${work.settlement} settlement has not confirmed ${pending.action} of ${work.jobId} yet.`,
    {
      hint: 'Try again in a few seconds; until then get_job shows what it is `settling`.',
      data: { action: pending.action },
    },
  );
}

const reasons: Record<string, string> = byName({
  jobFinal: 'The job is over; its money has moved.',
  wrongStage: 'That is not possible in this stage.',
  notClient: 'Only the client may do that.',
  notProvider: 'Only the provider may do that.',
  notEvaluator: 'Only the evaluator agreed on at creation may do that.',
  notArbiter: 'Only the arbiter agreed on at creation may do that.',
  notParty: 'Only the client and the provider may do that.',
  deadlinePassed: 'The deadline of this stage has passed.',
  notYetExpired: 'The deadline of this stage has not passed yet.',
  evaluationPending: 'The evaluation may still be decided; its deadline has not passed yet.',
  escrowPaused: 'The operator has paused the escrow; money can still go back.',
});

function refusal(work: Work, action: Action, code: string, can: Action[]): AppError {
  const until = work.deadlineAt === null ? null : new Date(work.deadlineAt).toISOString();
  return new AppError(code, `Cannot ${action} ${work.jobId}: ${reasons[code]}`, {
    hint:
      can.length > 0 ? `You may now: ${can.join(', ')}.` : 'There is nothing for you to do now.',
    data: { stage: stageOf(work.phase), availableActions: can, deadline: until },
  });
}

function noArbiter(work: Work): AppError {
  return new AppError('wrongStage', `${work.jobId} was created without an arbiter.`, {
    hint: 'An arbiter is named at creation (post_work, field dispute).',
  });
}
