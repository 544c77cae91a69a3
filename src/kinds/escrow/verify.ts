// Recomputes the books from nothing: every hash chain, every balance, the sum of all money, every job's escrow.
import { hash } from 'node:crypto';
import type { Store } from '../../store/store.ts';
import { entryHash, genesis, type Entry } from './settlement/ledger/book.ts';
import { balancesAfter, entriesAfter, heldAfter } from './settlement/ledger/store.ts';

export interface Verification {
  ok: boolean;
  entries: number;
  accounts: number;
  jobs: number;
  /** Everything minted and not yet back: the negative of the world's balance. */
  supply: string;
  /** What all escrow accounts hold together. */
  escrowed: string;
  /** Hash over the heads of all chains: kept elsewhere, it shows whether history was rewritten. */
  fold: string;
  problems: string[];
}

const page = 5000;
const problemsMax = 20;
const holding: ReadonlySet<string> = new Set(['funded', 'submitted', 'decided', 'disputed']);

export async function verifyBooks(store: Store): Promise<Verification> {
  const problems: string[] = [];
  const report = (problem: string) => {
    if (problems.length < problemsMax) problems.push(problem);
  };
  const chains = await walkEntries(store, report);
  const accounts = await walkAccounts(store, chains, report);
  const jobs = await walkJobs(store, accounts.balances, report);
  return {
    ok: problems.length === 0,
    entries: chains.entries,
    accounts: accounts.count,
    jobs,
    supply: String(-(accounts.balances.get('world') ?? 0)),
    escrowed: String(accounts.escrowed),
    fold: accounts.fold,
    problems,
  };
}

interface Chains {
  entries: number;
  sums: Map<string, number>;
  heads: Map<string, { seq: number; head: string }>;
}

async function walkEntries(store: Store, report: (problem: string) => void): Promise<Chains> {
  const sums = new Map<string, number>();
  const heads = new Map<string, { seq: number; head: string }>();
  let entries = 0;
  let account = '';
  let seq = 0;
  let head = '';
  let debits = 0;
  const close = () => {
    if (account === '') return;
    heads.set(account, { seq, head });
    sums.set(account, (sums.get(account) ?? 0) - debits);
  };
  let after: Pick<Entry, 'account' | 'seq'> = { account: '', seq: 0 };
  for (;;) {
    const rows = await entriesAfter(store, after, page);
    for (const row of rows) {
      if (row.account !== account) {
        close();
        ({ account } = row);
        seq = 0;
        debits = 0;
        head = genesis(account);
      }
      seq += 1;
      if (row.seq !== seq) report(`${account}: entry ${seq} is missing`);
      ({ seq } = row);
      if (entryHash(head, row) !== row.hash) report(`${account}: entry ${seq} was changed`);
      head = row.hash;
      debits += row.amount;
      sums.set(row.credit, (sums.get(row.credit) ?? 0) + row.amount);
    }
    entries += rows.length;
    if (rows.length < page) break;
    after = rows.at(-1)!;
  }
  close();
  return { entries, sums, heads };
}

async function walkAccounts(
  store: Store,
  chains: Chains,
  report: (problem: string) => void,
): Promise<{ count: number; balances: Map<string, number>; escrowed: number; fold: string }> {
  const balances = new Map<string, number>();
  const folded: string[] = [];
  let total = 0;
  let escrowed = 0;
  let after = '';
  for (;;) {
    const rows = await balancesAfter(store, after, page);
    for (const { id, kind, balance, seq, head } of rows) {
      const chain = chains.heads.get(id) ?? { seq: 0, head: genesis(id) };
      const sum = chains.sums.get(id) ?? 0;
      if (balance !== sum) report(`${id}: balance is ${balance}, its entries sum to ${sum}`);
      if (chain.seq !== seq || chain.head !== head) report(`${id}: its chain ends elsewhere`);
      if (balance < 0 && kind !== 'world') report(`${id}: below zero`);
      chains.sums.delete(id);
      balances.set(id, balance);
      total += balance;
      if (kind === 'escrow') escrowed += balance;
      if (seq > 0) folded.push(`${id}=${head}`);
    }
    if (rows.length < page) break;
    after = rows.at(-1)!.id;
  }
  for (const id of chains.sums.keys()) report(`${id}: has entries and no account`);
  if (total !== 0) report(`all balances sum to ${total} instead of 0`);
  return { count: balances.size, balances, escrowed, fold: hash('sha256', folded.join('\n')) };
}

/** A job holds exactly what its escrow account has, and nothing once it is over. */
async function walkJobs(
  store: Store,
  balances: Map<string, number>,
  report: (problem: string) => void,
): Promise<number> {
  let count = 0;
  let after = '';
  for (;;) {
    const rows = await heldAfter(store, after, page);
    for (const { jobId, phase, held, settlement } of rows) {
      const escrow = balances.get(`escrow:${jobId}`) ?? 0;
      const should = holding.has(phase) ? held : 0;
      if (settlement === 'ledger' && escrow !== should) {
        report(`${jobId}: ${phase}, holds ${escrow} instead of ${should}`);
      }
      if (holding.has(phase) && held <= 0) report(`${jobId}: ${phase} and holds nothing`);
    }
    count += rows.length;
    if (rows.length < page) break;
    after = rows.at(-1)!.jobId;
  }
  return count;
}
