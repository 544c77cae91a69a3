// The peer: the same rows written directly with node:sqlite, one transaction per step, synchronous=FULL, prepared statements.
import { hash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { scratchFolder } from '../harness.ts';

const wallets = 16;

export class RawBank {
  readonly db: DatabaseSync;
  private readonly statements: Record<string, ReturnType<DatabaseSync['prepare']>>;
  private readonly reads: Record<string, ReturnType<DatabaseSync['prepare']>>;
  private turn = 0;
  private seq = 0;
  private head = 'genesis';

  constructor() {
    this.db = new DatabaseSync(join(scratchFolder(), 'raw.sqlite'));
    this.db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
      CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0),
        seq INTEGER NOT NULL, head TEXT NOT NULL, status TEXT NOT NULL) STRICT;
      CREATE TABLE entries (id INTEGER PRIMARY KEY, account TEXT, seq INTEGER, transfer TEXT, line INTEGER,
        credit TEXT, amount INTEGER, kind TEXT, at INTEGER, hash TEXT) STRICT;
      CREATE UNIQUE INDEX entries_transfer ON entries (transfer, line);
      CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, stage TEXT, owner TEXT, input TEXT, result TEXT,
        created INTEGER, updated INTEGER, version INTEGER) STRICT;
      CREATE INDEX jobs_owner ON jobs (owner, created);
      CREATE TABLE events (cursor INTEGER PRIMARY KEY, job TEXT, n INTEGER, type TEXT, at INTEGER, data TEXT,
        UNIQUE (job, n)) STRICT;
      CREATE TABLE work (job TEXT PRIMARY KEY, client TEXT, provider TEXT, phase TEXT, deadline INTEGER,
        spec TEXT, state TEXT) STRICT;
      CREATE INDEX work_client ON work (client); CREATE INDEX work_provider ON work (provider);
      CREATE INDEX work_deadline ON work (deadline);
      CREATE TABLE deliverables (job TEXT, n INTEGER, content TEXT, PRIMARY KEY (job, n)) STRICT;
      CREATE TABLE payments (id TEXT PRIMARY KEY, payer TEXT, payee TEXT, amount INTEGER, fee INTEGER,
        kind TEXT, status TEXT, at INTEGER) STRICT;
      CREATE INDEX payments_payer ON payments (payer, at, id);
      CREATE INDEX payments_payee ON payments (payee, at, id);
      CREATE TABLE keys (key TEXT PRIMARY KEY, body TEXT, ref TEXT, until INTEGER) STRICT;
      CREATE INDEX keys_until ON keys (until);`);
    const sql: Record<string, string> = {
      debit:
        'UPDATE accounts SET balance = balance - ?, seq = ?, head = ? WHERE id = ? AND balance >= ?',
      credit: 'UPDATE accounts SET balance = balance + ? WHERE id = ?',
      account: "INSERT INTO accounts VALUES (?, ?, 0, ?, 'active')",
      entry: `INSERT INTO entries (account, seq, transfer, line, credit, amount, kind, at, hash)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      job: 'INSERT INTO jobs VALUES (?, ?, ?, ?, ?, NULL, ?, ?, 1)',
      moveJob:
        'UPDATE jobs SET status = ?, stage = ?, updated = ?, version = version + 1 WHERE id = ?',
      event: 'INSERT INTO events (job, n, type, at, data) VALUES (?, ?, ?, ?, ?)',
      work: 'INSERT INTO work VALUES (?, ?, ?, ?, ?, ?, ?)',
      moveWork: 'UPDATE work SET phase = ?, deadline = ?, state = ? WHERE job = ?',
      payment: 'INSERT INTO payments VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      key: 'INSERT INTO keys VALUES (?, ?, ?, ?)',
      deliverable: 'INSERT INTO deliverables VALUES (?, ?, ?)',
    };
    this.statements = Object.fromEntries(
      Object.entries(sql).map(([name, text]) => [name, this.db.prepare(text)]),
    );
    this.reads = {
      payer: this.db.prepare('SELECT * FROM accounts WHERE id = ?'),
      key: this.db.prepare('SELECT * FROM keys WHERE key = ? AND until > ?'),
    };
    for (let i = 0; i < wallets; i++) this.run('account', `w${i}`, 10_000_000_000, 'genesis');
    this.run('account', 'fees', 0, 'genesis');
  }

  pay(): void {
    const [from, to] = this.pair();
    this.transaction(() =>
      this.transfer(from, `t${Date.now().toString(32)}-${this.turn}`, [[to, 1000]]),
    );
  }

  /** A complete payment: reads the payer and the key; writes the key, the fee and the payment record. */
  send(): void {
    const [from, to] = this.pair();
    const now = Date.now();
    const id = `pay_${now.toString(32)}${randomBytes(10).toString('hex')}`;
    const body = hash('sha256', JSON.stringify([from, to, 1000]));
    this.transaction(() => {
      const payer = this.reads.payer!.get(from) as { balance: number; status: string };
      const known = this.reads.key!.get(`pay:${from}:purchase ${this.turn}`, now);
      if (known || payer.status !== 'active' || payer.balance < 1020) throw new Error('rejected');
      this.run('key', `pay:${from}:purchase ${this.turn}`, body, id, now);
      this.transfer(from, id, [
        [to, 1000],
        ['fees', 20],
      ]);
      this.run('payment', id, from, to, 1000, 20, 'direct', 'confirmed', now);
    });
  }

  hire(): void {
    const [client, provider] = this.pair();
    const id = randomBytes(10).toString('hex');
    const now = Date.now();
    const spec = JSON.stringify({ client, provider, text: 'x'.repeat(900) });
    const state = JSON.stringify({ txs: [], text: 'x'.repeat(300) });
    const move = (n: number, stage: string) => {
      this.run('moveJob', 'running', stage, now, id);
      this.run('event', id, n, stage, now, '{"amount":"1000"}');
      this.run('moveWork', stage, now, state, id);
    };
    this.transaction(() => {
      this.run('job', id, 'queued', 'open', 'bench', '{"title":"bench"}', now, now);
      this.run('event', id, 1, 'submitted', now, '{}');
      this.run('work', id, client, provider, 'open', now, spec, state);
    });
    this.transaction(() => {
      move(2, 'funded');
      this.run('account', `escrow:${id}`, 0, 'genesis');
      this.transfer(client, `${id}/1`, [[`escrow:${id}`, 1000]]);
    });
    this.transaction(() => {
      move(3, 'submitted');
      this.run('deliverable', id, 2, 'done');
    });
    this.transaction(() => {
      move(4, 'completed');
      this.transfer(`escrow:${id}`, `${id}/3`, [
        [provider, 930],
        [client, 50],
        ['fees', 20],
      ]);
    });
  }

  close(): void {
    this.db.close();
  }

  private pair(): [string, string] {
    const n = this.turn++;
    return [`w${n % wallets}`, `w${(n + 1) % wallets}`];
  }

  private transfer(from: string, id: string, lines: [string, number][]): void {
    let total = 0;
    for (const [line, [to, amount]] of lines.entries()) {
      this.head = hash('sha256', `${this.head}|${from}|${id}|${line}|${to}|${amount}`);
      this.seq += 1;
      total += amount;
      this.run('entry', from, this.seq, id, line, to, amount, 'payment', Date.now(), this.head);
      this.run('credit', amount, to);
    }
    this.run('debit', total, this.seq, this.head, from, total);
  }

  private run(name: string, ...values: (string | number)[]): void {
    this.statements[name]!.run(...values);
  }

  private transaction(work: () => void): void {
    this.db.exec('BEGIN IMMEDIATE');
    work();
    this.db.exec('COMMIT');
  }
}
