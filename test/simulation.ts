// A seeded simulation of the job core: several nodes on one store, a manual clock, and crashes before or after any commit.
// The same seed produces the same actions. The invariants are checked from the ledger alone.
import assert from 'node:assert/strict';
import { until } from './helpers/until.ts';
import { checkJobs } from '../src/jobs/check.ts';
import { checkDispatch } from '../src/store/check-dispatch.ts';
import { queueKey } from '../src/jobs/intents.ts';
import { isFinal, type Job } from '../src/jobs/job.ts';
import { Jobs } from '../src/jobs/jobs.ts';
import type { Submission } from '../src/jobs/submission.ts';
import type { Outcome } from '../src/jobs/kind.ts';
import { Maintenance } from '../src/jobs/maintenance.ts';
import { Retention } from '../src/jobs/retention.ts';
import { AppError } from '../src/errors.ts';
import { ManualClock } from '../src/runtime/clock.ts';
import { silentLog } from '../src/runtime/log.ts';
import type { EventRow, Store } from '../src/store/store.ts';
import { toyKind } from './helpers/jobs.ts';

export const leaseMs = 30_000;
const queueLimit = 3;
const hour = 3_600_000;

/** mulberry32: small, fast, and good enough to choose actions. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

class Crash extends Error {}

interface Node {
  name: string;
  jobs: Jobs;
  maintenance: Maintenance;
  retention: Retention;
  /** The attempts this node believes to run. Lost when it crashes. */
  held: Map<string, Job>;
}

export class World {
  readonly clock = new ManualClock();
  /** Jobs whose submission was acknowledged. */
  readonly acknowledged = new Set<string>();
  /** Attempts whose outcome was acknowledged as applied. */
  private readonly ended = new Map<string, string>();
  private readonly random: () => number;
  private readonly store: Store;
  private readonly nodes: Node[];
  private faults = false;
  private actions = 0;

  constructor(seed: number, stores: readonly Store[]) {
    this.random = createRandom(seed);
    this.store = stores[0]!;
    this.nodes = Array.from({ length: 3 }, (_, i) =>
      this.boot(`node_${i}`, stores[i % stores.length]!),
    );
  }

  async prepare(): Promise<void> {
    const { jobs } = this.nodes[0]!;
    await jobs.setQueue('toy', 'narrow', { maxConcurrency: queueLimit });
    await jobs.ensureQueue('toy', 'wide');
    this.faults = true;
  }

  /** One turn: a few concurrent actions, each of which may crash at any commit. */
  async turn(): Promise<void> {
    const actions = Array.from({ length: 1 + this.pick(3) }, () => this.act());
    for (const result of await Promise.allSettled(actions)) {
      if (result.status === 'fulfilled') continue;
      const { reason } = result as { reason: unknown };
      if (!(reason instanceof Crash) && !(reason instanceof AppError)) throw reason;
    }
    this.actions += actions.length;
    if (this.actions % 7 < actions.length) await this.checkLeases();
  }

  /** Disables faults. Every job must end, regardless of the state the faults left. */
  async settle(): Promise<void> {
    this.faults = false;
    for (let i = 0; i < 400; i++) {
      const open = await this.open();
      if (open === 0) return;
      const node = this.nodes[i % this.nodes.length]!;
      this.clock.jump(leaseMs / 8);
      await node.maintenance.sweep();
      for (const job of await this.claim(node, 50)) {
        await node.jobs.finish(of(job), { type: 'completed' });
        node.held.delete(job.attemptId);
      }
    }
    const left = await this.nodes[0]!.jobs.ledger.list(
      { statuses: ['queued', 'running', 'input_required'] },
      { limit: 5 },
    );
    assert.fail(`jobs did not end: ${JSON.stringify(left.jobs, null, 1)}`);
  }

  /** Checks all invariants from the ledger alone. */
  async check(): Promise<void> {
    const rows = await this.allJobs();
    const byId = new Map(rows.map((job) => [job.id, job]));
    for (const id of this.acknowledged)
      assert.ok(byId.has(id), `${id} was acknowledged but is missing`);
    const events = await this.allEvents();
    const byJob = Map.groupBy(events, ({ jobId }) => jobId);
    for (const job of rows) checkHistory(job, byJob.get(job.id) ?? []);
    for (const [attemptId, status] of this.ended) {
      const [jobId] = attemptId.split('.') as [string];
      const isRecorded = (byJob.get(jobId) ?? []).some(
        (event) => `${jobId}.${attemptOf(event)}` === attemptId && endings[event.type] === status,
      );
      assert.ok(isRecorded, `${attemptId} was acknowledged as ${status}, but no event records it`);
    }
    await this.checkLeases();
    await this.checkCounters(rows);
    assert.deepEqual(await this.store.lostAttempts(2 ** 52, 10), [], 'leases remain');
  }

  private boot(name: string, store: Store): Node {
    const jobs = new Jobs(this.withCrashes(store), this.clock);
    jobs.addKind(toyKind);
    const retention = new Retention(jobs, this.clock, {
      maxAgeMs: 1e15,
      maxCount: 1e9,
      maxBytes: 1e15,
    });
    const maintenance = new Maintenance({
      jobs,
      clock: this.clock,
      log: silentLog,
      leaseMs,
      sweepMs: 1000,
      retention,
    });
    return { name, jobs, maintenance, retention, held: new Map() };
  }

  /** Crashes right before a change, or right after it before the caller gets the result. */
  private withCrashes(store: Store): Store {
    const around = async <T>(run: () => Promise<T>): Promise<T> => {
      if (this.faults && this.random() < 0.02) throw new Crash('before');
      const value = await run();
      if (this.faults && this.random() < 0.02) throw new Crash('after');
      return value;
    };
    const changing = new Set(['commit', 'claim', 'heartbeat', 'renewLeases', 'promote']);
    return new Proxy(store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== 'function') return value;
        const method = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
        if (!changing.has(String(key))) return method;
        return (...args: unknown[]) => around(() => method(...args));
      },
    });
  }

  private async act(): Promise<void> {
    const node = this.nodes[this.pick(this.nodes.length)]!;
    const roll = this.random();
    if (roll < 0.28) await this.submit(node);
    else if (roll < 0.5) await this.claim(node, 1 + this.pick(4));
    else if (roll < 0.68) await this.finish(node);
    else if (roll < 0.74) await this.beat(node);
    else if (roll < 0.8) await node.jobs.cancel(await this.someJob(), 'ada');
    else if (roll < 0.82) await node.jobs.forceCancel(await this.someJob());
    else if (roll < 0.87) await node.jobs.retry(await this.someJob(), 'ada');
    else if (roll < 0.9) await this.report(node);
    else if (roll < 0.91) node.held.clear();
    else if (roll < 0.925) await this.forget(node);
    else if (roll < 0.96) await node.maintenance.sweep();
    else this.clock.jump(this.pick(10) === 0 ? this.pick(5) * hour : this.pick(leaseMs));
  }

  private async submit({ jobs }: Node): Promise<void> {
    const maybe = <T>(chance: number, make: () => T): T | undefined =>
      this.random() < chance ? make() : undefined;
    const key = maybe(0.2, () => `key-${this.pick(20)}`);
    const after = maybe(0.15, () => this.acknowledgedAt(this.pick(this.acknowledged.size)));
    const submission: Submission = {
      kind: 'toy',
      owner: 'ada',
      queue: this.random() < 0.4 ? 'narrow' : 'wide',
      input: key ?? this.pick(100),
      priority: this.pick(3),
      retry: { maxAttempts: 1 + this.pick(4), maxLost: this.pick(3), backoffMs: this.pick(5000) },
      ...(key === undefined ? {} : { idempotencyKey: key }),
      ...(after === undefined ? {} : { after: [after] }),
    };
    const runAt = maybe(0.2, () => this.clock.now() + this.pick(60_000));
    const delayMs = runAt === undefined ? 0 : runAt - this.clock.now();
    const ttlMs = maybe(0.2, () => delayMs + 1 + this.pick(2 * hour));
    const extras = {
      ...(runAt === undefined || key ? {} : { runAt }),
      ...(ttlMs === undefined || key ? {} : { ttlMs }),
    };
    // The same key requires the same body.
    const body = key === undefined ? submission : sameBody(submission);
    const { job } = await jobs.submit({ ...body, ...extras });
    this.acknowledged.add(job.id);
  }

  private async claim(node: Node, limit: number): Promise<Job[]> {
    const queues = [
      { name: queueKey('toy', 'narrow'), limit: queueLimit },
      { name: queueKey('toy', 'wide') },
    ];
    const claimed = await node.jobs.claim({
      queues,
      limit,
      holder: node.name,
      node: node.name,
      leaseMs,
    });
    for (const job of claimed) node.held.set(job.attemptId, job);
    return claimed;
  }

  private async finish(node: Node): Promise<void> {
    const held = [...node.held.values()];
    const job = held[this.pick(held.length)];
    if (!job) return;
    const outcome = this.outcome();
    const { applied, job: after } = await node.jobs.finish(of(job), outcome);
    node.held.delete(job.attemptId);
    if (!applied || outcome.type === 'snoozed' || outcome.type === 'lost') return;
    assert.ok(!this.ended.has(job.attemptId), `${job.attemptId} ended twice`);
    const status = after.attemptId === job.attemptId ? after.status : 'again';
    this.ended.set(job.attemptId, status);
  }

  private outcome(): Outcome {
    const error = { code: 'x', message: 'no' };
    const outcomes: Outcome[] = [
      { type: 'completed', result: { n: this.pick(9) } },
      { type: 'completed' },
      { type: 'failed', error },
      { type: 'failed', error, retry: false },
      { type: 'timed_out' },
      { type: 'cancelled' },
      { type: 'lost' },
      { type: 'snoozed', untilMs: this.clock.now() + this.pick(20_000) },
    ];
    return outcomes[this.pick(outcomes.length)]!;
  }

  /** Deletes an ended job without dependents, as retention does. Another node may retry it concurrently. */
  private async forget({ jobs, retention }: Node): Promise<void> {
    const job = await jobs.get(await this.someJob());
    if (!isFinal(job.status) || job.idempotencyKey !== null) return;
    if ((await jobs.ledger.dependents(job.id)).length > 0) return;
    // If the node crashes, the job may or may not be deleted. Both are correct.
    this.acknowledged.delete(job.id);
    for (const attemptId of this.ended.keys())
      if (attemptId.startsWith(`${job.id}.`)) this.ended.delete(attemptId);
    await retention.forget([job.id]);
  }

  private async beat(node: Node): Promise<void> {
    const ids = [...node.held.keys()];
    if (ids.length === 0) return;
    const kept = await node.jobs.store.heartbeat(ids, node.name, this.clock.now() + leaseMs);
    for (const id of ids) if (!kept.has(id)) node.held.delete(id);
  }

  private async report(node: Node): Promise<void> {
    const job = [...node.held.values()][0];
    if (!job) return;
    const { attemptId } = job;
    if (this.random() < 0.5) {
      await node.jobs.applyFact(job.id, { type: 'report', attemptId, progress: { done: 1 } });
    } else {
      await node.jobs.applyFact(job.id, { type: 'input', attemptId, needed: this.random() < 0.6 });
    }
  }

  /** At most one lease per job, and the queue limit holds across all nodes. */
  private async checkLeases(): Promise<void> {
    const leases = await this.store.lostAttempts(2 ** 52, 100_000);
    const jobs = leases.map(({ jobId }) => jobId);
    assert.equal(new Set(jobs).size, jobs.length, 'a job has two leases');
    const rows = await this.nodes[0]!.jobs.ledger.findMany(jobs);
    const narrow = rows.filter(({ queue }) => queue === 'narrow').length;
    assert.ok(narrow <= queueLimit, `${narrow} attempts in a queue limited to ${queueLimit}`);
  }

  private async checkCounters(rows: readonly Job[]): Promise<void> {
    assert.deepEqual(await checkJobs(this.store), [], 'counters differ from the events');
    assert.deepEqual(
      await checkDispatch(this.store, []),
      [],
      'dispatch entries differ from the jobs',
    );
    for (const queue of ['narrow', 'wide']) {
      const expected: Record<string, number> = {};
      for (const job of rows)
        if (job.queue === queue) expected[job.status] = (expected[job.status] ?? 0) + 1;
      assert.deepEqual(await this.store.counters(`queue:toy:${queue}`), expected);
      assert.deepEqual(await this.store.counters(`queue:toy:${queue}/ada`), expected);
    }
  }

  private async open(): Promise<number> {
    const [row] = await this.store.read<{ n: number }>(
      `SELECT count(*) AS n FROM jobs WHERE status IN ('queued', 'running', 'input_required')`,
    );
    return row!.n;
  }

  private async allJobs(): Promise<Job[]> {
    const found: Job[] = [];
    let before: number | undefined;
    do {
      const page = await this.nodes[0]!.jobs.ledger.list(
        {},
        { limit: 500, ...(before === undefined ? {} : { before }) },
      );
      found.push(...page.jobs);
      before = page.next;
    } while (before !== undefined);
    return found;
  }

  private async allEvents(): Promise<EventRow[]> {
    const found: EventRow[] = [];
    const [last] = await this.store.read<{ cursor: number | null }>(
      'SELECT max(cursor) AS cursor FROM events',
    );
    const newest = Number(last?.cursor ?? 0);
    // On PostgreSQL a reader stops before a gap, such as a deleted job leaves, until no transaction can fill it.
    await until('the event log is readable to its end', async () => {
      return (await this.store.eventCursor()) >= newest;
    });
    for (let after = 0; after < newest; after = found.at(-1)!.cursor) {
      const page = await this.store.events(after, 500);
      assert.ok(page.length > 0, 'the log ends before its newest cursor');
      found.push(...page);
    }
    return found;
  }

  private pick(n: number): number {
    return Math.floor(this.random() * n);
  }

  private acknowledgedAt(i: number): string | undefined {
    return [...this.acknowledged][i];
  }

  private async someJob(): Promise<string> {
    return this.acknowledgedAt(this.pick(this.acknowledged.size)) ?? 'job_0000000000000000';
  }
}

const of = (job: Job) => ({ jobId: job.id, attemptId: job.attemptId });

function sameBody({ kind, owner, input, idempotencyKey }: Submission): Submission {
  return { kind, owner, input, queue: 'wide', idempotencyKey: idempotencyKey! };
}

/** How the attempt ended, by event type. */
const endings: Record<string, string> = {
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
  timed_out: 'timed_out',
  attemptFailed: 'again',
  attemptLost: 'again',
};

const attemptOf = ({ data }: EventRow): number =>
  (JSON.parse(data) as { attempt?: number }).attempt ?? 0;

/** Event numbers have no gaps, only a retry follows an end, and the attempts stay within their limit. */
function checkHistory(job: Job, history: readonly EventRow[]): void {
  const events = history.toSorted((a, b) => a.n - b.n);
  assert.deepEqual(
    events.map(({ n }) => n),
    events.map((_, i) => i + 1),
    `${job.id}: event numbers have a gap`,
  );
  assert.equal(job.version, events.length, `${job.id}: row and history differ`);
  let over = false;
  let starts = 0;
  for (const { type } of events) {
    if (over) assert.equal(type, 'retried', `${job.id}: ${type} after its end`);
    over = type in endings && !endings[type]!.startsWith('again');
    if (type === 'started' || type === 'snoozed') starts += type === 'started' ? 1 : -1;
  }
  assert.equal(over, isFinal(job.status), `${job.id}: ${job.status} but its events say otherwise`);
  assert.ok(starts <= job.attempt, `${job.id}: ${starts} starts of ${job.attempt} attempts`);
  assert.ok(job.attempt <= job.retry.maxAttempts, `${job.id}: more attempts than allowed`);
  const { startedAt, expiresAt } = job;
  const inTime = startedAt === null || expiresAt === null || startedAt < expiresAt;
  assert.ok(inTime, `${job.id}: started after its time to live`);
}
