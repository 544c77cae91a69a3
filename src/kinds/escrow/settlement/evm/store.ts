// What the chain adapter remembers: intents (written before anything is sent), the exact transactions, the blocks and
// events that were read, and the job as it was before each event, so that a reorganised chain can be followed back.
import type {
  Ddl,
  Migration,
  Row,
  Statement,
  Step,
  Store,
  Value,
} from '../../../../store/store.ts';

export const evmMigrations: Migration[] = [
  {
    id: 'escrow/2',
    statements: (ddl: Ddl) => [
      `CREATE TABLE escrow_intents (
        seq ${ddl.serial}, id TEXT NOT NULL UNIQUE, job_id TEXT, action TEXT NOT NULL, effect TEXT, input TEXT NOT NULL,
        signer TEXT NOT NULL, step ${ddl.int} NOT NULL, status TEXT NOT NULL, error TEXT,
        created_at ${ddl.int} NOT NULL) ${ddl.strict}`,
      `CREATE INDEX escrow_intents_active ON escrow_intents (seq) WHERE status = 'active'`,
      `CREATE TABLE escrow_txs (
        hash TEXT PRIMARY KEY, intent_id TEXT NOT NULL, step ${ddl.int} NOT NULL,
        signer TEXT NOT NULL, nonce ${ddl.int} NOT NULL, raw TEXT NOT NULL, status TEXT NOT NULL,
        block ${ddl.int}, created_at ${ddl.int} NOT NULL) ${ddl.strict}`,
      `CREATE UNIQUE INDEX escrow_txs_nonce ON escrow_txs (signer, nonce) WHERE status <> 'dropped'`,
      'CREATE INDEX escrow_txs_intent ON escrow_txs (intent_id, step)',
      `CREATE TABLE escrow_blocks (
        number ${ddl.int} PRIMARY KEY, hash TEXT NOT NULL) ${ddl.strict}`,
      `CREATE TABLE escrow_chain_events (
        block ${ddl.int} NOT NULL, log_index ${ddl.int} NOT NULL, tx_hash TEXT NOT NULL,
        job_id TEXT NOT NULL, name TEXT NOT NULL, before TEXT NOT NULL,
        PRIMARY KEY (block, log_index)) ${ddl.strict}`,
    ],
  },
  {
    id: 'escrow/4',
    statements: (ddl: Ddl) => [
      // A stuck transaction and its replacement have the same nonce; one of them is the current one.
      'DROP INDEX escrow_txs_nonce',
      `CREATE UNIQUE INDEX escrow_txs_nonce ON escrow_txs (signer, nonce)
        WHERE status IN ('signed', 'mined')`,
      `CREATE TABLE escrow_chains (
        n ${ddl.int} PRIMARY KEY, chain_id ${ddl.int} NOT NULL, genesis TEXT NOT NULL)
        ${ddl.strict}`,
    ],
  },
];

export interface Intent {
  id: string;
  jobId: string | null;
  action: string;
  effect: string | null;
  input: string;
  /** Address that signs. */
  signer: string;
  step: number;
  status: string;
  error: string | null;
  createdAt: number;
}

export interface Tx {
  hash: string;
  intentId: string;
  step: number;
  signer: string;
  nonce: number;
  raw: string;
  /** `replaced`: by one with the same nonce and a higher fee; either may still be mined. `dropped`: given up. */
  status: 'signed' | 'mined' | 'replaced' | 'dropped';
  block: number | null;
  createdAt: number;
}

export const isCurrent = ({ status }: Tx): boolean => status === 'signed' || status === 'mined';

/** Which chain all of this is about: a node that speaks for another one is not listened to. */
export interface ChainIdentity {
  chainId: number;
  genesis: string;
}

export class EvmStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  commit(steps: Step[]) {
    return this.store.commit(steps);
  }

  insertIntent(intent: Intent): Statement {
    return {
      sql: `INSERT INTO escrow_intents (id, job_id, action, effect, input, signer, step, status,
        created_at) VALUES (?, ?, ?, ?, ?, ?, 0, 'active', ?)`,
      params: [
        intent.id,
        intent.jobId,
        intent.action,
        intent.effect,
        intent.input,
        intent.signer,
        intent.createdAt,
      ],
      expect: 1,
    };
  }

  /** For intents whose id says where they come from: written a second time, they change nothing. */
  insertIntentOnce(intent: Intent): Step {
    const { sql, params } = this.insertIntent(intent);
    return { sql: `${sql} ON CONFLICT (id) DO NOTHING`, params };
  }

  intentStep(id: string, step: number, status: string, error: string | null = null): Step {
    return {
      sql: 'UPDATE escrow_intents SET step = ?, status = ?, error = ? WHERE id = ?',
      params: [step, status, error, id],
      expect: 1,
    };
  }

  async activeIntents(limit: number): Promise<Intent[]> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_intents WHERE status = 'active' ORDER BY seq LIMIT ?`,
      [limit],
    );
    return rows.map(intentOf);
  }

  async intent(id: string): Promise<Intent | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_intents WHERE id = ?', [id]);
    return row && intentOf(row);
  }

  insertTx(tx: Tx): Step {
    return {
      sql: `INSERT INTO escrow_txs (hash, intent_id, step, signer, nonce, raw, status, created_at)
        VALUES (?, ?, ?, ?, ?, ?, 'signed', ?) ON CONFLICT DO NOTHING`,
      params: [tx.hash, tx.intentId, tx.step, tx.signer, tx.nonce, tx.raw, tx.createdAt],
      expect: 1,
    };
  }

  txStatus(hash: string, status: Tx['status'], block: number | null): Step {
    return {
      sql: 'UPDATE escrow_txs SET status = ?, block = ? WHERE hash = ?',
      params: [status, block, hash],
      expect: 1,
    };
  }

  /** Every transaction that was ever signed for an intent's step, newest first: any of them may be mined. */
  async txsOf(intentId: string, step: number): Promise<Tx[]> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_txs WHERE intent_id = ? AND step = ?
        ORDER BY created_at DESC, nonce DESC, hash`,
      [intentId, step],
    );
    return rows.map(txOf);
  }

  /** Nonces of a signer that current transactions have, from this one on. */
  async noncesFrom(signer: string, nonce: number): Promise<Set<number>> {
    const rows = await this.store.read<{ nonce: number }>(
      `SELECT nonce FROM escrow_txs WHERE signer = ? AND nonce >= ?
        AND status IN ('signed', 'mined')`,
      [signer, nonce],
    );
    return new Set(rows.map((row) => Number(row.nonce)));
  }

  async identity(): Promise<ChainIdentity | undefined> {
    const [row] = await this.store.read<{ chain_id: number; genesis: string }>(
      'SELECT chain_id, genesis FROM escrow_chains WHERE n = 1',
    );
    return row && { chainId: Number(row.chain_id), genesis: row.genesis };
  }

  insertIdentity({ chainId, genesis }: ChainIdentity): Step {
    return {
      sql: `INSERT INTO escrow_chains (n, chain_id, genesis) VALUES (1, ?, ?)
        ON CONFLICT DO NOTHING`,
      params: [chainId, genesis],
    };
  }

  async tx(hash: string): Promise<Tx | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_txs WHERE hash = ?', [hash]);
    return row && txOf(row);
  }

  async nonceAfter(signer: string): Promise<number> {
    const [row] = await this.store.read<{ n: number | null }>(
      `SELECT max(nonce) AS n FROM escrow_txs WHERE signer = ?
        AND status IN ('signed', 'mined')`,
      [signer],
    );
    return row?.n === null || row?.n === undefined ? 0 : Number(row.n) + 1;
  }

  async lastBlocks(limit: number): Promise<{ number: number; hash: string }[]> {
    const rows = await this.store.read(
      'SELECT number, hash FROM escrow_blocks ORDER BY number DESC LIMIT ?',
      [limit],
    );
    return rows.map((row) => ({ number: Number(row.number), hash: row.hash as string }));
  }

  insertBlock(number: number, hash: string, keep: number): Step[] {
    return [
      {
        sql: `INSERT INTO escrow_blocks (number, hash) VALUES (?, ?)
          ON CONFLICT (number) DO UPDATE SET hash = excluded.hash`,
        params: [number, hash],
      },
      { sql: 'DELETE FROM escrow_blocks WHERE number < ?', params: [number - keep] },
    ];
  }

  async seen(block: number, logIndex: number): Promise<boolean> {
    const rows = await this.store.read(
      'SELECT 1 AS one FROM escrow_chain_events WHERE block = ? AND log_index = ?',
      [block, logIndex],
    );
    return rows.length > 0;
  }

  insertEvent(event: {
    block: number;
    logIndex: number;
    txHash: string;
    jobId: string;
    name: string;
    before: string;
  }): Step {
    return {
      sql: `INSERT INTO escrow_chain_events (block, log_index, tx_hash, job_id, name, before)
        VALUES (?, ?, ?, ?, ?, ?)`,
      params: [event.block, event.logIndex, event.txHash, event.jobId, event.name, event.before],
      expect: 1,
    };
  }

  /** Newest first: they are undone in that order. */
  async eventsAfter(block: number) {
    const rows = await this.store.read(
      `SELECT block, log_index, job_id, name, before FROM escrow_chain_events WHERE block > ?
        ORDER BY block DESC, log_index DESC`,
      [block],
    );
    return rows.map((row) => ({
      block: Number(row.block),
      logIndex: Number(row.log_index),
      jobId: row.job_id as string,
      name: row.name as string,
      before: row.before as string,
    }));
  }

  forgetEvent(block: number, logIndex: number): Step {
    return {
      sql: 'DELETE FROM escrow_chain_events WHERE block = ? AND log_index = ?',
      params: [block, logIndex],
      expect: 1,
    };
  }

  /** Transactions of blocks that are no more are sent again, and their intents go on from there. */
  async rewind(block: number): Promise<Step[]> {
    const gone = await this.store.read<{ intent: string; step: number }>(
      `SELECT intent_id AS intent, min(step) AS step FROM escrow_txs WHERE block > ?
        GROUP BY intent_id`,
      [block],
    );
    const params: Value[] = [block];
    return [
      { sql: 'DELETE FROM escrow_blocks WHERE number > ?', params },
      {
        sql: `UPDATE escrow_txs SET status = 'signed', block = NULL WHERE block > ?
          AND status = 'mined'`,
        params,
      },
      ...gone.map(({ intent, step }) => this.intentStep(intent, Number(step), 'active')),
    ];
  }

  async eventCount(): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_chain_events',
    );
    return Number(row?.n ?? 0);
  }

  /** Ids of the jobs on the chain, in pages. */
  async jobsAfter(after: string, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ id: string }>(
      `SELECT job_id AS id FROM escrow_work WHERE settlement = 'evm' AND job_id > ?
        ORDER BY job_id LIMIT ?`,
      [after, limit],
    );
    return rows.map(({ id }) => id);
  }

  async byExternal(external: string): Promise<string | undefined> {
    const [row] = await this.store.read<{ id: string }>(
      `SELECT job_id AS id FROM escrow_work WHERE settlement = 'evm' AND external = ?`,
      [external],
    );
    return row?.id;
  }
}

function intentOf(row: Row): Intent {
  return {
    id: row.id as string,
    jobId: row.job_id as string | null,
    action: row.action as string,
    effect: row.effect as string | null,
    input: row.input as string,
    signer: row.signer as string,
    step: Number(row.step),
    status: row.status as string,
    error: row.error as string | null,
    createdAt: Number(row.created_at),
  };
}

function txOf(row: Row): Tx {
  return {
    hash: row.hash as string,
    intentId: row.intent_id as string,
    step: Number(row.step),
    signer: row.signer as string,
    nonce: Number(row.nonce),
    raw: row.raw as string,
    status: row.status as Tx['status'],
    block: row.block === null ? null : Number(row.block),
    createdAt: Number(row.created_at),
  };
}
