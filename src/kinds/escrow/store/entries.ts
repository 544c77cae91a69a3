// SQL for a transfer as steps of the caller's transaction, and the reads for verification. For both databases.
import type { Step, StoreReader } from '../../../store/store.ts';
import {
  entriesOf,
  totalOf,
  worldAccount,
  type Entry,
  type TransferPlan,
} from '../settlement/ledger/book.ts';

const debitSql = `UPDATE escrow_accounts SET balance = balance - ?, seq = ?, head = ?,
  version = version + 1 WHERE id = ? AND version = ? AND balance - ? >= ?`;
const spendSql = `UPDATE escrow_accounts SET balance = balance - ?, seq = ?, head = ?, day = ?,
  spent = ?, version = version + 1 WHERE id = ? AND version = ? AND balance - ? >= ?
  AND NOT EXISTS (SELECT 1 FROM escrow_accounts WHERE id = '${worldAccount}' AND status = 'paused')`;
const creditSql = 'UPDATE escrow_accounts SET balance = balance + ? WHERE id = ?';

/** Inserts all entries of a transfer in one statement; prepared for each number of entries. */
const entrySqls = Array.from(
  { length: 20 },
  (_, lines) => `INSERT INTO escrow_entries
  (account, seq, transfer, line, credit, amount, kind, job_id, at, hash)
  VALUES ${Array.from({ length: lines }, () => '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ')}
  ON CONFLICT DO NOTHING`,
);

/** Every step has an `expect`: a changed payer, a missing payee or a used id undoes the whole transaction. */
export function transferSteps(plan: TransferPlan, entries = entriesOf(plan)): Step[] {
  const total = totalOf(plan.lines);
  const last = entries.at(-1)!;
  const { source, also, floor = 0 } = plan;
  return [
    {
      sql: also ? spendSql : debitSql,
      params: [
        total,
        last.seq,
        last.hash,
        ...(also ? [also.day, also.spent] : []),
        source.id,
        source.version,
        total,
        floor,
      ],
      expect: 1,
    },
    {
      sql: entrySqls[entries.length]!,
      params: entries.flatMap((entry) => [
        entry.account,
        entry.seq,
        entry.transfer,
        entry.line,
        entry.credit,
        entry.amount,
        entry.kind,
        entry.jobId,
        entry.at,
        entry.hash,
      ]),
      expect: entries.length,
    },
    ...entries.map((entry) => ({
      sql: creditSql,
      params: [entry.amount, entry.credit],
      expect: 1,
    })),
  ];
}

interface BalanceRow {
  id: string;
  kind: string;
  balance: number;
  seq: number;
  head: string;
  /** UTC day of `spent`, which counts everything that left the wallet that day on any settlement. */
  day: string | null;
  spent: number;
}

/** A page of entries in chronological order; those of one account are in the order of its chain. */
export function entriesAfter(
  store: StoreReader,
  after: number,
  limit: number,
): Promise<(Entry & { id: number })[]> {
  return store.read<Entry & { id: number }>(
    `SELECT id, account, seq, transfer, line, credit, amount, kind, job_id AS "jobId", at, hash
      FROM escrow_entries WHERE id > ? ORDER BY id LIMIT ?`,
    [after, limit],
  );
}

/** The entries of these transfers, in the order in which they were written. */
export function entriesOfTransfers(
  store: StoreReader,
  transfers: readonly string[],
): Promise<Entry[]> {
  if (transfers.length === 0) return Promise.resolve([]);
  return store.read<Entry & object>(
    `SELECT account, seq, transfer, line, credit, amount, kind, job_id AS "jobId", at, hash
      FROM escrow_entries WHERE transfer IN (${transfers.map(() => '?').join(', ')}) ORDER BY id`,
    [...transfers],
  );
}

export function balancesAfter(
  store: StoreReader,
  after: string,
  limit: number,
): Promise<BalanceRow[]> {
  return store.read<BalanceRow>(
    'SELECT id, kind, balance, seq, head, day, spent FROM escrow_accounts WHERE id > ? ORDER BY id LIMIT ?',
    [after, limit],
  );
}

export function heldAfter(
  store: StoreReader,
  after: string,
  limit: number,
): Promise<{ jobId: string; phase: string; held: number; settlement: string }[]> {
  return store.read(
    `SELECT job_id AS "jobId", phase, held, settlement FROM escrow_work WHERE job_id > ?
      ORDER BY job_id LIMIT ?`,
    [after, limit],
  );
}

/** Wallets that also pay through another settlement. */
export async function walletsElsewhere(store: StoreReader): Promise<Set<string>> {
  const rows = await store.read<{ client: string }>(
    `SELECT DISTINCT client FROM escrow_work WHERE settlement <> 'ledger'`,
  );
  return new Set(rows.map(({ client }) => client));
}
