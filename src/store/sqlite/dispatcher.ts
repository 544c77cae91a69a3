// The embedded dispatcher: which attempt runs next, and whether its holder is alive. Every method runs inside the
// transaction of a group commit.
import type { Candidate, ClaimPlan, ClaimRequest, DispatchEntry, Row, Step } from '../store.ts';
import type { Statements } from './statements.ts';

const ready = 0;
const scheduled = 1;
const leased = 2;

/** Reads one index in order, and only as far as needed. */
export const claimSql = `SELECT seq, attempt_id, job_id, priority, run_at FROM dispatch
  WHERE queue = ? AND state = ${ready} ORDER BY priority DESC, seq LIMIT ?`;

export const lostSql = `SELECT attempt_id AS "attemptId", job_id AS "jobId", holder FROM dispatch
  WHERE state = ${leased} AND lease_until <= ? LIMIT ?`;

/** Reads the claim index, no further than the entry or the limit. */
export const aheadSql = `SELECT count(*) AS n FROM (SELECT 1 FROM dispatch d
  JOIN (SELECT priority, seq FROM dispatch WHERE attempt_id = ?) own
  WHERE d.queue = ? AND d.state = ${ready}
    AND (d.priority > own.priority OR (d.priority = own.priority AND d.seq < own.seq)) LIMIT ?)`;

interface Hooks {
  /** Applies the steps of a plan in the current transaction. Returns false if the first step conflicts; nothing changes then. */
  apply(steps: readonly Step[]): boolean;
  /** Reports a queue that has something to claim once the transaction is durable. */
  ready(queue: string): void;
}

/** The first entries of a queue, as read in the current transaction. */
interface Head {
  waiting: WaitingEntry[];
  /** No more entries follow these. */
  complete: boolean;
}

/** Upper bound for reading ahead on behalf of the other claims of a group. */
const maxAhead = 100;

export class SqliteDispatcher {
  private readonly statements: Statements;
  private readonly hooks: Hooks;
  private readonly heads = new Map<string, Head>();
  private readAhead = 0;

  constructor(statements: Statements, hooks: Hooks) {
    this.statements = statements;
    this.hooks = hooks;
  }

  /** Call when a transaction begins or part of it was rolled back. `wanted`: how many entries its claims want in total. */
  begin(wanted: number): void {
    this.readAhead = Math.min(wanted, maxAhead);
    this.heads.clear();
  }

  enqueue({ attemptId, jobId, queue, priority, runAt }: DispatchEntry): void {
    const state = runAt > 0 ? scheduled : ready;
    this.statements.run(insertSql, attemptId, jobId, queue, priority, runAt, state);
    if (state !== ready) return;
    this.heads.delete(queue);
    this.hooks.ready(queue);
  }

  /** Deletes a held entry. Returns false if it does not exist or another holder has it. */
  settle(attemptId: string, holder: string | undefined): boolean {
    const changes =
      holder === undefined
        ? this.statements.run(settleSql, attemptId)
        : this.statements.run(`${settleSql} AND holder = ?`, attemptId, holder);
    return changes === 1;
  }

  withdraw(attemptId: string): void {
    this.heads.clear();
    this.statements.run('DELETE FROM dispatch WHERE attempt_id = ?', attemptId);
  }

  extend(attemptId: string, holder: string, leaseUntil: number): boolean {
    return this.statements.run(extendSql, leaseUntil, attemptId, holder) === 1;
  }

  renewLeases(leaseUntil: number): void {
    this.statements.run(renewSql, leaseUntil, leaseUntil);
  }

  take(request: ClaimRequest, plan: (candidate: Candidate) => ClaimPlan): Candidate[] {
    const taken: Candidate[] = [];
    for (const { name, limit } of request.queues) {
      let free = request.limit - taken.length;
      if (limit !== undefined) free = Math.min(free, limit - this.countLeased(name));
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
    this.heads.clear();
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
    const { request, taken } = claim;
    const end = taken.length + free;
    const seen = new Set<number>();
    // Read as many as wanted first, and more only if the plan skipped some.
    for (const limit of request.lookahead ? [free, free + request.lookahead] : [free]) {
      const { waiting, complete } = this.head(queue, limit);
      for (const entry of waiting.slice(0, limit)) {
        if (taken.length >= end) return;
        if (seen.has(entry.seq)) continue;
        seen.add(entry.seq);
        const candidate = this.decide(queue, entry, claim);
        if (candidate) taken.push(candidate);
      }
      if (taken.length >= end || (complete && waiting.length <= limit)) return;
    }
  }

  /** Returns at least `limit` waiting entries, or all of them. */
  private head(queue: string, limit: number): Head {
    const known = this.heads.get(queue);
    if (known && (known.complete || known.waiting.length >= limit)) return known;
    const count = Math.max(limit, this.readAhead);
    const waiting = this.statements.all<WaitingEntry>(claimSql, [queue, count]);
    const head = { waiting, complete: waiting.length < count };
    this.heads.set(queue, head);
    return head;
  }

  private decide(
    queue: string,
    entry: WaitingEntry,
    { request, plan }: { request: ClaimRequest; plan: (candidate: Candidate) => ClaimPlan },
  ): Candidate | undefined {
    const candidate = new LazyCandidate(this.statements, queue, entry);
    for (let tries = 0; tries < 2; tries++) {
      const decision = plan(candidate);
      if (decision.take) {
        // The cached job is outdated. Plan again with the current row.
        if (!this.hooks.apply(decision.steps)) continue;
        this.statements.run(leaseSql, request.now + request.leaseMs, request.holder, entry.seq);
      } else if (decision.drop)
        this.statements.run('DELETE FROM dispatch WHERE seq = ?', entry.seq);
      else if (decision.runAt !== undefined)
        this.statements.run(delaySql, decision.runAt, entry.seq);
      else return undefined;
      this.removeFromHead(queue, entry);
      return decision.take ? candidate : undefined;
    }
    return undefined;
  }

  private removeFromHead(queue: string, entry: WaitingEntry): void {
    const head = this.heads.get(queue);
    const at = head ? head.waiting.indexOf(entry) : -1;
    if (at >= 0) head!.waiting.splice(at, 1);
  }

  private countLeased(queue: string): number {
    return this.statements.all<{ n: number }>(leasedSql, [queue])[0]!.n;
  }
}

interface WaitingEntry {
  seq: number;
  attempt_id: string;
  job_id: string;
  priority: number;
  run_at: number;
}

class LazyCandidate implements Candidate {
  readonly lazy = true;
  readonly attemptId: string;
  readonly jobId: string;
  readonly queue: string;
  readonly priority: number;
  readonly runAt: number;
  private readonly statements: Statements;

  constructor(statements: Statements, queue: string, entry: WaitingEntry) {
    this.statements = statements;
    this.queue = queue;
    this.attemptId = entry.attempt_id;
    this.jobId = entry.job_id;
    this.priority = entry.priority;
    this.runAt = entry.run_at;
  }

  get job(): Row {
    return this.statements.all(jobSql, [this.jobId])[0] ?? {};
  }
}

const jobSql = 'SELECT * FROM jobs WHERE id = ?';
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
