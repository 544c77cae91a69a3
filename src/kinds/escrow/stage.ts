// The escrow stage machine as a table. Every combination of phase, action, role and time either matches a row with an
// effect or is refused with an error code. Pure: it uses no clock and no store, and moves no money.

/** Callers see `decided` as stage `submitted`: a verdict exists and can still be disputed. */
export const phases = [
  'open',
  'funded',
  'submitted',
  'decided',
  'disputed',
  'completed',
  'rejected',
  'expired',
] as const;
export type Phase = (typeof phases)[number];

/** An `evaluator` decides alone. A `member` belongs to a quorum, which decides together and only after a delivery. */
export const roles = [
  'client',
  'provider',
  'evaluator',
  'member',
  'arbiter',
  'system',
  'other',
] as const;
export type Role = (typeof roles)[number];

export const actions = [
  'counter',
  'fund',
  'cancel',
  'decline',
  'submit',
  'approve',
  'reject',
  'dispute',
  'resolve',
  'conclude',
] as const;
export type Action = (typeof actions)[number];

/** Before the deadline of the current phase, or at and after it. */
export const moments = ['before', 'after'] as const;
export type Moment = (typeof moments)[number];

/** What an allowed action does. The terms frozen at creation determine the next phase and the money. */
export type Effect =
  | 'offer'
  | 'hold'
  | 'withdraw'
  | 'return'
  | 'deliver'
  | 'release'
  | 'verdictApprove'
  | 'verdictReject'
  | 'openDispute'
  | 'resolution'
  | 'lapse'
  | 'expire'
  | 'silence'
  | 'verdictStands'
  | 'disputeSilence';

interface Rule {
  phase: Phase;
  action: Action;
  roles: readonly Role[];
  when: Moment | 'any';
  effect: Effect;
  /** These stop while the operator has paused escrow. Refunds never stop. */
  pausable?: true;
}

const anyone: readonly Role[] = roles;

export const rules: readonly Rule[] = [
  {
    phase: 'open',
    action: 'counter',
    roles: ['client', 'provider'],
    when: 'before',
    effect: 'offer',
    pausable: true,
  },
  {
    phase: 'open',
    action: 'fund',
    roles: ['client'],
    when: 'before',
    effect: 'hold',
    pausable: true,
  },
  { phase: 'open', action: 'cancel', roles: ['client'], when: 'any', effect: 'withdraw' },
  { phase: 'open', action: 'decline', roles: ['provider'], when: 'any', effect: 'withdraw' },
  { phase: 'open', action: 'conclude', roles: anyone, when: 'after', effect: 'lapse' },

  {
    phase: 'funded',
    action: 'submit',
    roles: ['provider'],
    when: 'before',
    effect: 'deliver',
    pausable: true,
  },
  { phase: 'funded', action: 'decline', roles: ['provider'], when: 'any', effect: 'return' },
  { phase: 'funded', action: 'reject', roles: ['evaluator'], when: 'any', effect: 'return' },
  { phase: 'funded', action: 'conclude', roles: anyone, when: 'after', effect: 'expire' },

  {
    phase: 'submitted',
    action: 'approve',
    roles: ['client'],
    when: 'before',
    effect: 'release',
    pausable: true,
  },
  {
    phase: 'submitted',
    action: 'approve',
    roles: ['evaluator', 'member', 'system'],
    when: 'before',
    effect: 'verdictApprove',
    pausable: true,
  },
  {
    phase: 'submitted',
    action: 'reject',
    roles: ['evaluator', 'member', 'system'],
    when: 'before',
    effect: 'verdictReject',
  },
  { phase: 'submitted', action: 'decline', roles: ['provider'], when: 'any', effect: 'return' },
  {
    phase: 'submitted',
    action: 'dispute',
    roles: ['client', 'provider'],
    when: 'before',
    effect: 'openDispute',
  },
  { phase: 'submitted', action: 'conclude', roles: anyone, when: 'after', effect: 'silence' },

  {
    phase: 'decided',
    action: 'approve',
    roles: ['client'],
    when: 'before',
    effect: 'release',
    pausable: true,
  },
  { phase: 'decided', action: 'decline', roles: ['provider'], when: 'any', effect: 'return' },
  {
    phase: 'decided',
    action: 'dispute',
    roles: ['client', 'provider'],
    when: 'before',
    effect: 'openDispute',
  },
  { phase: 'decided', action: 'conclude', roles: anyone, when: 'after', effect: 'verdictStands' },

  {
    phase: 'disputed',
    action: 'approve',
    roles: ['client'],
    when: 'before',
    effect: 'release',
    pausable: true,
  },
  { phase: 'disputed', action: 'decline', roles: ['provider'], when: 'any', effect: 'return' },
  {
    phase: 'disputed',
    action: 'resolve',
    roles: ['arbiter'],
    when: 'before',
    effect: 'resolution',
  },
  { phase: 'disputed', action: 'conclude', roles: anyone, when: 'after', effect: 'disputeSilence' },
];

export type RefusalCode =
  | 'jobFinal'
  | 'wrongStage'
  | 'notClient'
  | 'notProvider'
  | 'notEvaluator'
  | 'notArbiter'
  | 'notParty'
  | 'deadlinePassed'
  | 'notYetExpired'
  | 'evaluationPending'
  | 'escrowPaused';

type StageResult = { effect: Effect } | { refused: RefusalCode };

export const finalPhases: ReadonlySet<Phase> = new Set(['completed', 'rejected', 'expired']);

/** A caller can have several roles (a client may be its own evaluator): the first row that matches one of them applies. */
export function judge(
  { phase, action }: { phase: Phase; action: Action },
  held: ReadonlySet<Role>,
  moment: Moment,
  paused = false,
): StageResult {
  if (finalPhases.has(phase)) return { refused: 'jobFinal' };
  const forAction = rules.filter((rule) => rule.phase === phase && rule.action === action);
  if (forAction.length === 0) return { refused: 'wrongStage' };
  const forRole = forAction.filter((rule) => rule.roles.some((role) => held.has(role)));
  if (forRole.length === 0) return { refused: notAllowed(forAction) };
  const rule = forRole.find(({ when }) => when === 'any' || when === moment);
  if (!rule) return { refused: wrongTime(phase, moment) };
  if (paused && rule.pausable) return { refused: 'escrowPaused' };
  return { effect: rule.effect };
}

/** What a caller with these roles may do now; after a deadline this includes `conclude`. */
export function allowed(
  phase: Phase,
  held: ReadonlySet<Role>,
  moment: Moment,
  paused = false,
): Action[] {
  return actions.filter((action) => 'effect' in judge({ phase, action }, held, moment, paused));
}

const roleCodes: [Role, RefusalCode][] = [
  ['evaluator', 'notEvaluator'],
  ['client', 'notClient'],
  ['provider', 'notProvider'],
  ['arbiter', 'notArbiter'],
];

function notAllowed(candidates: readonly Rule[]): RefusalCode {
  const wanted = new Set(candidates.flatMap((rule) => rule.roles));
  if (wanted.has('client') && wanted.has('provider')) return 'notParty';
  return roleCodes.find(([role]) => wanted.has(role))?.[1] ?? 'notParty';
}

function wrongTime(phase: Phase, moment: Moment): RefusalCode {
  if (moment === 'after') return 'deadlinePassed';
  return phase === 'submitted' || phase === 'decided' || phase === 'disputed'
    ? 'evaluationPending'
    : 'notYetExpired';
}

/** Who must act next. */
export function nextActor(phase: Phase, automatic: boolean): Role | null {
  const actors: Record<Phase, Role | null> = {
    open: 'client',
    funded: 'provider',
    submitted: automatic ? 'system' : 'evaluator',
    decided: 'system',
    disputed: 'arbiter',
    completed: null,
    rejected: null,
    expired: null,
  };
  return actors[phase];
}
