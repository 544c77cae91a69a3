// What two parties agree on before money moves: the terms of a job, frozen in a spec document whose exact bytes are
// hashed. Pure: schemas, defaults that fill the terms, and who holds which role.
import { hash } from 'node:crypto';
import { z } from 'zod';
import { cleanLine } from '../../runtime/foreign-text.ts';
import type { Role } from './stage.ts';
import type { Fees } from './money.ts';

export const titleCharsMax = 200;
export const descriptionCharsMax = 2000;
export const milestonesMax = 20;
const quorumMembersMax = 9;
const ruleTimeoutMsMax = 30_000;
const schemaBytesMax = 32_768;

export const walletIdSchema = z
  .string()
  .regex(
    /^(wal_[0-9a-hjkmnp-tv-z]{16}|0x[0-9a-fA-F]{40})$/,
    'must be a wallet id or its 0x address',
  )
  .describe('Wallet id (wal_…) or its 0x address');

const manualRule = z.strictObject({
  type: z.literal('manual'),
  wallet: walletIdSchema.optional().describe('Who decides; without it the client does'),
});

const jsonSchemaRule = z.strictObject({
  type: z.literal('json_schema'),
  schema: z
    .record(z.string(), z.unknown())
    .refine((schema) => JSON.stringify(schema).length <= schemaBytesMax, 'schema is too large')
    .describe('JSON Schema (draft 2020-12 or 7) that the delivered JSON must satisfy'),
});

const httpCheckRule = z.strictObject({
  type: z.literal('http_check'),
  url: z.url({ protocol: /^https?$/ }).max(2000),
  expectedStatus: z.int().min(100).max(599).default(200),
  timeoutMs: z.int().min(100).max(ruleTimeoutMsMax).default(5000),
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
  need: z.int().min(1).max(quorumMembersMax),
  members: z.array(memberRule).min(2).max(quorumMembersMax),
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
/** A silent arbiter divides: neither side gains everything by opening a dispute. */
export const arbiterSilenceDefault: Silence = 'split';

export interface Milestone {
  title: string;
  amount: number;
}

/** A party as the spec names it for good. */
export interface Party {
  wallet: string;
  address?: string;
}

/** Frozen at creation; only the budget can be renegotiated, by the client, and only while the job is open. */
export interface Terms {
  version: '1.0';
  jobId: string;
  title: string;
  description: string;
  settlement: string;
  client: Party;
  provider: Party;
  /** What the client agreed to; `postedAmount` where that was another amount at first, `max` where it named a limit. */
  budget: { amount: string; currency: string; decimals: 6; postedAmount?: string; max?: string };
  evaluation: Rule;
  fees: Fees;
  /** ISO times; the deadlines of the open and the funded stage. */
  fundBy: string;
  expiredAt: string;
  /** Least time that the evaluator has after a submission. */
  evaluationMs: number;
  silence: Silence;
  /** The provider's share when the agreed answer to silence is to split. */
  splitBps: number;
  /** Time in which a verdict can be disputed; 0: a verdict settles at once. */
  disputeWindowMs: number;
  dispute: { arbiter: string; resolveMs: number; silence: Silence } | null;
  milestones: Milestone[];
  createdAt: string;
  /** Hash of the spec as it was posted, where the budget was renegotiated since. */
  revises?: string;
}

/** The document that everybody can fetch; its bytes change only when the client agrees to another budget. */
export const specText = (terms: Terms): string => JSON.stringify(terms);
export const specHash = (text: string): string => `sha256:${hash('sha256', text)}`;

/** The rules that vote: the members of a quorum, or the one rule itself. */
export const membersOf = (rule: Rule): readonly MemberRule[] =>
  rule.type === 'quorum' ? rule.members : [rule];

/** One line that others will read; what is left without control characters counts. */
export const lineSchema = (charsMax: number) =>
  z.string().overwrite(cleanLine).min(1).max(charsMax);

/** Wallets that vote: one for a manual rule, those of a quorum. */
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

/** Every role that a wallet holds in a job; `other` for everybody, so that open actions fit. */
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

/** What happens when nobody decides after a delivery, as one plain sentence for the client or for everybody else. */
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

/** What a job asks of a settlement beyond hold, release and refund. */
export function needsOf(terms: Terms): string[] {
  const needs: string[] = [];
  if (terms.milestones.length > 0) needs.push('milestones');
  if (terms.silence === 'split' || terms.dispute?.silence === 'split') needs.push('split');
  if (terms.silence === 'release') needs.push('release-on-silence');
  if (terms.dispute) needs.push('dispute');
  if (terms.evaluation.type === 'quorum') needs.push('quorum');
  if (terms.fundBy !== terms.expiredAt) needs.push('fund-by');
  return needs;
}
