// A transfer as steps of the caller's transaction, and the reads that verify needs. SQL for both databases.
import type { Step, Store } from '../../../../store/store.ts';
import { entriesOf, totalOf, type Entry, type TransferPlan } from './book.ts';

/** Every step has an `expect`: a payer that changed, a missing payee or a used id undoes the whole command. */
export function transferSteps(plan: TransferPlan): Step[] {
  const entries = entriesOf(plan);
  const total = totalOf(plan.lines);
  const last = entries.at(-1)!;
  const also = plan.also ? ', day = ?, spent = ?' : '';
  const steps: Step[] = [
    {
      sql: `UPDATE escrow_accounts SET balance = balance - ?, seq = ?, head = ?,
        version = version + 1${also} WHERE id = ? AND version = ? AND balance - ? >= ?`,
      params: [
        total,
        last.seq,
        last.hash,
        ...(plan.also ? [plan.also.day, plan.also.spent] : []),
        plan.source.id,
        plan.source.version,
        total,
        plan.floor ?? 0,
      ],
      expect: 1,
    },
  ];
  for (const entry of entries) {
    steps.push(entryStep(entry), {
      sql: 'UPDATE escrow_accounts SET balance = balance + ? WHERE id = ?',
      params: [entry.amount, entry.credit],
      expect: 1,
    });
  }
  return steps;
}

function entryStep(entry: Entry): Step {
  return {
    sql: `INSERT INTO escrow_entries
      (account, seq, transfer, line, credit, amount, kind, job_id, at, hash)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    params: [
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
    ],
    expect: 1,
  };
}

export interface BalanceRow {
  id: string;
  kind: string;
  balance: number;
  seq: number;
  head: string;
}

/** A page of entries in the order of the chains. */
export function entriesAfter(
  store: Store,
  after: { account: string; seq: number },
  limit: number,
): Promise<Entry[]> {
  return store.read<Entry>(
    `SELECT account, seq, transfer, line, credit, amount, kind, job_id AS "jobId", at, hash
      FROM escrow_entries WHERE (account, seq) > (?, ?) ORDER BY account, seq LIMIT ?`,
    [after.account, after.seq, limit],
  );
}

export function balancesAfter(store: Store, after: string, limit: number): Promise<BalanceRow[]> {
  return store.read<BalanceRow>(
    'SELECT id, kind, balance, seq, head FROM escrow_accounts WHERE id > ? ORDER BY id LIMIT ?',
    [after, limit],
  );
}

export function heldAfter(
  store: Store,
  after: string,
  limit: number,
): Promise<{ jobId: string; phase: string; held: number; settlement: string }[]> {
  return store.read(
    `SELECT job_id AS "jobId", phase, held, settlement FROM escrow_work WHERE job_id > ?
      ORDER BY job_id LIMIT ?`,
    [after, limit],
  );
}
