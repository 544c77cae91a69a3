// From an allowed effect to what it changes: next phase, deadline, money, record, event. Pure; the settlement makes the
// money part true and the caller commits all of it together.
import type { Action, Effect, Phase } from './stage.ts';
import { agreeing, offersKept } from './agreement.ts';
import { share } from './money.ts';
import { membersOf, type Silence } from './terms.ts';
import {
  amountDue,
  isEvaluating,
  isLastMilestone,
  reasonText,
  type Outcome,
  type Submission,
  type Tx,
  type Verdict,
  type Vote,
  type Work,
  type WorkState,
} from './work.ts';

/** What must happen to the money: into the escrow, or out of it to the provider's side and back to the client. */
export interface Money {
  hold: number;
  /** Divided by the fees of the terms. */
  release: number;
  refund: number;
}

export interface Move {
  action: Action;
  work: Work;
  money: Money;
  event: { type: string; data: Record<string, unknown> };
}

export interface MoveInput {
  action: Action;
  by: string;
  now: number;
  /** Of an offer, and what funding takes. */
  budget?: number;
  submission?: Submission;
  verdict?: Verdict;
  votes?: Vote[];
  reason?: string;
  resolution?: { answer: Silence; splitBps?: number };
  /** The settlement's own name of what moved the money. */
  txHash?: string;
}

const none: Money = { hold: 0, release: 0, refund: 0 };

export function moved(work: Work, effect: Effect, input: MoveInput): Move {
  switch (effect) {
    case 'offer':
      return stay(input.by === work.client ? agreeing(work, input.budget!) : work, input, {
        budget: input.budget!,
        state: {
          offers: [
            ...work.state.offers.slice(1 - offersKept),
            { by: input.by, budget: input.budget!, at: input.now },
          ],
        },
      });
    case 'hold':
      return funded(work, input);
    case 'deliver':
      return delivered(work, input);
    case 'withdraw':
    case 'return':
      return ended(work, input, 'rejected', { refund: work.held }, returnOutcome(input));
    case 'lapse':
    case 'expire':
      return ended(work, input, 'expired', { refund: work.held }, 'expired');
    case 'release':
      return approved(work, input, 'approved');
    case 'verdictApprove':
    case 'verdictReject':
      return decided(work, input);
    case 'openDispute':
      return disputed(work, input);
    case 'silence':
      return silent(work, input);
    case 'verdictStands':
      return stands(work, input);
    case 'resolution':
      return resolved(work, input);
    case 'disputeSilence':
      return answered(
        work,
        input,
        work.terms.dispute?.silence ?? 'refund',
        work.terms.splitBps,
        'silence',
      );
  }
}

/** The later of the job's expiry and the evaluator's time after the submission. */
const evaluationEnd = (work: Work, submittedAt: number): number =>
  Math.max(Date.parse(work.terms.expiredAt), submittedAt + work.terms.evaluationMs);

function returnOutcome(input: MoveInput): Outcome {
  if (input.action === 'reject') return 'rejected';
  return input.action === 'cancel' ? 'cancelled' : 'declined';
}

function funded(work: Work, input: MoveInput): Move {
  const amount = input.budget!;
  return next({ ...agreeing(work, amount), budget: amount }, input, {
    phase: 'funded',
    deadlineAt: Date.parse(work.terms.expiredAt),
    held: amount,
    money: { ...none, hold: amount },
    tx: 'fund',
    event: 'funded',
  });
}

function delivered(work: Work, input: MoveInput): Move {
  const deadlineAt = evaluationEnd(work, input.now);
  const automatic = membersOf(work.terms.evaluation).some(({ type }) => type !== 'manual');
  return next(work, input, {
    phase: 'submitted',
    deadlineAt,
    nextAt: automatic ? input.now : deadlineAt,
    state: {
      submission: input.submission!,
      verdict: null,
      votes: [],
      tries: 0,
      lastTry: null,
      extended: false,
    },
    tx: 'submit',
    event: 'delivered',
  });
}

function decided(work: Work, input: MoveInput): Move {
  const verdict = input.verdict!;
  const state = { verdict, votes: allVotes(work, input.votes ?? []) };
  if (work.terms.disputeWindowMs > 0) {
    const deadlineAt = input.now + work.terms.disputeWindowMs;
    return next(work, input, { phase: 'decided', deadlineAt, state, event: 'decided' });
  }
  const judged = { ...work, state: { ...work.state, ...state } };
  return verdict.outcome === 'approved'
    ? approved(judged, input, 'approved')
    : ended(judged, input, 'rejected', { refund: work.held }, 'rejected');
}

/** A vote that came while the deciding one was under way is kept too. */
function allVotes({ state: { votes } }: Work, more: readonly Vote[]): Vote[] {
  const known = new Set(votes.map(({ member }) => member));
  return [...votes, ...more.filter(({ member }) => !known.has(member))];
}

function stands(work: Work, input: MoveInput): Move {
  return work.state.verdict?.outcome === 'approved'
    ? approved(work, input, 'approved')
    : ended(work, input, 'rejected', { refund: work.held }, 'rejected');
}

function approved(work: Work, input: MoveInput, outcome: Outcome): Move {
  const verdict = input.verdict ?? work.state.verdict;
  const judged = { ...work, state: { ...work.state, verdict } };
  if (isLastMilestone(work))
    return ended(judged, input, 'completed', { release: work.held }, outcome);
  const amount = amountDue(work);
  return next(judged, input, {
    phase: 'funded',
    deadlineAt: Math.max(Date.parse(work.terms.expiredAt), input.now + work.terms.evaluationMs),
    held: work.held - amount,
    money: { ...none, release: amount },
    state: {
      milestone: work.state.milestone + 1,
      accepted: [...(work.state.accepted ?? []), work.state.submission!],
      submission: null,
      dispute: null,
    },
    tx: 'release',
    event: 'released',
  });
}

function disputed(work: Work, input: MoveInput): Move {
  return next(work, input, {
    phase: 'disputed',
    deadlineAt: input.now + work.terms.dispute!.resolveMs,
    state: { dispute: { by: input.by, reason: input.reason ?? '', at: input.now } },
    event: 'disputed',
  });
}

/** Nobody decided. A rule that could not be tried to its end says nothing about the delivery: an arbiter decides instead. */
function silent(work: Work, input: MoveInput): Move {
  const { silence, splitBps, dispute } = work.terms;
  if (!dispute || !isEvaluating(work)) return answered(work, input, silence, splitBps, 'silence');
  const why = work.state.lastTry ? `: ${work.state.lastTry}` : '';
  return disputed(work, { ...input, reason: `The rule did not finish in time${why}.` });
}

function resolved(work: Work, input: MoveInput): Move {
  const { answer, splitBps } = input.resolution!;
  const { by, now: at, reason = '' } = input;
  const dispute = { ...work.state.dispute!, resolution: { by, answer, reason, at } };
  const heard = { ...work, state: { ...work.state, dispute } };
  return answered(heard, input, answer, splitBps ?? work.terms.splitBps, 'resolved');
}

function answered(
  work: Work,
  input: MoveInput,
  answer: Silence,
  splitBps: number,
  outcome: 'silence' | 'resolved',
): Move {
  // Only what was delivered is paid or divided: the milestones after it go on, or go back.
  if (answer === 'release') return approved(work, input, outcome);
  if (answer === 'split') {
    const release = share(isLastMilestone(work) ? work.held : amountDue(work), splitBps);
    return ended(work, input, 'completed', { release, refund: work.held - release }, 'split');
  }
  const phase = outcome === 'silence' ? 'expired' : 'rejected';
  return ended(work, input, phase, { refund: work.held }, outcome);
}

function ended(
  work: Work,
  input: MoveInput,
  phase: 'completed' | 'rejected' | 'expired',
  money: Partial<Money>,
  outcome: Outcome,
): Move {
  const kinds = { completed: 'complete', rejected: 'reject', expired: 'refund' } as const;
  return next(work, input, {
    phase,
    deadlineAt: null,
    held: 0,
    money: { ...none, ...money },
    state: { outcome, ...(input.action === 'conclude' ? { lapsed: true } : {}) },
    tx: outcome === 'split' ? 'split' : kinds[phase],
    event: phase,
  });
}

function stay(
  work: Work,
  input: MoveInput,
  to: { budget: number; state: Partial<WorkState> },
): Move {
  const at = next(work, input, {
    phase: work.phase,
    deadlineAt: work.deadlineAt,
    state: to.state,
    event: 'countered',
  });
  const event = { type: 'countered', data: { ...at.event.data, budget: String(to.budget) } };
  return { ...at, event, work: { ...at.work, budget: to.budget } };
}

interface To {
  phase: Phase;
  deadlineAt: number | null;
  nextAt?: number;
  held?: number;
  money?: Money;
  state?: Partial<WorkState>;
  tx?: Tx['kind'];
  event: string;
}

function next(work: Work, input: MoveInput, to: To): Move {
  const money = to.money ?? none;
  const amount = money.hold + money.release + money.refund;
  const n = work.state.txs.length;
  const hash = input.txHash === undefined ? {} : { hash: input.txHash };
  const txs = to.tx
    ? [...work.state.txs, { ...hash, kind: to.tx, id: `${work.jobId}/${n}`, amount, at: input.now }]
    : work.state.txs;
  const state: WorkState = { ...work.state, ...to.state, txs, pending: null };
  // What brings a rule's verdict repeats its reason.
  const speaker = input.verdict?.by ?? input.by;
  const data = {
    stage: to.phase === 'decided' ? 'submitted' : to.phase,
    by: input.by,
    ...(amount > 0 ? { amount: String(amount) } : {}),
    ...(state.outcome ? { outcome: state.outcome } : {}),
    ...(to.phase !== 'funded' && state.verdict ? { reason: reasonText(state.verdict) } : {}),
    ...(input.reason ? { reason: reasonText({ by: speaker, reason: input.reason }) } : {}),
  };
  return {
    action: input.action,
    money,
    event: { type: to.event, data },
    work: {
      ...work,
      phase: to.phase,
      deadlineAt: to.deadlineAt,
      nextAt: to.nextAt ?? to.deadlineAt,
      held: to.held ?? work.held,
      state,
      updatedAt: input.now,
    },
  };
}
