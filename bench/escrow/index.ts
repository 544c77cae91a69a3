// Escrow benchmarks: transfers, payments, complete hires, public reads, and verification of the books.
// node bench/escrow/index.ts [transfers|payments|hires|reads|verify]
import { DatabaseSync } from 'node:sqlite';
import { genesis, entriesOf, feeAccount } from '../../src/kinds/escrow/settlement/ledger/book.ts';
import { verifyBooks } from '../../src/kinds/escrow/verify.ts';
import { compare, rate } from '../harness.ts';
import { concurrency, hireOnce, openBank, payOnce, transferOnce, type Bank } from './ours.ts';
import { RawBank } from './raw.ts';
import { compareReads } from './reads.ts';

const transfers = 2000;
const hires = 400;
const entries = Number(process.env.BENCH_ENTRIES ?? 1_000_000);
const wanted = process.argv.slice(2);
const wants = (name: string) => wanted.length === 0 || wanted.includes(name);

if (wants('transfers')) {
  const bank = await openBank();
  await compare({
    name: `durable transfers, ${concurrency} concurrently`,
    unit: '/s',
    rounds: 5,
    ours: async () => ({
      name: 'errand',
      operations: transfers,
      round: () => rate(transfers, concurrency, () => transferOnce(bank)),
      close: () => bank.close(),
    }),
    peers: [
      {
        name: 'one SQLite transaction each',
        bar: { atLeast: 4 },
        open: async () => rawSide('pay', transfers),
      },
    ],
  });
}

if (wants('payments')) {
  const bank = await openBank();
  await compare({
    name: `send_payment, ${concurrency} concurrently`,
    unit: '/s',
    rounds: 5,
    ours: async () => ({
      name: 'errand',
      operations: transfers,
      round: () => rate(transfers, concurrency, () => payOnce(bank)),
      close: () => bank.close(),
    }),
    peers: [
      {
        name: 'one SQLite transaction with the same reads and rows each',
        bar: { atLeast: 4 },
        open: async () => rawSide('send', transfers),
      },
      {
        name: 'one SQLite transaction each, without fee, record and key',
        bar: 'none',
        open: async () => rawSide('pay', transfers),
      },
    ],
  });
}

if (wants('hires')) {
  const bank = await openBank();
  await compare({
    name: 'hires from post to payment',
    unit: '/s',
    rounds: 5,
    ours: async () => ({
      name: 'errand',
      operations: hires,
      round: () => rate(hires, concurrency, () => hireOnce(bank)),
      close: () => bank.close(),
    }),
    peers: [
      {
        name: 'the same rows in raw SQL',
        bar: { atLeast: 0.6 },
        open: async () => rawSide('hire', hires),
      },
    ],
  });
}

if (wants('reads')) await compareReads();

if (wants('verify')) {
  const bank = await openBank();
  fill(bank, entries);
  const db = new DatabaseSync(bank.path, { readOnly: true });
  await compare({
    name: `verify of ${entries.toLocaleString('en')} entries`,
    unit: ' ms',
    rounds: 3,
    ours: async () => ({
      name: 'errand',
      round: async () => {
        const start = performance.now();
        const { ok, problems } = await verifyBooks(bank.sqlite);
        if (!ok) throw new Error(problems.join('; '));
        return performance.now() - start;
      },
      close: () => bank.close(),
    }),
    peers: [
      {
        name: 'a raw scan of the table',
        bar: { atMost: 5 },
        open: async () => ({
          name: 'scan',
          round: async () => {
            const start = performance.now();
            let sum = 0;
            for (const row of db.prepare('SELECT * FROM escrow_entries').iterate()) {
              sum += row.amount as number;
            }
            if (sum === 0) throw new Error('nothing was read');
            return performance.now() - start;
          },
          close: async () => db.close(),
        }),
      },
    ],
  });
}

async function rawSide(what: 'pay' | 'send' | 'hire', total: number) {
  const raw = new RawBank();
  return {
    name: 'raw SQL',
    operations: total,
    round: async () => {
      const start = performance.now();
      for (let i = 0; i < total; i++) raw[what]();
      return total / ((performance.now() - start) / 1000);
    },
    close: async () => raw.close(),
  };
}

/** Entries like those of payments, written in bulk, because their creation is not measured here. */
function fill(bank: Bank, count: number): void {
  const db = new DatabaseSync(bank.path);
  const insert = db.prepare(
    `INSERT INTO escrow_entries (account, seq, transfer, line, credit, amount, kind, job_id, at, hash)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    'UPDATE escrow_accounts SET balance = balance - ?, day = ?, spent = ?, seq = ?, head = ? WHERE id = ?',
  );
  const credit = db.prepare('UPDATE escrow_accounts SET balance = balance + ? WHERE id = ?');
  const sources = bank.wallets16.map((wallet) => ({ ...wallet, seq: 0, head: genesis(wallet.id) }));
  const spent = sources.map(() => 0);
  const earned = new Map<string, number>();
  db.exec('BEGIN');
  for (let n = 0; n < count / 2; n++) {
    const from = n % concurrency;
    const to = sources[(from + 1) % concurrency]!.id;
    const fees = feeAccount('platform', String(n));
    const lines = [
      { credit: to, amount: 100, kind: 'payment' as const },
      { credit: fees, amount: 2, kind: 'fee' as const },
    ];
    for (const entry of entriesOf({ id: `pay_${n}`, source: sources[from]!, lines, at: n })) {
      const { account, seq, transfer, line, amount, kind, at, hash } = entry;
      insert.run(account, seq, transfer, line, entry.credit, amount, kind, null, at, hash);
      sources[from] = { ...sources[from]!, seq, head: hash };
      spent[from]! += amount;
      earned.set(entry.credit, (earned.get(entry.credit) ?? 0) + amount);
    }
  }
  // The times are the first milliseconds of 1970: all payments are of one day.
  for (const [i, { id, seq, head }] of sources.entries())
    update.run(spent[i]!, '1970-01-01', spent[i]!, seq, head, id);
  for (const [id, amount] of earned) credit.run(amount, id);
  db.exec('COMMIT; ANALYZE');
  db.close();
}
