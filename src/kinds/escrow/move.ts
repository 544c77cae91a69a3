// Turns an allowed effect into its changes: next phase, deadline, money, record, event. Pure: the settlement carries out
// the money part, and the caller commits everything together.
import type { Action, Effect, Phase } from './stage.ts';
import { withAgreedBudget, offersKept } from './agreement.ts';
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

/** The required money movement: into escrow, or out of it to the provider's side and back to the client. */
export interface Money {
  hold: number;
  /** Divided according to the fees in the terms. */
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
  /** The amount of an offer, or the amount that funding moves. */
  budget?: number;
  submission?: Submission;
  verdict?: Verdict;
  votes?: Vote[];
  reason?: string;
  resolution?: { answer: Silence; splitBps?: number };
  /** The settlement's own id of the money movement. */
  txHash?: string;
}

const none: Money = { hold: 0, release: 0, refund: 0 };

export function planMove(work: Work, effect: Effect, input: MoveInput): Move {
  switch (effect) {
    case 'offer':
      return recordOffer(
        input.by === work.client ? withAgreedBudget(work, input.budget!) : work,
        input,
        {
          budget: input.budget!,
          state: {
            offers: [
              ...work.state.offers.slice(1 - offersKept),
              { by: input.by, budget: input.budget!, at: input.now },
            ],
          },
        },
      );
    case 'hold':
      return fund(work, input);
    case 'deliver':
      return deliver(work, input);
    case 'withdraw':
    case 'return':
      return end(
        work,
        input,
        { phase: 'rejected', outcome: returnOutcome(input) },
        { refund: work.held },
      );
    case 'lapse':
    case 'expire':
      return end(work, input, { phase: 'expired', outcome: 'expired' }, { refund: work.held });
    case 'release':
      return approve(work, input, 'approved');
    case 'verdictApprove':
    case 'verdictReject':
      return decide(work, input);
    case 'openDispute':
      return openDispute(work, input);
    case 'silence':
      return applySilence(work, input);
    case 'verdictStands':
      return applyVerdict(work, input);
    case 'resolution':
      return resolveDispute(work, input);
    case 'disputeSilence':
      return applyAnswer(
        work,
        input,
        { answer: work.terms.dispute?.silence ?? 'refund', splitBps: work.terms.splitBps },
        'silence',
      );
  }
}

/** The later of the job's expiry and the end of the evaluator's time after the submission. */
const evaluationEnd = (work: Work, submittedAt: number): number =>
  Math.max(Date.parse(work.terms.expiredAt), submittedAt + work.terms.evaluationMs);

function returnOutcome(input: MoveInput): Outcome {
  if (input.action === 'reject') return 'rejected';
  return input.action === 'cancel' ? 'cancelled' : 'declined';
}

function fund(work: Work, input: MoveInput): Move {
  const amount = input.budget!;
  return buildMove({ ...withAgreedBudget(work, amount), budget: amount }, input, {
    phase: 'funded',
    deadlineAt: Date.parse(work.terms.expiredAt),
    held: amount,
    money: { ...none, hold: amount },
    tx: 'fund',
    event: 'funded',
  });
}

function deliver(work: Work, input: MoveInput): Move {
  const deadlineAt = evaluationEnd(work, input.now);
  const automatic = membersOf(work.terms.evaluation).some(({ type }) => type !== 'manual');
  return buildMove(work, input, {
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

function decide(work: Work, input: MoveInput): Move {
  const verdict = input.verdict!;
  const state = { verdict, votes: allVotes(work, input.votes ?? []) };
  if (work.terms.disputeWindowMs > 0) {
    const deadlineAt = input.now + work.terms.disputeWindowMs;
    return buildMove(work, input, { phase: 'decided', deadlineAt, state, event: 'decided' });
  }
  const judged = { ...work, state: { ...work.state, ...state } };
  return verdict.outcome === 'approved'
    ? approve(judged, input, 'approved')
    : end(judged, input, { phase: 'rejected', outcome: 'rejected' }, { refund: work.held });
}

/** Keeps votes that arrived while the deciding vote was being applied. */
function allVotes({ state: { votes } }: Work, more: readonly Vote[]): Vote[] {
  const known = new Set(votes.map(({ member }) => member));
  return [...votes, ...more.filter(({ member }) => !known.has(member))];
}

function applyVerdict(work: Work, input: MoveInput): Move {
  return work.state.verdict?.outcome === 'approved'
    ? approve(work, input, 'approved')
    : end(work, input, { phase: 'rejected', outcome: 'rejected' }, { refund: work.held });
}

function approve(work: Work, input: MoveInput, outcome: Outcome): Move {
  const verdict = input.verdict ?? work.state.verdict;
  const judged = { ...work, state: { ...work.state, verdict } };
  if (isLastMilestone(work))
    return end(judged, input, { phase: 'completed', outcome }, { release: work.held });
  const amount = amountDue(work);
  return buildMove(judged, input, {
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

function openDispute(work: Work, input: MoveInput): Move {
  return buildMove(work, input, {
    phase: 'disputed',
    deadlineAt: input.now + work.terms.dispute!.resolveMs,
    state: { dispute: { by: input.by, reason: input.reason ?? '', at: input.now } },
    event: 'disputed',
  });
}

/** Nobody decided. A rule that could not finish says nothing about the delivery, so an arbiter decides if there is one. */
function applySilence(work: Work, input: MoveInput): Move {
  const { silence, splitBps, dispute } = work.terms;
  if (!dispute || !isEvaluating(work))
    return applyAnswer(work, input, { answer: silence, splitBps }, 'silence');
  const why = work.state.lastTry ? `: ${work.state.lastTry}` : '';
  return openDispute(work, { ...input, reason: `The rule did not finish in time${why}.` });
}

function resolveDispute(work: Work, input: MoveInput): Move {
  const { answer, splitBps } = input.resolution!;
  const { by, now: at, reason = '' } = input;
  const dispute = { ...work.state.dispute!, resolution: { by, answer, reason, at } };
  const withResolution = { ...work, state: { ...work.state, dispute } };
  return applyAnswer(
    withResolution,
    input,
    { answer, splitBps: splitBps ?? work.terms.splitBps },
    'resolved',
  );
}

function applyAnswer(
  work: Work,
  input: MoveInput,
  { answer, splitBps }: { answer: Silence; splitBps: number },
  outcome: 'silence' | 'resolved',
): Move {
  // Only delivered milestones are paid or divided; the later ones continue or are refunded.
  if (answer === 'release') return approve(work, input, outcome);
  if (answer === 'split') {
    const release = share(isLastMilestone(work) ? work.held : amountDue(work), splitBps);
    return end(
      work,
      input,
      { phase: 'completed', outcome: 'split' },
      { release, refund: work.held - release },
    );
  }
  const phase = outcome === 'silence' ? 'expired' : 'rejected';
  return end(work, input, { phase, outcome }, { refund: work.held });
}

function end(
  work: Work,
  input: MoveInput,
  { phase, outcome }: { phase: 'completed' | 'rejected' | 'expired'; outcome: Outcome },
  money: Partial<Money>,
): Move {
  const kinds = { completed: 'complete', rejected: 'reject', expired: 'refund' } as const;
  return buildMove(work, input, {
    phase,
    deadlineAt: null,
    held: 0,
    money: { ...none, ...money },
    state: { outcome, ...(input.action === 'conclude' ? { lapsed: true } : {}) },
    tx: outcome === 'split' ? 'split' : kinds[phase],
    event: phase,
  });
}

function recordOffer(
  work: Work,
  input: MoveInput,
  to: { budget: number; state: Partial<WorkState> },
): Move {
  const at = buildMove(work, input, {
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

function buildMove(work: Work, input: MoveInput, to: To): Move {
  const money = to.money ?? none;
  const amount = money.hold + money.release + money.refund;
  const n = work.state.txs.length;
  const hash = input.txHash === undefined ? {} : { hash: input.txHash };
  const txs = to.tx
    ? [...work.state.txs, { ...hash, kind: to.tx, id: `${work.jobId}/${n}`, amount, at: input.now }]
    : work.state.txs;
  const state: WorkState = { ...work.state, ...to.state, txs, pending: null };
  // A verdict's reason belongs to its author, even if another caller applies it.
  const author = input.verdict?.by ?? input.by;
  const data = {
    stage: to.phase === 'decided' ? 'submitted' : to.phase,
    by: input.by,
    ...(amount > 0 ? { amount: String(amount) } : {}),
    ...(state.outcome ? { outcome: state.outcome } : {}),
    ...(to.phase !== 'funded' && state.verdict ? { reason: reasonText(state.verdict) } : {}),
    ...(input.reason ? { reason: reasonText({ by: author, reason: input.reason }) } : {}),
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
