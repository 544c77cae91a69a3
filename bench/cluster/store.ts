// The cluster store against bare pg-boss with a hand-written ledger in the same transactions: submits of 16 callers, and
// full cycles (claim and finish) of 4 workers. Same server, same database settings, interleaved rounds.
import { Pool, type PoolClient } from 'pg';
import { PgBoss } from 'pg-boss';
import { Jobs } from '../../src/jobs/jobs.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { benchKind } from '../core/ours.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { compare, payload, type Side } from '../harness.ts';
import { startPostgres } from '../services.ts';

const count = Number(process.env.BENCH_COUNT ?? 400);
const rounds = Number(process.env.BENCH_ROUNDS ?? 5);
const submitters = 16;
const workers = 4;

const server = await startPostgres();

interface Queue {
  submit(): Promise<unknown>;
  cycle(): Promise<unknown>;
  close(): Promise<void>;
}

async function ours(): Promise<Queue> {
  const store = await PostgresStore.open(`${server.url}?schema=bench`);
  await store.migrate(jobMigrations);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(benchKind);
  const queues = [{ name: 'bench:default' }];
  return {
    submit: () => jobs.submit({ kind: 'bench', owner: 'bench', input: payload }),
    cycle: async () => {
      const request = { queues, limit: 1, holder: 'worker', node: null, leaseMs: 30_000 };
      const [job] = await jobs.claim(request);
      if (!job) throw new Error('nothing was left to claim');
      const attempt = { jobId: job.id, attemptId: job.attemptId, known: job };
      await jobs.finish(attempt, { type: 'completed' });
    },
    close: () => store.close(),
  };
}

/**
 * A hand-written equivalent with only pg and pg-boss: the job with the columns that are queried later (owner, queue,
 * status, holder, lease, times), its numbered events, stored counters per queue and status, one transaction per step.
 * pg-boss holds the lease.
 */
async function bare(): Promise<Queue> {
  const pool = new Pool({ connectionString: server.url, max: 10 });
  pool.on('error', () => {});
  await pool.query(`CREATE TABLE bare_jobs (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid UNIQUE, kind text NOT NULL, queue text NOT NULL,
      status text NOT NULL, owner text NOT NULL, input text, result text, error text, priority int NOT NULL,
      attempt int NOT NULL, holder text, run_at bigint, created_at bigint NOT NULL, updated_at bigint NOT NULL,
      started_at bigint, finished_at bigint, version int NOT NULL);
    CREATE INDEX ON bare_jobs (owner, seq);
    CREATE INDEX ON bare_jobs (seq) WHERE status IN ('running', 'input_required');
    CREATE TABLE bare_counts (queue text NOT NULL, status text NOT NULL, n bigint NOT NULL);
    CREATE TABLE bare_events (cursor bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id uuid, n int,
      type text, at bigint, data text, UNIQUE (job_id, n))`);
  const boss = new PgBoss({
    connectionString: server.url,
    schema: 'bare_boss',
    supervise: false,
    schedule: false,
  });
  boss.on('error', () => {});
  await boss.start();
  await boss.createQueue('bench', { retryLimit: 0 });
  const inTransaction = async (run: (client: PoolClient) => Promise<void>) => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      await run(client);
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  };
  const db = (client: PoolClient) => ({
    executeSql: (text: string, values?: unknown[]) => client.query(text, values),
  });
  const event = (client: PoolClient, id: string, n: number, type: string) =>
    client.query(
      'INSERT INTO bare_events (job_id, n, type, at, data) VALUES ($1, $2, $3, $4, $5)',
      [id, n, type, Date.now(), '{}'],
    );
  const counted = (client: PoolClient, changes: [status: string, n: number][]) =>
    client.query(
      `INSERT INTO bare_counts (queue, status, n)
       SELECT 'default', * FROM unnest($1::text[], $2::bigint[])`,
      [changes.map(([status]) => status), changes.map(([, n]) => n)],
    );
  return {
    submit: () =>
      inTransaction(async (client) => {
        const id = crypto.randomUUID();
        const input = JSON.stringify(payload);
        await client.query(
          `INSERT INTO bare_jobs (id, kind, queue, status, owner, input, priority, attempt, created_at, updated_at, version)
           VALUES ($1, 'bench', 'default', 'queued', 'bench', $2, 0, 1, $3, $3, 1)`,
          [id, input, Date.now()],
        );
        await counted(client, [['queued', 1]]);
        await event(client, id, 1, 'submitted');
        await boss.send('bench', {}, { id, db: db(client) });
      }),
    cycle: async () => {
      let id = '';
      await inTransaction(async (client) => {
        const [job] = await boss.fetch('bench', { db: db(client) });
        id = job!.id;
        await client.query(
          `UPDATE bare_jobs SET status = 'running', holder = 'worker', started_at = $2, updated_at = $2,
             version = version + 1 WHERE id = $1 AND status = 'queued'`,
          [id, Date.now()],
        );
        await event(client, id, 2, 'started');
        await counted(client, [
          ['queued', -1],
          ['running', 1],
        ]);
      });
      await inTransaction(async (client) => {
        await client.query(
          `UPDATE bare_jobs SET status = 'completed', finished_at = $2, updated_at = $2,
             version = version + 1 WHERE id = $1 AND status = 'running'`,
          [id, Date.now()],
        );
        await event(client, id, 3, 'completed');
        await counted(client, [
          ['running', -1],
          ['completed', 1],
        ]);
        await boss.complete('bench', { id, retryCount: 0 }, undefined, { db: db(client) });
      });
    },
    close: async () => {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

async function many(at: number, total: number, one: () => Promise<unknown>): Promise<void> {
  let left = total;
  const worker = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: at }, worker));
}

const rate = async (run: () => Promise<void>): Promise<number> => {
  const start = performance.now();
  await run();
  return (count / (performance.now() - start)) * 1000;
};

const submits = (queue: Queue, name: string): Side => ({
  name,
  operations: count,
  servicePids: [server.pid],
  round: () => rate(() => many(submitters, count, () => queue.submit())),
});
const cycles = (queue: Queue, name: string): Side => ({
  name,
  operations: count,
  servicePids: [server.pid],
  prepare: () => many(submitters, count, () => queue.submit()),
  round: () => rate(() => many(workers, count, () => queue.cycle())),
});

const queue = await ours();
const peer = await bare();
const against = (make: (queue: Queue, name: string) => Side) => ({
  unit: '/s',
  rounds,
  ours: async () => make(queue, 'errand'),
  peers: [
    {
      name: 'bare pg-boss 12 with a ledger',
      bar: { atLeast: 0.9 },
      open: async () => make(peer, 'pg-boss'),
    },
  ],
});
await compare({ name: `durable submit, ${submitters} callers`, ...against(submits) });
await compare({ name: `claim + finish, ${workers} workers`, ...against(cycles) });
await queue.close();
await peer.close();
await server.close();
