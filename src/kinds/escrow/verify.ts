// Recomputes the books from nothing: every hash chain, every balance, the sum of all money, every job's escrow.
import { hash } from 'node:crypto';
import type { StoreReader } from '../../store/store.ts';
import { entryHash, feeAccounts, genesis } from './settlement/ledger/book.ts';
import { balancesAfter, entriesAfter, heldAfter } from './settlement/ledger/store.ts';
import type { Settlement, SettlementReport } from './settlement/settlement.ts';

export interface Verification {
  ok: boolean;
  entries: number;
  accounts: number;
  jobs: number;
  /** Everything minted and not yet back: the negative of the world's balance. */
  supply: string;
  /** What all escrow accounts hold together. */
  escrowed: string;
  /** What the ledger's fee accounts earned. */
  fees: { platform: string; evaluator: string };
  /** Every other settlement, compared with its own state. */
  settlements: Record<string, SettlementReport>;
  /** Hash over the heads of all chains: kept elsewhere, it shows whether history was rewritten. */
  fold: string;
  problems: string[];
}

const page = 5000;
const problemsMax = 20;
const triesMax = 50;
const holding: ReadonlySet<string> = new Set(['funded', 'submitted', 'decided', 'disputed']);

/** Others may go on meanwhile: the parts that must fit together are read again until nothing moved between them. */
export async function verifyBooks(
  store: StoreReader,
  settlements: Iterable<Settlement> = [],
): Promise<Verification> {
  const books = await verifyLedger(store);
  for (const { name, verify } of bound(settlements)) {
    const report = await verify();
    books.settlements[name] = report;
    books.problems.push(...report.problems.map((problem) => `${name}: ${problem}`));
  }
  return { ...books, ok: books.problems.length === 0 };
}

function* bound(settlements: Iterable<Settlement>) {
  for (const one of settlements) {
    const verify = one.verify?.bind(one);
    if (verify) yield { name: one.name, verify };
  }
}

async function verifyLedger(store: StoreReader): Promise<Verification> {
  const chains: Chains = { entries: 0, last: 0, sums: new Map(), heads: new Map(), problems: [] };
  await walkEntries(store, chains);
  for (let tries = 1; ; tries++) {
    const problems = [...chains.problems];
    const report = (problem: string) => {
      if (problems.length < problemsMax) problems.push(problem);
    };
    const accounts = await walkAccounts(store, chains, report);
    const jobs = await walkJobs(store, accounts.balances, report);
    const before = chains.last;
    await walkEntries(store, chains);
    if (chains.last !== before && tries < triesMax) continue;
    if (chains.last !== before)
      report('the books moved all the time: verify again in a quiet moment');
    const feesOf = (family: string) =>
      String(
        feeAccounts
          .filter((id) => id.startsWith(`fees:${family}:`))
          .reduce((sum, id) => sum + (accounts.balances.get(id) ?? 0), 0),
      );
    return {
      ok: problems.length === 0,
      entries: chains.entries,
      accounts: accounts.count,
      jobs,
      supply: String(-(accounts.balances.get('world') ?? 0)),
      escrowed: String(accounts.escrowed),
      fees: { platform: feesOf('platform'), evaluator: feesOf('evaluator') },
      settlements: {},
      fold: accounts.fold,
      problems,
    };
  }
}

interface Chains {
  entries: number;
  /** The newest entry that was read. */
  last: number;
  sums: Map<string, number>;
  heads: Map<string, { seq: number; head: string; debits: number }>;
  problems: string[];
}

async function walkEntries(store: StoreReader, chains: Chains): Promise<void> {
  const { sums, heads, problems } = chains;
  const report = (problem: string) => {
    if (problems.length < problemsMax) problems.push(problem);
  };
  for (;;) {
    const rows = await entriesAfter(store, chains.last, page);
    for (const row of rows) {
      const { account, credit, amount, hash: found } = row;
      let chain = heads.get(account);
      if (!chain) heads.set(account, (chain = { seq: 0, head: genesis(account), debits: 0 }));
      if (row.seq !== chain.seq + 1) report(`${account}: entry ${chain.seq + 1} is missing`);
      if (entryHash(chain.head, row) !== found) report(`${account}: entry ${row.seq} was changed`);
      chain.seq = row.seq;
      chain.head = found;
      chain.debits += amount;
      sums.set(credit, (sums.get(credit) ?? 0) + amount);
    }
    chains.entries += rows.length;
    if (rows.length > 0) chains.last = rows.at(-1)!.id;
    if (rows.length < page) return;
  }
}

async function walkAccounts(
  store: StoreReader,
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
      const chain = chains.heads.get(id) ?? { seq: 0, head: genesis(id), debits: 0 };
      const sum = (chains.sums.get(id) ?? 0) - chain.debits;
      if (balance !== sum) report(`${id}: balance is ${balance}, its entries sum to ${sum}`);
      if (chain.seq !== seq || chain.head !== head) report(`${id}: its chain ends elsewhere`);
      if (balance < 0 && kind !== 'world') report(`${id}: below zero`);
      balances.set(id, balance);
      total += balance;
      if (kind === 'escrow') escrowed += balance;
      if (seq > 0) folded.push(`${id}=${head}`);
    }
    if (rows.length < page) break;
    after = rows.at(-1)!.id;
  }
  for (const id of [...chains.sums.keys(), ...chains.heads.keys()]) {
    if (!balances.has(id)) report(`${id}: has entries and no account`);
  }
  if (total !== 0) report(`all balances sum to ${total} instead of 0`);
  return { count: balances.size, balances, escrowed, fold: hash('sha256', folded.join('\n')) };
}

/** A job holds exactly what its escrow account has, and nothing once it is over. */
async function walkJobs(
  store: StoreReader,
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
