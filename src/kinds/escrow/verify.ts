// Recomputes the books from the entries: every hash chain, every balance, the total supply, every job's escrow.
import { hash } from 'node:crypto';
import type { StoreReader } from '../../store/store.ts';
import { entryHash, feeAccounts, genesis } from './settlement/ledger/book.ts';
import { balancesAfter, entriesAfter, heldAfter, walletsElsewhere } from './store/entries.ts';
import type { Settlement, SettlementReport } from './settlement/settlement.ts';

export interface Verification {
  ok: boolean;
  entries: number;
  accounts: number;
  jobs: number;
  /** Everything minted and not returned: the negative balance of the world account. */
  supply: string;
  /** The sum of all escrow accounts. */
  escrowed: string;
  /** What the ledger's fee accounts have earned. */
  fees: { platform: string; evaluator: string };
  /** Every other settlement, compared with its own state. */
  settlements: Record<string, SettlementReport>;
  /** Hash over the heads of all chains. Stored elsewhere, it reveals a rewritten history. */
  fold: string;
  problems: string[];
}

const page = 5000;
const maxProblems = 20;
const maxTries = 50;
const holding: ReadonlySet<string> = new Set(['funded', 'submitted', 'decided', 'disputed']);

/** Payments may continue meanwhile: parts that must match are read again until nothing changed between the reads. */
export async function verifyBooks(
  store: StoreReader,
  settlements: Iterable<Settlement> = [],
): Promise<Verification> {
  const books = await verifyLedger(store);
  for (const { name, verify } of verifiable(settlements)) {
    const report = await verify();
    books.settlements[name] = report;
    books.problems.push(...report.problems.map((problem) => `${name}: ${problem}`));
  }
  return { ...books, ok: books.problems.length === 0 };
}

function* verifiable(settlements: Iterable<Settlement>) {
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
      if (problems.length < maxProblems) problems.push(problem);
    };
    const elsewhere = await walletsElsewhere(store);
    const accounts = await walkAccounts(store, { chains, elsewhere }, report);
    const jobs = await walkJobs(store, accounts.balances, report);
    const before = chains.last;
    await walkEntries(store, chains);
    if (chains.last !== before && tries < maxTries) continue;
    if (chains.last !== before)
      report('the books kept changing: verify again when fewer payments are running');
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
  /** Id of the newest entry that was read. */
  last: number;
  sums: Map<string, number>;
  heads: Map<string, Chain>;
  problems: string[];
}

interface Chain {
  seq: number;
  head: string;
  debits: number;
  /** The UTC day of the last debit, and the sum debited on that day. */
  day: number;
  spent: number;
}

const emptyChain = (account: string): Chain => ({
  seq: 0,
  head: genesis(account),
  debits: 0,
  day: 0,
  spent: 0,
});
const dayMs = 86_400_000;

async function walkEntries(store: StoreReader, chains: Chains): Promise<void> {
  const { sums, heads, problems } = chains;
  const report = (problem: string) => {
    if (problems.length < maxProblems) problems.push(problem);
  };
  for (;;) {
    const rows = await entriesAfter(store, chains.last, page);
    for (const row of rows) {
      const { account, credit, amount, hash: found } = row;
      let chain = heads.get(account);
      if (!chain) heads.set(account, (chain = emptyChain(account)));
      if (row.seq !== chain.seq + 1) report(`${account}: entry ${chain.seq + 1} is missing`);
      if (entryHash(chain.head, row) !== found) report(`${account}: entry ${row.seq} was changed`);
      chain.seq = row.seq;
      chain.head = found;
      chain.debits += amount;
      const day = Math.floor(row.at / dayMs);
      chain.spent = (day === chain.day ? chain.spent : 0) + amount;
      chain.day = day;
      sums.set(credit, (sums.get(credit) ?? 0) + amount);
    }
    chains.entries += rows.length;
    if (rows.length > 0) chains.last = rows.at(-1)!.id;
    if (rows.length < page) return;
  }
}

function isSpending(chain: Chain, day: string | null, spent: number, isMore: boolean): boolean {
  const at = day === null ? 0 : Date.parse(day) / dayMs;
  if (at < chain.day) return false;
  const own = at === chain.day ? chain.spent : 0;
  return isMore ? spent >= own : spent === own;
}

async function walkAccounts(
  store: StoreReader,
  { chains, elsewhere }: { chains: Chains; elsewhere: ReadonlySet<string> },
  report: (problem: string) => void,
): Promise<{ count: number; balances: Map<string, number>; escrowed: number; fold: string }> {
  const balances = new Map<string, number>();
  const folded: string[] = [];
  let total = 0;
  let escrowed = 0;
  let after = '';
  for (;;) {
    const rows = await balancesAfter(store, after, page);
    for (const { id, kind, balance, seq, head, day, spent } of rows) {
      const chain = chains.heads.get(id) ?? emptyChain(id);
      const sum = (chains.sums.get(id) ?? 0) - chain.debits;
      if (balance !== sum) report(`${id}: balance is ${balance}, its entries sum to ${sum}`);
      if (chain.seq !== seq || chain.head !== head) report(`${id}: its hash chain does not match`);
      if (balance < 0 && kind !== 'world') report(`${id}: balance is below zero`);
      // These entries do not include what left the wallet through another settlement.
      if (kind === 'wallet' && !isSpending(chain, day, spent, elsewhere.has(id)))
        report(
          `${id}: spent ${spent} on ${day}, but its entries of that day sum to ${chain.spent}`,
        );
      balances.set(id, balance);
      total += balance;
      if (kind === 'escrow') escrowed += balance;
      if (seq > 0) folded.push(`${id}=${head}`);
    }
    if (rows.length < page) break;
    after = rows.at(-1)!.id;
  }
  for (const id of [...chains.sums.keys(), ...chains.heads.keys()]) {
    if (!balances.has(id)) report(`${id}: has entries but no account`);
  }
  if (total !== 0) report(`all balances sum to ${total} instead of 0`);
  return { count: balances.size, balances, escrowed, fold: hash('sha256', folded.join('\n')) };
}

/** A job holds exactly the balance of its escrow account, and nothing once it has ended. */
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
      if (holding.has(phase) && held <= 0) report(`${jobId}: ${phase} but holds nothing`);
    }
    count += rows.length;
    if (rows.length < page) break;
    after = rows.at(-1)!.jobId;
  }
  return count;
}
