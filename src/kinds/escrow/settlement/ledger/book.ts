// One ledger transfer: it debits one account, credits one or more, and links every entry into the hash chain of the debited
// account. Pure; store.ts turns a transfer into the steps of a transaction.
//
// The chain belongs to the debited account, so transfers of different payers never wait for one another. Credits are
// additions and need no version check. Fees, which many jobs credit, are spread over several accounts.
import { hash } from 'node:crypto';

export interface Account {
  id: string;
  kind: 'wallet' | 'escrow' | 'fees' | 'world';
  balance: number;
  version: number;
  /** Number of entries that debited it. */
  seq: number;
  /** Hash of the newest of these entries. */
  head: string;
}

export interface Line {
  credit: string;
  amount: number;
  kind: EntryKind;
}

const entryKinds = ['mint', 'payment', 'fee', 'hold', 'release', 'refund'] as const;
type EntryKind = (typeof entryKinds)[number];

export interface Entry extends Line {
  account: string;
  seq: number;
  transfer: string;
  line: number;
  jobId: string | null;
  at: number;
  hash: string;
}

export interface TransferPlan {
  /** Chosen by the caller; the same id can never move money twice. */
  id: string;
  source: Account;
  lines: readonly Line[];
  jobId?: string;
  at: number;
  /** How far the source may go below zero: only `world`, which mints, may do so. */
  floor?: number;
  /** Further columns of the source that change with the debit (the day's spending). */
  also?: { day: string; spent: number };
}

export const worldAccount = 'world';
export const escrowAccount = (jobId: string): string => `escrow:${jobId}`;

/** Fees are spread over several accounts, so that jobs that end concurrently do not wait for one row. */
const feeSpread = 16;
export function feeAccount(family: 'platform' | 'evaluator', key: string): string {
  // Ids end in random characters, so the last one selects the account.
  return `fees:${family}:${(key.codePointAt(key.length - 1) ?? 0) % feeSpread}`;
}
export const feeAccounts: readonly string[] = ['platform', 'evaluator'].flatMap((family) =>
  Array.from({ length: feeSpread }, (_, i) => `fees:${family}:${i}`),
);

export const genesis = (account: string): string => `genesis:${account}`;

/** The hash covers every field of an entry and the previous hash. */
export function entryHash(previous: string, entry: Omit<Entry, 'hash'>): string {
  return hash(
    'sha256',
    `${previous}|${entry.account}|${entry.seq}|${entry.transfer}|${entry.line}|${entry.credit}|${
      entry.amount
    }|${entry.kind}|${entry.jobId ?? ''}|${entry.at}`,
  );
}

export const totalOf = (lines: readonly Line[]): number =>
  lines.reduce((sum, { amount }) => sum + amount, 0);

/** Appends the lines to the source's hash chain. */
export function entriesOf(plan: TransferPlan): Entry[] {
  let { head, seq } = plan.source;
  return plan.lines.map((line, index) => {
    seq += 1;
    const entry: Omit<Entry, 'hash'> = {
      account: plan.source.id,
      seq,
      transfer: plan.id,
      line: index,
      credit: line.credit,
      amount: line.amount,
      kind: line.kind,
      jobId: plan.jobId ?? null,
      at: plan.at,
    };
    head = entryHash(head, entry);
    return { ...entry, hash: head };
  });
}
