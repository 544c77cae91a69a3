// State of the chain adapter: intents (stored before anything is sent), the exact transactions, the blocks and events that
// were read, and the job as it was before each event, so that a chain reorganisation can be undone.
import type { Row, Statement, Step, Store, Value } from '../../../store/store.ts';

export interface Intent {
  id: string;
  jobId: string | null;
  action: string;
  effect: string | null;
  input: string;
  /** Address of the signer. */
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
  /** `replaced`: by one with the same nonce and a higher fee; either may still be mined. `dropped`: abandoned. */
  status: 'signed' | 'mined' | 'replaced' | 'dropped';
  block: number | null;
  createdAt: number;
}

export const isCurrent = ({ status }: Tx): boolean => status === 'signed' || status === 'mined';

/** The chain that this state belongs to: nodes of any other chain are refused. */
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

  /** For intents with a deterministic id: inserting one again changes nothing. */
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

  /** All transactions ever signed for a step of an intent, newest first: any of them may be mined. */
  async txsOf(intentId: string, step: number): Promise<Tx[]> {
    const rows = await this.store.read(
      `SELECT * FROM escrow_txs WHERE intent_id = ? AND step = ?
        ORDER BY created_at DESC, nonce DESC, hash`,
      [intentId, step],
    );
    return rows.map(txOf);
  }

  /** Nonces of a signer's current transactions, starting at this one. */
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

  /** Newest first: they are undone in this order. */
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

  /** Transactions of removed blocks are sent again, and their intents continue from there. */
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

  /** Ids of the jobs on the chain, page by page. */
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
