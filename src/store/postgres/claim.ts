// Handing out attempts: taken from pg-boss, decided on by the caller's pure plan, leased and started in one transaction.
// Nothing in here waits for another transaction's rows, so two nodes that claim at once never block each other; only a
// queue with a limit is claimed by one node at a time, which is what makes the limit exact over all nodes.
import type { Pool, PoolClient } from 'pg';
import type { Candidate, ClaimPlan, ClaimRequest, Row } from '../store.ts';
import { rollback, withClient } from './committer.ts';
import type { Dispatcher, ReadyEntry } from './dispatcher.ts';
import { prepare } from './sql.ts';
import { Conflict, Transaction } from './transaction.ts';

type Plan = (candidate: Candidate) => ClaimPlan;
type Queue = ClaimRequest['queues'][number];

const triesMax = 3;
/** Looked at in one go after some were refused. */
const lookMax = 25;
/** Advisory locks are numbers; this one means "a limited queue". */
const limitLock = 7_411_002;

export interface Claimed {
  taken: Candidate[];
  /** Queues in which another node held entries while we looked; it may put them back for us. */
  contested: string[];
}

export async function claimAttempts(
  parts: { pool: Pool; dispatcher: Dispatcher },
  request: ClaimRequest,
  plan: Plan,
): Promise<Claimed> {
  const { pool, dispatcher } = parts;
  for (const { name } of request.queues) await dispatcher.ensureQueue(name);
  const queues = await nonEmpty(parts, request.queues);
  if (queues.length === 0 || request.limit <= 0) return { taken: [], contested: [] };
  return withClient(pool, async (client) => {
    for (let tries = 1; ; tries++) {
      const claim = new Claim({ client, dispatcher, request, plan });
      try {
        const taken = await claim.run(queues);
        // Whoever got something looks again when that is done.
        const contested = taken.length > 0 ? [] : await claim.contested();
        return { taken, contested };
      } catch (error) {
        await rollback(client, error);
        const { code } = error as { code?: string };
        const again = error instanceof Conflict || code === '40P01' || code === '40001';
        if (!again) throw error;
        if (tries >= triesMax) return { taken: [], contested: [] };
      }
    }
  });
}

async function nonEmpty(
  { pool, dispatcher }: { pool: Pool; dispatcher: Dispatcher },
  queues: readonly Queue[],
): Promise<readonly Queue[]> {
  if (queues.length < 2) return queues;
  const waiting = await dispatcher.waiting(
    pool,
    queues.map(({ name }) => name),
  );
  return queues.filter(({ name }) => waiting.has(name));
}

class Claim {
  private readonly client: PoolClient;
  private readonly dispatcher: Dispatcher;
  private readonly request: ClaimRequest;
  private readonly plan: Plan;
  private readonly transaction: Transaction;
  private readonly taken: Candidate[] = [];
  /** Entries that this claim takes out of the queue without starting them. */
  private readonly gone = new Set<string>();
  /** Queues that were looked through to their end. */
  private readonly seen: string[] = [];

  constructor(parts: {
    client: PoolClient;
    dispatcher: Dispatcher;
    request: ClaimRequest;
    plan: Plan;
  }) {
    this.client = parts.client;
    this.dispatcher = parts.dispatcher;
    this.request = parts.request;
    this.plan = parts.plan;
    this.transaction = new Transaction(parts.client, parts.dispatcher);
  }

  async run(queues: readonly Queue[]): Promise<Candidate[]> {
    await this.lockLimited(queues);
    for (const { name, limit } of queues) {
      let free = this.request.limit - this.taken.length;
      if (limit !== undefined) free = Math.min(free, limit - (await this.held(name)));
      if (free > 0) await this.takeFrom(name, free);
      if (this.taken.length >= this.request.limit) break;
    }
    const { holder, now, leaseMs } = this.request;
    if (this.taken.length > 0) this.transaction.hold(this.taken, holder, now + leaseMs);
    await this.transaction.commit();
    return this.taken;
  }

  contested(): Promise<string[]> {
    return this.dispatcher.heldElsewhere(this.client, this.seen);
  }

  /** In one order on every node, so that two claims never wait for each other in a circle. */
  private async lockLimited(queues: readonly Queue[]): Promise<void> {
    const names = queues.filter(({ limit }) => limit !== undefined).map(({ name }) => name);
    if (names.length === 0) return;
    await this.client.query(
      `SELECT pg_advisory_xact_lock($1, k) FROM
         (SELECT DISTINCT hashtext(current_schema() || q) AS k FROM unnest($2::text[]) AS q ORDER BY 1) AS keys`,
      [limitLock, names],
    );
  }

  private async held(queue: string): Promise<number> {
    const { rows } = await this.client.query({
      ...prepare('SELECT count(*) AS n FROM leases WHERE queue = $1'),
      values: [queue],
    });
    return (rows[0] as { n: number }).n;
  }

  private async takeFrom(queue: string, free: number): Promise<void> {
    const back: string[] = [];
    let open = free;
    // What is refused stays taken until the end, so that every further look finds others.
    let left = free + (this.request.lookahead ?? 0);
    for (let look = free; open > 0 && look > 0; look = Math.min(left, lookMax)) {
      const entries = await this.dispatcher.take(this.client, queue, look);
      const jobs = await this.lockJobs(entries);
      for (const entry of inOrder(entries, jobs)) {
        const job = jobs.get(entry.jobId);
        if (open > 0 && job && this.decide(entry, job)) open -= 1;
        else if (!this.gone.has(entry.bossId)) back.push(entry.bossId);
      }
      if (entries.length < look) {
        this.seen.push(queue);
        break;
      }
      left -= look;
    }
    if (back.length > 0) await this.dispatcher.putBack(this.client, queue, back);
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
    if (!decision.drop && decision.runAt === undefined) this.dispatcher.refuse(bossId);
    else {
      this.gone.add(bossId);
      this.transaction.remove(queue, attemptId);
      if (!decision.drop) this.transaction.schedule({ ...candidate, runAt: decision.runAt! });
    }
    return false;
  }

  /** Jobs that somebody is changing right now are left alone: their entry waits, or goes away with that change. */
  private async lockJobs(entries: readonly ReadyEntry[]): Promise<Map<string, Row>> {
    if (entries.length === 0) return new Map();
    const ids = entries.map(({ jobId }) => jobId);
    const { rows } = await this.client.query({
      ...prepare('SELECT * FROM jobs WHERE id = ANY($1::text[]) FOR UPDATE SKIP LOCKED'),
      values: [ids],
    });
    const found = new Map((rows as Row[]).map((row) => [row.id as string, row]));
    if (found.size < entries.length)
      await this.dropLitter(entries.filter((e) => !found.has(e.jobId)));
    return found;
  }

  /** Not found means locked or gone; an entry whose job is gone for good would stand at the head of its queue for ever. */
  private async dropLitter(entries: readonly ReadyEntry[]): Promise<void> {
    const { rows } = await this.client.query('SELECT id FROM jobs WHERE id = ANY($1::text[])', [
      entries.map(({ jobId }) => jobId),
    ]);
    const there = new Set((rows as { id: string }[]).map(({ id }) => id));
    for (const { jobId, queue, attemptId, bossId } of entries) {
      if (there.has(jobId)) continue;
      this.gone.add(bossId);
      this.transaction.remove(queue, attemptId);
    }
  }
}

/** Rows come back in no order: priority, then when they became ready, then the order of submission. */
function inOrder(entries: readonly ReadyEntry[], jobs: ReadonlyMap<string, Row>): ReadyEntry[] {
  const seq = ({ jobId }: ReadyEntry) => (jobs.get(jobId)?.seq as number | undefined) ?? 0;
  return entries.toSorted(
    (a, b) => b.priority - a.priority || a.readyAt - b.readyAt || seq(a) - seq(b),
  );
}
