// The ledger's identity: one row in either engine. `errand store copy` copies it. No server starts during a copy.
import type { Step, Store, StoreReader } from './store.ts';

interface LedgerIdentity {
  ledger: string;
  /** `copying`: a copy is writing rows of another store here. */
  state: string;
}

export async function readLedger(store: StoreReader): Promise<LedgerIdentity | undefined> {
  const sql = 'SELECT ledger, state FROM ledger WHERE id = 1';
  return (await store.read<{ ledger: string; state: string }>(sql))[0];
}

export async function beginCopy(target: Store): Promise<void> {
  await target.commit([stateStep('copying')]);
}

export async function endCopy(target: Store, ledger: string): Promise<void> {
  const sql = 'UPDATE ledger SET ledger = ? WHERE id = 1';
  await target.commit([{ sql, params: [ledger], expect: 1 }, stateStep('ready')]);
}

const stateStep = (state: string): Step => ({
  sql: 'UPDATE ledger SET state = ? WHERE id = 1',
  params: [state],
  expect: 1,
});
