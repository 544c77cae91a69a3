// What an escrow job is beyond a job: its terms, the phase it is in, what is held for it and what happened so far.
// Also how that maps to the stage and status that every job has. Pure.
import type { JobError, Status } from '../../jobs/job.ts';
import { cleanLine, quoted } from '../../runtime/foreign-text.ts';
import { allowed, finalPhases, type Action, type Moment, type Phase, type Role } from './stage.ts';
import { isAutomatic, membersOf, type Silence, type Terms } from './terms.ts';

export interface Work {
  jobId: string;
  client: string;
  provider: string;
  /** The one wallet that decides, where there is one. */
  evaluator: string | null;
  settlement: string;
  /** The job's name in the settlement, where that differs (its number on a chain). */
  external: string | null;
  phase: Phase;
  budget: number;
  /** What the settlement holds for this job now. */
  held: number;
  deadlineAt: number | null;
  /** When the sweeper must look at it next. */
  nextAt: number | null;
  /** A node has its evaluation in hand until then. */
  isLeased?: boolean;
  spec: string;
  /** Of the spec's bytes, once somebody asked. */
  specHash?: string;
  terms: Terms;
  state: WorkState;
  version: number;
  createdAt: number;
  updatedAt: number;
}

export interface WorkState {
  offers: { by: string; budget: number; at: number }[];
  /** Index of the milestone that is worked on. */
  milestone: number;
  submission: Submission | null;
  /** What was delivered for the milestones that are paid, in their order. */
  accepted?: Submission[];
  verdict: Verdict | null;
  votes: Vote[];
  dispute: Dispute | null;
  /** Times that the automatic rule was tried for the present submission, and why it has no verdict yet. */
  tries: number;
  lastTry: string | null;
  /** The deadline of the present submission was moved because its automatic rule had not finished. */
  extended?: boolean;
  txs: Tx[];
  /** An action that the settlement has accepted and not yet confirmed. */
  pending: { action: Action | 'create'; id: string; since: number } | null;
  outcome: Outcome | null;
  /** The client asked for it at once: to be funded with this budget as soon as the settlement knows the job. */
  fundNext?: number;
  /** It ended because a deadline passed, whatever was agreed for that. */
  lapsed?: true;
}

export interface Dispute {
  by: string;
  reason: string;
  at: number;
  resolution?: { by: string; answer: Silence; reason: string; at: number };
}

export interface Submission {
  n: number;
  hash: string;
  uri: string | null;
  inline: boolean;
  at: number;
}

export interface Check {
  criterion: string;
  met: boolean;
  evidence: string;
}

export interface Verdict {
  outcome: 'approved' | 'rejected';
  reason: string;
  /** `rule` for an automatic one, else the wallet. */
  by: string;
  at: number;
  checks: Check[];
}

export interface Vote extends Verdict {
  member: number;
}

export interface Tx {
  kind: 'create' | 'fund' | 'submit' | 'complete' | 'release' | 'reject' | 'refund' | 'split';
  id: string;
  amount: number;
  at: number;
  /** On a chain: the transaction. */
  hash?: string;
}

export const outcomes = [
  'approved',
  'rejected',
  'declined',
  'cancelled',
  'expired',
  'silence',
  'split',
  'resolved',
] as const;
export type Outcome = (typeof outcomes)[number];

export const newState = (): WorkState => ({
  offers: [],
  milestone: 0,
  submission: null,
  verdict: null,
  votes: [],
  dispute: null,
  tries: 0,
  lastTry: null,
  txs: [],
  pending: null,
  outcome: null,
});

/** A part of the rule that decides by itself has no result yet. */
export const isEvaluating = ({ phase, state, terms }: Work): boolean =>
  phase === 'submitted' &&
  state.verdict === null &&
  membersOf(terms.evaluation).some(
    ({ type }, i) => type !== 'manual' && !state.votes.some(({ member }) => member === i),
  );

/**
 * Its deadline must not end it yet: an automatic rule gets more time, once per submission. Where the settlement has a
 * record of the job of its own (a chain), the deadlines there are final.
 */
export const isExtendable = (work: Work): boolean =>
  work.external === null && !work.state.extended && isEvaluating(work);

/** Whether the deadline of the present stage has passed. */
export const momentOf = (work: Work, now: number): Moment =>
  work.deadlineAt !== null && now >= work.deadlineAt && !isExtendable(work) ? 'after' : 'before';

export const stageOf = (phase: Phase): string => (phase === 'decided' ? 'submitted' : phase);

/** Open waits, funded runs, a person's turn needs input, the three ends have their own statuses. */
export function statusOf(work: Pick<Work, 'phase' | 'terms' | 'state'>): Status {
  switch (work.phase) {
    case 'open':
      return 'queued';
    case 'funded':
    case 'decided':
      return 'running';
    case 'submitted':
      return isAutomatic(work.terms.evaluation) ? 'running' : 'input_required';
    case 'disputed':
      return 'input_required';
    case 'completed':
      return 'completed';
    case 'rejected':
      return work.state.outcome === 'rejected' || work.state.outcome === 'resolved'
        ? 'failed'
        : 'cancelled';
    case 'expired':
      return 'timed_out';
  }
}

/** A verdict's reason for everybody: a person's words are quoted. */
export const reasonText = ({ by, reason }: Pick<Verdict, 'by' | 'reason'>): string =>
  ['rule', 'system'].includes(by) ? cleanLine(reason) : quoted(reason);

export function errorOf(work: Work): JobError | null {
  if (!finalPhases.has(work.phase) || work.phase === 'completed') return null;
  const { state } = work;
  const texts: Partial<Record<Outcome, [string, string]>> = {
    rejected: [
      'workRejected',
      state.verdict ? reasonText(state.verdict) : 'The evaluator rejected the deliverable.',
    ],
    declined: ['workDeclined', 'The provider declined the job.'],
    cancelled: ['workCancelled', 'The client withdrew the job before it was funded.'],
    resolved: ['workRejected', 'The arbiter decided for the client.'],
    silence: [
      'workExpired',
      'The evaluator did not decide in time; the agreed answer is a refund.',
    ],
  };
  const [code, message] = texts[state.outcome ?? 'expired'] ?? [
    'workExpired',
    state.txs.some(({ kind }) => kind === 'fund')
      ? 'Nothing was delivered before the deadline; the money went back.'
      : 'The job was not funded before its deadline.',
  ];
  return { code, message };
}

/** What these roles may do with it now. Without an arbiter nobody disputes, and while it settles nobody does anything. */
export function availableActions(
  { phase, state, terms }: Work,
  held: ReadonlySet<Role>,
  moment: Moment,
  paused: boolean,
): Action[] {
  if (state.pending) return [];
  const actions = allowed(phase, held, moment, paused);
  return terms.dispute ? actions : actions.filter((action) => action !== 'dispute');
}

export const amountDue = (work: Work): number => {
  const milestone = work.terms.milestones[work.state.milestone];
  return milestone ? milestone.amount : work.held;
};

export const isLastMilestone = (work: Work): boolean =>
  work.state.milestone >= work.terms.milestones.length - 1;
