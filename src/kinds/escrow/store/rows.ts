// Row types of escrow (wallets, payments, deliverables, idempotency keys) and how rows become values. Pure.
import { decodeJson, decodeRecordOr, isRecord } from '../../../runtime/json.ts';
import type { Row, Value } from '../../../store/store.ts';
import type { Account } from '../settlement/ledger/book.ts';
import type { Phase } from '../stage.ts';
import type { Terms } from '../terms.ts';
import type { Work, WorkState } from '../work.ts';

export interface Policy {
  /** Micro-units; null: no limit. */
  txLimit: number | null;
  dailyLimit: number | null;
  /** Wallets that it may pay; empty: all. */
  allowlist: string[];
  expiresAt: number | null;
}

/** The fields that decide whether an account may pay. */
export interface Spender extends Account {
  /** `pending`: created without an owner, waiting to be claimed. */
  status: 'active' | 'frozen' | 'pending';
  policy: Policy;
  /** UTC day of `spent`. */
  day: string | null;
  spent: number;
}

export interface Wallet extends Spender {
  owner: string;
  name: string | null;
  address: string;
  createdAt: number;
  /** The encrypted signing key, if the settlement needs one. */
  secret: string | null;
}

export interface Payment {
  id: string;
  payer: string;
  payee: string;
  amount: number;
  fee: number;
  kind: string;
  status: string;
  memo: string | null;
  detail: Record<string, unknown> | null;
  at: number;
}

export interface Deliverable {
  n: number;
  hash: string;
  uri: string | null;
  content: string | null;
  at: number;
}

export interface RememberedKey {
  key: string;
  body: string;
  ref: string;
  until: number;
}

export const noPolicy: Policy = { txLimit: null, dailyLimit: null, allowlist: [], expiresAt: null };

export function accountOf(row: Row): Account {
  return {
    id: row.id as string,
    kind: row.kind as Account['kind'],
    balance: Number(row.balance),
    version: Number(row.version),
    seq: Number(row.seq),
    head: row.head as string,
  };
}

/** If the limits cannot be decoded, the wallet counts as frozen. */
export function spenderOf(row: Row): Spender {
  const policy = decodeJson(row.policy)?.value;
  const isSound = isPolicy(policy);
  return {
    ...accountOf(row),
    status: isSound ? (row.status as Wallet['status']) : 'frozen',
    policy: isSound ? policy : noPolicy,
    day: row.day as string | null,
    spent: Number(row.spent),
  };
}

const isLimit = (value: unknown): boolean => value === null || typeof value === 'number';

export const isPolicy = (value: unknown): value is Policy =>
  isRecord(value) &&
  [value.txLimit, value.dailyLimit, value.expiresAt].every(isLimit) &&
  Array.isArray(value.allowlist);

export function walletOf(row: Row): Wallet {
  return {
    ...spenderOf(row),
    owner: row.owner as string,
    name: row.name as string | null,
    address: row.address as string,
    createdAt: Number(row.created_at),
    secret: row.secret as string | null,
  };
}

/** Returns undefined if the terms or the state cannot be decoded. */
export function workOf(row: Row): Work | undefined {
  const terms = decodeJson(row.spec)?.value;
  const state = decodeJson(row.state)?.value;
  if (!isTerms(terms) || !isState(state)) return undefined;
  const optional = (value: Value | undefined) =>
    value === null || value === undefined ? null : Number(value);
  return {
    jobId: row.job_id as string,
    client: row.client as string,
    provider: row.provider as string,
    evaluator: row.evaluator as string | null,
    settlement: row.settlement as string,
    external: row.external as string | null,
    phase: row.phase as Phase,
    budget: Number(row.budget),
    held: Number(row.held),
    deadlineAt: optional(row.deadline_at),
    nextAt: optional(row.next_at),
    isLeased: row.holder !== null && row.holder !== undefined,
    spec: row.spec as string,
    terms,
    state,
    version: Number(row.version),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

export const isTerms = (value: unknown): value is Terms =>
  isRecord(value) &&
  [value.client, value.provider, value.budget, value.evaluation].every(isRecord) &&
  Array.isArray(value.milestones);

export const isState = (value: unknown): value is WorkState =>
  isRecord(value) && [value.offers, value.votes, value.txs].every(Array.isArray);

export function paymentOf(row: Row): Payment {
  return {
    id: row.id as string,
    payer: row.payer as string,
    payee: row.payee as string,
    amount: Number(row.amount),
    fee: Number(row.fee),
    kind: row.kind as string,
    status: row.status as string,
    memo: row.memo as string | null,
    detail: decodeRecordOr<Payment['detail']>(row.detail, null),
    at: Number(row.at),
  };
}
