// The embedded dispatcher: which attempt next, and is its holder alive. Everything here runs inside a group's transaction.
import type {
  Candidate,
  ClaimPlan,
  ClaimRequest,
  DispatchEntry,
  Row,
  Step,
  Value,
} from '../store.ts';
import type { Statements } from './statements.ts';

const ready = 0;
const scheduled = 1;
const leased = 2;

/** One index, read in order and only as far as needed. */
export const claimSql = `SELECT d.seq AS d_seq, d.attempt_id AS d_attempt, d.priority AS d_priority,
    d.run_at AS d_run_at, j.*
  FROM dispatch d JOIN jobs j ON j.id = d.job_id
  WHERE d.queue = ? AND d.state = ${ready} ORDER BY d.priority DESC, d.seq LIMIT ?`;

export const lostSql = `SELECT attempt_id AS "attemptId", job_id AS "jobId", holder FROM dispatch
  WHERE state = ${leased} AND lease_until <= ? LIMIT ?`;

interface Hooks {
  /** Applies the steps of a plan in the present transaction. */
  apply(steps: readonly Step[]): void;
  /** The queue has something to claim once the transaction is durable. */
  ready(queue: string): void;
}

export class SqliteDispatcher {
  private readonly statements: Statements;
  private readonly hooks: Hooks;

  constructor(statements: Statements, hooks: Hooks) {
    this.statements = statements;
    this.hooks = hooks;
  }

  enqueue({ attemptId, jobId, queue, priority, runAt }: DispatchEntry): void {
    const state = runAt > 0 ? scheduled : ready;
    this.statements.run(insertSql, attemptId, jobId, queue, priority, runAt, state);
    if (state === ready) this.hooks.ready(queue);
  }

  /** Answers whether the entry was there, and held (by this holder). */
  settle(attemptId: string, holder: string | undefined): boolean {
    const changes =
      holder === undefined
        ? this.statements.run(settleSql, attemptId)
        : this.statements.run(`${settleSql} AND holder = ?`, attemptId, holder);
    return changes === 1;
  }

  withdraw(attemptId: string): void {
    this.statements.run('DELETE FROM dispatch WHERE attempt_id = ?', attemptId);
  }

  extend(attemptId: string, holder: string, leaseUntil: number): boolean {
    return this.statements.run(extendSql, leaseUntil, attemptId, holder) === 1;
  }

  renewAll(leaseUntil: number): void {
    this.statements.run(renewSql, leaseUntil, leaseUntil);
  }

  take(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Candidate[] {
    const taken: Candidate[] = [];
    for (const { name, limit } of request.queues) {
      let free = request.limit - taken.length;
      if (limit !== undefined) free = Math.min(free, limit - this.leasedOf(name));
      if (free > 0) this.takeFrom(name, free, { request, plan, taken });
      if (taken.length >= request.limit) break;
    }
    return taken;
  }

  isDue(now: number): boolean {
    return this.statements.all(dueSql, [now]).length > 0;
  }

  nextDue(): number | undefined {
    return this.statements.all<{ runAt: number }>(nextDueSql)[0]?.runAt;
  }

  promote(now: number): string[] {
    const rows = this.statements.all<{ queue: string }>(promoteSql, [now]);
    const queues = [...new Set(rows.map((row) => row.queue))];
    for (const queue of queues) this.hooks.ready(queue);
    return queues;
  }

  private takeFrom(
    queue: string,
    free: number,
    claim: {
      request: ClaimRequest;
      plan: (candidate: Candidate) => ClaimPlan;
      taken: Candidate[];
    },
  ): void {
    const { request, plan, taken } = claim;
    const end = taken.length + free;
    const seen = new Set<string>();
    // First as many as are wanted; more rows are read only after some were refused.
    for (const limit of request.lookahead ? [free, free + request.lookahead] : [free]) {
      const rows = this.statements.all(claimSql, [queue, limit]);
      for (const row of rows) {
        if (taken.length >= end) return;
        const candidate = candidateOf(queue, row);
        if (seen.has(candidate.attemptId)) continue;
        seen.add(candidate.attemptId);
        if (this.decide(row.d_seq!, plan(candidate), request)) taken.push(candidate);
      }
      if (taken.length >= end || rows.length < limit) return;
    }
  }

  private decide(seq: Value, decision: ClaimPlan, request: ClaimRequest): boolean {
    if (decision.take) {
      this.statements.run(leaseSql, request.now + request.leaseMs, request.holder, seq);
      this.hooks.apply(decision.steps);
      return true;
    }
    if (decision.drop) this.statements.run('DELETE FROM dispatch WHERE seq = ?', seq);
    else if (decision.runAt !== undefined) this.statements.run(delaySql, decision.runAt, seq);
    return false;
  }

  private leasedOf(queue: string): number {
    return this.statements.all<{ n: number }>(leasedSql, [queue])[0]!.n;
  }
}

function candidateOf(queue: string, row: Row): Candidate {
  return {
    attemptId: row.d_attempt as string,
    jobId: row.id as string,
    queue,
    priority: row.d_priority as number,
    runAt: row.d_run_at as number,
    job: row,
  };
}

const insertSql = `INSERT INTO dispatch (attempt_id, job_id, queue, priority, run_at, state)
  VALUES (?, ?, ?, ?, ?, ?)`;
const settleSql = `DELETE FROM dispatch WHERE attempt_id = ? AND state = ${leased}`;
const extendSql = `UPDATE dispatch SET lease_until = ?
  WHERE attempt_id = ? AND state = ${leased} AND holder = ?`;
const renewSql = `UPDATE dispatch SET lease_until = ? WHERE state = ${leased} AND lease_until < ?`;
const leaseSql = `UPDATE dispatch SET state = ${leased}, lease_until = ?, holder = ? WHERE seq = ?`;
const delaySql = `UPDATE dispatch SET state = ${scheduled}, run_at = ? WHERE seq = ?`;
const leasedSql = `SELECT count(*) AS n FROM dispatch WHERE queue = ? AND state = ${leased}`;
const dueSql = `SELECT 1 FROM dispatch WHERE state = ${scheduled} AND run_at <= ? LIMIT 1`;
const nextDueSql = `SELECT run_at AS "runAt" FROM dispatch
  WHERE state = ${scheduled} ORDER BY run_at LIMIT 1`;
const promoteSql = `UPDATE dispatch SET state = ${ready} WHERE seq IN
    (SELECT seq FROM dispatch WHERE state = ${scheduled} AND run_at <= ? ORDER BY run_at LIMIT 1000)
  RETURNING queue`;
