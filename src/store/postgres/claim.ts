// Claims attempts: takes entries from pg-boss, applies the caller's pure plan, and leases and starts the attempts in one
// transaction. It never waits for rows of another transaction, so concurrent claims of two nodes do not block each other.
// Only a queue with a limit is claimed by one node at a time, which makes the limit exact across nodes.
import type { Pool, PoolClient } from 'pg';
import type { Candidate, ClaimPlan, ClaimRequest, Row } from '../store.ts';
import { rollback, withClient } from './committer.ts';
import type { Dispatcher, ReadyEntry } from './dispatcher.ts';
import { prepare } from './sql.ts';
import { Conflict, Transaction } from './transaction.ts';

type Plan = (candidate: Candidate) => ClaimPlan;
type Queue = ClaimRequest['queues'][number];

const maxTries = 3;
/** Entries examined per batch after the plan skipped some. */
const maxBatch = 25;
/** Advisory lock class for queues with a limit. */
const limitLock = 7_411_002;

interface ClaimResult {
  taken: Candidate[];
  /** Queues in which another node held entries during the claim. That node may put them back. */
  contested: string[];
}

export async function claimAttempts(
  deps: { pool: Pool; dispatcher: Dispatcher },
  request: ClaimRequest,
  plan: Plan,
): Promise<ClaimResult> {
  const { pool, dispatcher } = deps;
  for (const { name } of request.queues) await dispatcher.ensureQueue(name);
  const queues = await nonEmpty(deps, request.queues);
  if (queues.length === 0 || request.limit <= 0) return { taken: [], contested: [] };
  return withClient(pool, async (client) => {
    for (let tries = 1; ; tries++) {
      const claim = new Claim({ client, dispatcher, request, plan });
      try {
        const taken = await claim.run(queues);
        // A node that claimed something looks again when that job is done.
        const contested = taken.length > 0 ? [] : await claim.contested();
        return { taken, contested };
      } catch (error) {
        await rollback(client, error);
        const { code } = error as { code?: string };
        const canRetry = error instanceof Conflict || code === '40P01' || code === '40001';
        if (!canRetry) throw error;
        if (tries >= maxTries) return { taken: [], contested: [] };
      }
    }
  });
}

async function nonEmpty(
  { pool, dispatcher }: { pool: Pool; dispatcher: Dispatcher },
  queues: readonly Queue[],
): Promise<readonly Queue[]> {
  if (queues.length < 2) return queues;
  const names = await dispatcher.nonEmptyQueues(
    pool,
    queues.map(({ name }) => name),
  );
  return queues.filter(({ name }) => names.has(name));
}

class Claim {
  private readonly client: PoolClient;
  private readonly dispatcher: Dispatcher;
  private readonly request: ClaimRequest;
  private readonly plan: Plan;
  private readonly transaction: Transaction;
  private readonly taken: Candidate[] = [];
  /** Entries that this claim removes from the queue without starting them. */
  private readonly removed = new Set<string>();
  /** Queues that were examined to the end. */
  private readonly exhausted: string[] = [];

  constructor(deps: {
    client: PoolClient;
    dispatcher: Dispatcher;
    request: ClaimRequest;
    plan: Plan;
  }) {
    this.client = deps.client;
    this.dispatcher = deps.dispatcher;
    this.request = deps.request;
    this.plan = deps.plan;
    this.transaction = new Transaction(deps.client, deps.dispatcher);
  }

  async run(queues: readonly Queue[]): Promise<Candidate[]> {
    await this.lockLimited(queues);
    for (const { name, limit } of queues) {
      let free = this.request.limit - this.taken.length;
      if (limit !== undefined) free = Math.min(free, limit - (await this.countHeld(name)));
      if (free > 0) await this.takeFrom(name, free);
      if (this.taken.length >= this.request.limit) break;
    }
    const { holder, now, leaseMs } = this.request;
    if (this.taken.length > 0) this.transaction.hold(this.taken, holder, now + leaseMs);
    await this.transaction.commit();
    return this.taken;
  }

  contested(): Promise<string[]> {
    return this.dispatcher.lockedElsewhere(this.client, this.exhausted);
  }

  /** Locks in the same order on every node, so that two claims never deadlock. */
  private async lockLimited(queues: readonly Queue[]): Promise<void> {
    const names = queues.filter(({ limit }) => limit !== undefined).map(({ name }) => name);
    if (names.length === 0) return;
    await this.client.query(
      `SELECT pg_advisory_xact_lock($1, k) FROM
         (SELECT DISTINCT hashtext(current_schema() || q) AS k FROM unnest($2::text[]) AS q ORDER BY 1) AS keys`,
      [limitLock, names],
    );
  }

  private async countHeld(queue: string): Promise<number> {
    const { rows } = await this.client.query({
      ...prepare('SELECT count(*) AS n FROM leases WHERE queue = $1'),
      values: [queue],
    });
    return (rows[0] as { n: number }).n;
  }

  private async takeFrom(queue: string, free: number): Promise<void> {
    const skipped: string[] = [];
    let open = free;
    // Skipped entries stay taken until the end, so that every batch returns new ones.
    let remaining = free + (this.request.lookahead ?? 0);
    for (let batch = free; open > 0 && batch > 0; batch = Math.min(remaining, maxBatch)) {
      const entries = await this.dispatcher.take(this.client, queue, batch);
      const jobs = await this.lockJobs(entries);
      for (const entry of sortForClaim(entries, jobs)) {
        const job = jobs.get(entry.jobId);
        if (open > 0 && job && this.decide(entry, job)) open -= 1;
        else if (!this.removed.has(entry.bossId)) skipped.push(entry.bossId);
      }
      if (entries.length < batch) {
        this.exhausted.push(queue);
        break;
      }
      remaining -= batch;
    }
    if (skipped.length > 0) await this.dispatcher.putBack(this.client, queue, skipped);
  }

  private decide(entry: ReadyEntry, job: Row): boolean {
    const { attemptId, jobId, queue, priority, runAt, bossId } = entry;
    const candidate: Candidate = { attemptId, jobId, queue, priority, runAt, job };
    const decision = this.plan(candidate);
    if (decision.take) {
      this.transaction.add(decision.steps);
      this.taken.push(candidate);
      return true;
    }
    if (!decision.drop && decision.runAt === undefined) this.dispatcher.skip(bossId);
    else {
      this.removed.add(bossId);
      this.transaction.remove(queue, attemptId);
      if (!decision.drop) this.transaction.schedule({ ...candidate, runAt: decision.runAt! });
    }
    return false;
  }

  /** Skips jobs that another transaction is changing: their entry stays, or that transaction removes it. */
  private async lockJobs(entries: readonly ReadyEntry[]): Promise<Map<string, Row>> {
    if (entries.length === 0) return new Map();
    const ids = entries.map(({ jobId }) => jobId);
    const { rows } = await this.client.query({
      ...prepare('SELECT * FROM jobs WHERE id = ANY($1::text[]) FOR UPDATE SKIP LOCKED'),
      values: [ids],
    });
    const found = new Map((rows as Row[]).map((row) => [row.id as string, row]));
    if (found.size < entries.length)
      await this.dropOrphaned(entries.filter((e) => !found.has(e.jobId)));
    return found;
  }

  /** A row that was not found is locked or deleted. An entry without a job would block the head of its queue forever. */
  private async dropOrphaned(entries: readonly ReadyEntry[]): Promise<void> {
    const { rows } = await this.client.query('SELECT id FROM jobs WHERE id = ANY($1::text[])', [
      entries.map(({ jobId }) => jobId),
    ]);
    const existing = new Set((rows as { id: string }[]).map(({ id }) => id));
    for (const { jobId, queue, attemptId, bossId } of entries) {
      if (existing.has(jobId)) continue;
      this.removed.add(bossId);
      this.transaction.remove(queue, attemptId);
    }
  }
}

/** pg-boss returns rows unordered: sort by priority, then ready time, then submission order. */
function sortForClaim(
  entries: readonly ReadyEntry[],
  jobs: ReadonlyMap<string, Row>,
): ReadyEntry[] {
  const seq = ({ jobId }: ReadyEntry) => (jobs.get(jobId)?.seq as number | undefined) ?? 0;
  return entries.toSorted(
    (a, b) => b.priority - a.priority || a.readyAt - b.readyAt || seq(a) - seq(b),
  );
}
