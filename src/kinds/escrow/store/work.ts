// SQL for escrow jobs and their deliveries, for both databases.
import { AppError } from '../../../errors.ts';
import type { Row, Step, Store, Value } from '../../../store/store.ts';
import { microPerUnit } from '../money.ts';
import { workOf, type Deliverable } from './rows.ts';
import { evaluatorsOf } from '../terms.ts';
import type { Work } from '../work.ts';

export const workRoles = ['client', 'provider', 'evaluator', 'arbiter'] as const;
type WorkRole = (typeof workRoles)[number] | 'any';

export class WorkStore {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async findWork(jobId: string): Promise<Work | undefined> {
    const [row] = await this.store.read('SELECT * FROM escrow_work WHERE job_id = ?', [jobId]);
    if (!row) return undefined;
    const work = workOf(row);
    if (work) return work;
    throw new AppError('wrongState', `The stored terms of ${jobId} cannot be decoded.`, {
      hint: 'Run `errand store check` to list damaged rows, and `errand restore` to restore a backup.',
      data: { undecodable: true },
    });
  }

  async workVersion(jobId: string): Promise<number | undefined> {
    const [row] = await this.store.read<{ version: number }>(
      'SELECT version FROM escrow_work WHERE job_id = ?',
      [jobId],
    );
    return row && Number(row.version);
  }

  async work(jobId: string): Promise<Work> {
    const work = await this.findWork(jobId);
    if (!work) {
      throw new AppError('notFound', `Escrow job ${jobId} does not exist.`, {
        hint: 'list_work lists the jobs of your wallet.',
      });
    }
    return work;
  }

  /**
   * Inserts the job if its client has fewer than `maxOpen` open jobs, and lists it for quorum members and arbiter, who
   * have no column in the job row.
   */
  insertWork(work: Work, maxOpen: number): Step[] {
    const { evaluation, dispute } = work.terms;
    const members = evaluation.type === 'quorum' ? evaluatorsOf(work.terms) : [];
    const judges: [wallet: string, role: WorkRole][] = [
      ...members.map((wallet): [string, WorkRole] => [wallet, 'evaluator']),
      ...(dispute ? [[dispute.arbiter, 'arbiter'] satisfies [string, WorkRole]] : []),
    ];
    return [
      ...this.lockClient(work.client),
      this.insertRow(work, maxOpen),
      ...judges.map((judge) => insertJudge(work.jobId, ...judge)),
    ];
  }

  /** PostgreSQL counts only committed rows, so concurrent posts of one client wait for each other. SQLite has one writer. */
  private lockClient(wallet: string): Step[] {
    if (this.store.engine === 'sqlite') return [];
    const sql = 'SELECT id FROM escrow_accounts WHERE id = ? FOR NO KEY UPDATE';
    return [{ sql, params: [wallet], expect: 1, lock: wallet }];
  }

  private insertRow(work: Work, maxOpen: number): Step {
    return {
      sql: `INSERT INTO escrow_work (job_id, client, provider, evaluator, settlement, external, phase,
        budget, held, deadline_at, next_at, spec, state, version, created_at, updated_at)
        SELECT ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, 1, ?, ? WHERE (${openSql}) < ?`,
      params: [
        work.jobId,
        work.client,
        work.provider,
        work.evaluator,
        work.settlement,
        work.external,
        work.phase,
        work.budget,
        work.deadlineAt,
        work.nextAt,
        work.spec,
        JSON.stringify(work.state),
        work.createdAt,
        work.updatedAt,
        work.client,
        maxOpen,
      ],
      expect: 1,
    };
  }

  /** Counts the jobs of this client that are not funded yet. */
  async countOpen(client: string): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(openSql, [client]);
    return Number(row!.n);
  }

  /** Ends the lease of the job, unless `keepsLease` is set. */
  updateWork(before: Work, after: Work, keepsLease = false): Step {
    const respec = after.spec !== before.spec;
    return {
      sql: `UPDATE escrow_work SET phase = ?, outcome = ?, budget = ?, held = ?, deadline_at = ?, next_at = ?,
        external = ?,${keepsLease ? '' : ' holder = NULL,'} state = ?,${respec ? ' spec = ?,' : ''} updated_at = ?, version = version + 1
        WHERE job_id = ? AND version = ?`,
      params: [
        after.phase,
        after.state.outcome,
        after.budget,
        after.held,
        after.deadlineAt,
        after.nextAt,
        after.external,
        JSON.stringify(after.state),
        ...(respec ? [after.spec] : []),
        after.updatedAt,
        before.jobId,
        before.version,
      ],
      expect: 1,
    };
  }

  /** Leases a due job, so that one node evaluates it. If that node crashes, another node can lease it later. */
  lease(jobId: string, nextAt: number, until: number, holder: string): Step {
    return {
      sql: 'UPDATE escrow_work SET next_at = ?, holder = ? WHERE job_id = ? AND next_at = ?',
      params: [until, holder, jobId, nextAt],
      expect: 1,
    };
  }

  /** Extends the lease of a running evaluation, at most until the deadline. Has no effect if the lease is over. */
  renewLease(jobId: string, until: number, holder: string): Step {
    return {
      sql: `UPDATE escrow_work SET next_at = CASE WHEN deadline_at < ? THEN deadline_at ELSE ? END
        WHERE job_id = ? AND holder = ? AND next_at IS NOT NULL`,
      params: [until, until, jobId, holder],
    };
  }

  /** Makes every job due that this node had leased. */
  releaseLeases(holder: string, now: number): Step {
    return {
      sql: `UPDATE escrow_work SET next_at = ?, holder = NULL
        WHERE next_at IS NOT NULL AND holder = ?`,
      params: [now, holder],
    };
  }

  /** The longest due jobs first; `after` is the last row of the previous page. */
  async dueWork(
    now: number,
    limit: number,
    after: { nextAt: number | null; jobId: string } = { nextAt: 0, jobId: '' },
  ): Promise<Work[]> {
    const sql = `SELECT * FROM escrow_work WHERE next_at IS NOT NULL AND next_at <= ?
      AND (next_at, job_id) > (?, ?) ORDER BY next_at, job_id LIMIT ?`;
    return decodable(limit, (last) => {
      const [nextAt, jobId] = last ? [last.next_at!, last.job_id!] : [after.nextAt, after.jobId];
      return this.store.read(sql, [now, nextAt, jobId, limit]);
    });
  }

  /** Newest first; `before` is the last row of the previous page. */
  async listWork(
    filter: { wallet: string; role: WorkRole; stages?: string[] },
    page: { limit: number; before?: { at: number; jobId: string } },
  ): Promise<Work[]> {
    return decodable(page.limit, (last) => {
      const { sql, params } = partIn(filter.wallet, filter.role);
      const where = [sql];
      if (filter.stages) {
        where.push(`phase IN (${filter.stages.map(() => '?').join(', ')})`);
        params.push(...filter.stages);
      }
      const before = last ? { at: last.created_at!, jobId: last.job_id! } : page.before;
      if (before) {
        where.push('(created_at < ? OR (created_at = ? AND job_id < ?))');
        params.push(before.at, before.at, before.jobId);
      }
      return this.store.read(
        `SELECT * FROM escrow_work WHERE ${where.join(' AND ')}
          ORDER BY created_at DESC, job_id DESC LIMIT ?`,
        [...params, page.limit],
      );
    });
  }

  async countWork(wallet: string, role: WorkRole): Promise<number> {
    const { sql, params } = partIn(wallet, role);
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM escrow_work WHERE ${sql}`,
      params,
    );
    return Number(row!.n);
  }

  /** How a wallet's jobs with other owners ended, by owner and outcome. Jobs of one unit or more have weight 1. */
  endings(wallet: string, role: 'client' | 'provider'): Promise<Ending[]> {
    const other = role === 'client' ? 'provider' : 'client';
    return this.store.read(
      `SELECT o.owner AS "counterparty", w.phase, w.outcome, count(*) AS n, sum(w.budget) AS amount,
        sum(CASE WHEN w.budget >= ${microPerUnit} THEN 1.0 ELSE w.budget / ${microPerUnit}.0 END) AS weight,
        max(w.updated_at) AS last
        ${countedSql(role, other)} GROUP BY o.owner, w.phase, w.outcome`,
      [wallet],
    );
  }

  /** The newest ended jobs of a provider. */
  ended(provider: string, limit: number): Promise<EndedJob[]> {
    return this.store.read(
      `SELECT w.job_id AS "jobId", w.phase, w.outcome, w.budget, w.updated_at AS at
        ${countedSql('provider', 'client')} ORDER BY w.updated_at DESC, w.job_id DESC LIMIT ?`,
      [provider, limit],
    );
  }

  /** Counts deliveries without a verdict since then, for the health alarm. */
  async stuck(since: number): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL AND phase = 'submitted'
        AND updated_at <= ?`,
      [since],
    );
    return Number(row!.n);
  }

  async openWork(): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL',
    );
    return Number(row!.n);
  }

  async backlog(now: number): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      'SELECT count(*) AS n FROM escrow_work WHERE next_at IS NOT NULL AND next_at <= ?',
      [now],
    );
    return Number(row!.n);
  }

  insertDeliverable(jobId: string, deliverable: Deliverable): Step {
    return {
      sql: `INSERT INTO escrow_deliverables (job_id, n, hash, uri, content, at)
        VALUES (?, ?, ?, ?, ?, ?)`,
      params: [
        jobId,
        deliverable.n,
        deliverable.hash,
        deliverable.uri,
        deliverable.content,
        deliverable.at,
      ],
      expect: 1,
    };
  }

  async deliverable(jobId: string, n: number): Promise<Deliverable | undefined> {
    const [row] = await this.store.read<Deliverable>(
      'SELECT n, hash, uri, content, at FROM escrow_deliverables WHERE job_id = ? AND n = ?',
      [jobId, n],
    );
    return row;
  }
}

export interface Ending {
  /** Owner of the other party. */
  counterparty: string;
  phase: string;
  outcome: string;
  n: number;
  amount: number;
  weight: number;
  last: number;
}

interface EndedJob {
  jobId: string;
  phase: string;
  outcome: string;
  budget: number;
  at: number;
}

const openSql = `SELECT count(*) AS n FROM escrow_work WHERE client = ? AND phase = 'open'`;

/** Only accepted or delivered work between wallets of two owners counts for reputation. */
const countedSql = (role: WorkRole, other: WorkRole): string => `FROM escrow_work w
  JOIN escrow_accounts s ON s.id = w.${role} JOIN escrow_accounts o ON o.id = w.${other}
  WHERE w.${role} = ? AND w.outcome IS NOT NULL AND s.owner <> o.owner AND (w.phase = 'completed'
    OR EXISTS (SELECT 1 FROM escrow_deliverables d WHERE d.job_id = w.job_id))`;

const insertJudge = (jobId: string, wallet: string, role: WorkRole): Step => ({
  sql: 'INSERT INTO escrow_judges (wallet, role, job_id) VALUES (?, ?, ?)',
  params: [wallet, role, jobId],
  expect: 1,
});

/** Jobs in which a wallet has this role. Quorum members and arbiters have no column in the job row. */
function partIn(wallet: string, role: WorkRole): { sql: string; params: Value[] } {
  const judged = 'job_id IN (SELECT job_id FROM escrow_judges WHERE wallet = ? AND role = ?)';
  if (role === 'any') {
    const parts = workRoles.map((one) => partIn(wallet, one));
    return {
      sql: `(${parts.map(({ sql }) => sql).join(' OR ')})`,
      params: parts.flatMap(({ params }) => params),
    };
  }
  if (role === 'arbiter') return { sql: judged, params: [wallet, role] };
  if (role !== 'evaluator') return { sql: `${role} = ?`, params: [wallet] };
  return { sql: `(evaluator = ? OR ${judged})`, params: [wallet, wallet, role] };
}

/** A page of decodable rows: one damaged row must not hide or delay the others. */
async function decodable(
  limit: number,
  read: (last: Row | undefined) => Promise<Row[]>,
): Promise<Work[]> {
  const works: Work[] = [];
  for (let last: Row | undefined; ;) {
    const rows = await read(last);
    works.push(...rows.flatMap((row) => workOf(row) ?? []));
    if (rows.length < limit || works.length >= limit) return works.slice(0, limit);
    last = rows.at(-1);
  }
}
