// What both parties agree on before money moves: the terms of a job, frozen in a spec document whose exact bytes are
// hashed. Pure: schemas, defaults, and who holds which role.
import { hash } from 'node:crypto';
import { z } from 'zod';
import { cleanLine } from '../../runtime/untrusted-text.ts';
import type { Role } from './stage.ts';
import type { Fees } from './money.ts';

export const maxTitleChars = 200;
export const maxDescriptionChars = 2000;
export const maxMilestones = 20;
const maxQuorumMembers = 9;
const maxRuleTimeoutMs = 30_000;
const maxSchemaBytes = 32_768;

export const walletIdSchema = z
  .string()
  .regex(
    /^(wal_[0-9a-hjkmnp-tv-z]{16}|0x[0-9a-fA-F]{40})$/,
    'must be a wallet id or its 0x address',
  )
  .describe('Wallet id (wal_…) or its 0x address');

const manualRule = z.strictObject({
  type: z.literal('manual'),
  wallet: walletIdSchema.optional().describe('Who decides; default: the client'),
});

const jsonSchemaRule = z.strictObject({
  type: z.literal('json_schema'),
  schema: z
    .record(z.string(), z.unknown())
    .refine((schema) => JSON.stringify(schema).length <= maxSchemaBytes, 'schema is too large')
    .describe('JSON Schema (draft 04 to 2020-12) that the delivered JSON must match'),
});

const httpCheckRule = z.strictObject({
  type: z.literal('http_check'),
  url: z.url({ protocol: /^https?$/ }).max(2000),
  expectedStatus: z.int().min(100).max(599).default(200),
  timeoutMs: z.int().min(100).max(maxRuleTimeoutMs).default(5000),
  bodyHash: z
    .string()
    .regex(/^(0x[0-9a-f]{64}|sha256:[0-9a-f]{64})$/)
    .optional()
    .describe('keccak256 (0x…) or sha256:… of the exact body'),
  jsonMatch: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Fields that the JSON body must contain with these values'),
});

const commandRule = z.strictObject({
  type: z.literal('command'),
  check: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/)
    .describe('Name of a check that the operator configured (setting escrow.checks)'),
});

const memberRule = z.discriminatedUnion('type', [
  manualRule,
  jsonSchemaRule,
  httpCheckRule,
  commandRule,
]);

const quorumRule = z.strictObject({
  type: z.literal('quorum'),
  need: z.int().min(1).max(maxQuorumMembers),
  members: z.array(memberRule).min(2).max(maxQuorumMembers),
});

export const ruleSchema = z.discriminatedUnion('type', [
  manualRule,
  jsonSchemaRule,
  httpCheckRule,
  commandRule,
  quorumRule,
]);
export type Rule = z.infer<typeof ruleSchema>;
export type MemberRule = z.infer<typeof memberRule>;

export const silences = ['refund', 'release', 'split'] as const;
export type Silence = (typeof silences)[number];
/** If the arbiter stays silent, the amount is split: neither side gains everything by opening a dispute. */
export const arbiterSilenceDefault: Silence = 'split';

interface Milestone {
  title: string;
  amount: number;
}

/** A party as the spec names it permanently. */
interface Party {
  wallet: string;
  address?: string;
}

/** Frozen at creation; only the client can change the budget, and only while the job is open. */
export interface Terms {
  version: '1.0';
  jobId: string;
  title: string;
  description: string;
  settlement: string;
  client: Party;
  provider: Party;
  /** The amount that the client agreed to; `postedAmount` if it first posted another one, `max` if it set a limit. */
  budget: { amount: string; currency: string; decimals: 6; postedAmount?: string; max?: string };
  evaluation: Rule;
  fees: Fees;
  /** ISO times: the deadlines of the open and the funded stage. */
  fundBy: string;
  expiredAt: string;
  /** Minimum time for the evaluator after a submission. */
  evaluationMs: number;
  silence: Silence;
  /** The provider's share of a split. */
  splitBps: number;
  /** How long a verdict can be disputed; 0: a verdict settles immediately. */
  disputeWindowMs: number;
  dispute: { arbiter: string; resolveMs: number; silence: Silence } | null;
  milestones: Milestone[];
  createdAt: string;
  /** Hash of the spec as posted, if the budget has changed since. */
  revises?: string;
}

/** The public spec document; its bytes change only when the client agrees to another budget. */
export const specText = (terms: Terms): string => JSON.stringify(terms);
export const specHash = (text: string): string => `sha256:${hash('sha256', text)}`;

/** The rules that vote: the members of a quorum, or the single rule. */
export const membersOf = (rule: Rule): readonly MemberRule[] =>
  rule.type === 'quorum' ? rule.members : [rule];

/** One line for other readers; lengths count after control characters are removed. */
export const lineSchema = (maxChars: number) =>
  z.string().overwrite(cleanLine).min(1).max(maxChars);

/** Wallets that vote: one for a manual rule, several for a quorum. */
export function evaluatorsOf(terms: Terms): string[] {
  const rule = terms.evaluation;
  if (rule.type === 'manual') return [rule.wallet ?? terms.client.wallet];
  if (rule.type !== 'quorum') return [];
  return rule.members
    .filter((member) => member.type === 'manual')
    .map((member) => member.wallet ?? terms.client.wallet);
}

export const isAutomatic = (rule: Rule): boolean =>
  rule.type === 'quorum'
    ? rule.members.every((member) => member.type !== 'manual')
    : rule.type !== 'manual';

/** All roles of a wallet in a job, always including `other`, which matches actions open to everybody. */
export function rolesOf(terms: Terms, wallet: string | undefined): Set<Role> {
  const held = new Set<Role>(['other']);
  if (wallet === undefined) return held;
  if (wallet === terms.client.wallet) held.add('client');
  if (wallet === terms.provider.wallet) held.add('provider');
  const judges = terms.evaluation.type === 'quorum' ? 'member' : 'evaluator';
  if (evaluatorsOf(terms).includes(wallet)) held.add(judges);
  if (terms.dispute?.arbiter === wallet) held.add('arbiter');
  return held;
}

/** One sentence on what happens if nobody decides after a delivery, for the client or for all other readers. */
export function silenceText(terms: Terms, isClient: boolean): string {
  const { silence, evaluationMs, expiredAt, createdAt, splitBps } = terms;
  const judges = evaluatorsOf(terms);
  const [judge] = judges;
  const one = judge === terms.client.wallet ? (isClient ? 'you do' : 'the client does') : undefined;
  const who = one ?? (judges.length > 0 ? 'the evaluator does' : 'the rule does');
  const verb = judges.length > 0 ? 'respond' : 'decide';
  const outcomes: Record<Silence, string> = {
    release: 'the provider is paid',
    refund: 'the client gets the money back and the provider is not paid',
    split: `the provider gets ${splitBps / 100} % and the client the rest`,
  };
  const lasts = Date.parse(expiredAt) - Date.parse(createdAt) > evaluationMs;
  const until = lasts ? `, or until ${expiredAt} if that is later` : '';
  return `If ${who} not ${verb} within ${durationText(evaluationMs)} after delivery${until}, ${outcomes[silence]}.`;
}

/** 259200000 → "3 days": the largest unit that fits exactly. */
export function durationText(ms: number): string {
  const units: [name: string, ms: number][] = [
    ['day', 86_400_000],
    ['hour', 3_600_000],
    ['minute', 60_000],
    ['second', 1000],
  ];
  const [name, size] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1];
  const count = ms / size;
  return `${count} ${name}${name === 'ms' || count === 1 ? '' : 's'}`;
}

/** The settlement capabilities that a job needs beyond hold, release and refund. */
export function requiredCapabilities(terms: Terms): string[] {
  const required: string[] = [];
  if (terms.milestones.length > 0) required.push('milestones');
  if (terms.silence === 'split' || terms.dispute?.silence === 'split') required.push('split');
  if (terms.silence === 'release') required.push('release-on-silence');
  if (terms.dispute) required.push('dispute');
  if (terms.evaluation.type === 'quorum') required.push('quorum');
  if (terms.fundBy !== terms.expiredAt) required.push('fund-by');
  return required;
}
