// What an escrow job adds to a job: its terms, its phase, the amount held and what happened so far. Also maps these to the
// stage and status of every job. Pure.
import type { JobError } from '../../jobs/job.ts';
import type { Status } from '../../contracts/jobs.ts';
import { cleanLine, quoted } from '../../runtime/untrusted-text.ts';
import { allowed, finalPhases, type Action, type Moment, type Phase, type Role } from './stage.ts';
import { isAutomatic, membersOf, type Silence, type Terms } from './terms.ts';

export interface Work {
  jobId: string;
  client: string;
  provider: string;
  /** The single wallet that decides, if there is one. */
  evaluator: string | null;
  settlement: string;
  /** The job's id in the settlement, if it differs (its number on a chain). */
  external: string | null;
  phase: Phase;
  budget: number;
  /** The amount that the settlement holds for this job now. */
  held: number;
  deadlineAt: number | null;
  /** When the sweeper must check it next. */
  nextAt: number | null;
  /** True while a node holds the lease for its evaluation. */
  isLeased?: boolean;
  spec: string;
  /** Hash of the spec bytes, computed on first use. */
  specHash?: string;
  terms: Terms;
  state: WorkState;
  version: number;
  createdAt: number;
  updatedAt: number;
}

export interface WorkState {
  offers: { by: string; budget: number; at: number }[];
  /** Index of the current milestone. */
  milestone: number;
  submission: Submission | null;
  /** Deliveries of the paid milestones, in order. */
  accepted?: Submission[];
  verdict: Verdict | null;
  votes: Vote[];
  dispute: Dispute | null;
  /** Attempts of the automatic rule for the current submission, and why it has no verdict yet. */
  tries: number;
  lastTry: string | null;
  /** True if the deadline of the current submission was extended because the automatic rule had not finished. */
  extended?: boolean;
  txs: Tx[];
  /** An action that the settlement has accepted but not yet confirmed. */
  pending: { action: Action | 'create'; id: string; since: number } | null;
  outcome: Outcome | null;
  /** The client asked to fund the job on posting: it is funded with this budget once the settlement knows the job. */
  fundNext?: number;
  /** True if the job ended because a deadline passed. */
  lapsed?: true;
}

interface Dispute {
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
  /** `rule` for an automatic verdict, otherwise the wallet. */
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
  /** The transaction hash on a chain. */
  hash?: string;
}

const outcomes = [
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

/** True while an automatic part of the rule has no result yet. */
export const isEvaluating = ({ phase, state, terms }: Work): boolean =>
  phase === 'submitted' &&
  state.verdict === null &&
  membersOf(terms.evaluation).some(
    ({ type }, i) => type !== 'manual' && !state.votes.some(({ member }) => member === i),
  );

/**
 * True if the deadline must not end the job yet: an automatic rule gets more time once per submission. Where the settlement
 * keeps its own record of the job (a chain), the deadlines there are final.
 */
export const isExtendable = (work: Work): boolean =>
  work.external === null && !work.state.extended && isEvaluating(work);

/** Whether the deadline of the current stage has passed. */
export const momentOf = (work: Work, now: number): Moment =>
  work.deadlineAt !== null && now >= work.deadlineAt && !isExtendable(work) ? 'after' : 'before';

export const stageOf = (phase: Phase): string => (phase === 'decided' ? 'submitted' : phase);

/** Open is queued, funded is running, a person's turn is needs_input, and each final phase has its own status. */
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

/** A verdict's reason for all readers: text by a person is quoted. */
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
      'The evaluator did not decide in time, so the agreed refund was applied.',
    ],
  };
  const [code, message] = texts[state.outcome ?? 'expired'] ?? [
    'workExpired',
    state.txs.some(({ kind }) => kind === 'fund')
      ? 'Nothing was delivered before the deadline. The money was refunded.'
      : 'The job was not funded before its deadline.',
  ];
  return { code, message };
}

/** The actions open to these roles now. Without an arbiter nobody can dispute; while it settles nobody can act. */
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
