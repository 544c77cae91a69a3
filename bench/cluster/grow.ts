// How the cluster store grows: claim + finish with 1 and with 3 nodes (processes of their own) on this machine's cores,
// the cost of a claim at 1,000,000 waiting jobs against 1,000, and how soon a waiting worker has a new job against the
// bare notification of PostgreSQL that pg-boss would use.
import { fork, type ChildProcess } from 'node:child_process';
import { Client } from 'pg';
import { Jobs } from '../../src/jobs/jobs.ts';
import { jobMigrations } from '../../src/jobs/migrations.ts';
import { benchKind } from '../core/ours.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import { compare, median, payload, type Side } from '../harness.ts';
import { startPostgres } from '../services.ts';

const rounds = Number(process.env.BENCH_ROUNDS ?? 5);
const cycles = Number(process.env.BENCH_COUNT ?? 400);
const many = Number(process.env.BENCH_MANY ?? 1_000_000);
const few = 1000;
const claims = 100;
const takes = 30;
const base = { kind: 'bench', owner: 'bench', input: payload };

async function open(url: string, schema: string): Promise<{ store: PostgresStore; jobs: Jobs }> {
  const store = await PostgresStore.open(`${url}?schema=${schema}`);
  await store.migrate(jobMigrations);
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(benchKind);
  return { store, jobs };
}

const claim = (jobs: Jobs, limit = 1) =>
  jobs.claim({
    queues: [{ name: 'bench:default' }],
    limit,
    holder: 'worker',
    node: null,
    leaseMs: 600_000,
  });

if (process.env.BENCH_NODE) await node(process.env.BENCH_NODE);
else await main();

/** A node of its own: works off what waits when told to, with four workers. */
async function node(url: string): Promise<void> {
  const { jobs } = await open(url, 'grow');
  process.on('message', (left: number) => {
    const worker = async () => {
      while (left-- > 0) {
        const [job] = await claim(jobs);
        if (job)
          await jobs.finish(
            { jobId: job.id, attemptId: job.attemptId, known: job },
            { type: 'completed' },
          );
      }
    };
    void Promise.all([1, 2, 3, 4].map(worker)).then(() => process.send!('done'));
  });
  process.send!('ready');
}

async function main(): Promise<void> {
  const server = await startPostgres();
  const home = await open(server.url, 'grow');
  const nodes = await Promise.all([1, 2, 3].map(() => startNode(server.url)));
  const side = (name: string, used: ChildProcess[]): Side => ({
    name,
    prepare: () => fill(home.jobs, cycles),
    round: async () => {
      const start = performance.now();
      const share = Math.floor(cycles / used.length);
      await Promise.all(
        used.map((child, i) => work(child, i === 0 ? cycles - share * (used.length - 1) : share)),
      );
      return (cycles / (performance.now() - start)) * 1000;
    },
  });
  await compare({
    name: 'claim + finish, 3 nodes of 4 workers',
    unit: '/s',
    rounds,
    ours: async () => side('3 nodes', nodes),
    peers: [
      {
        name: '1 node of 4 workers',
        bar: 'none',
        open: async () => side('1 node', nodes.slice(0, 1)),
      },
    ],
  });
  for (const child of nodes) child.kill();
  await home.store.close();
  await takeLatency(server.url);
  await backlog(server.url);
  await server.close();
}

/** From the submit on one node to the claim on another that waits, against LISTEN/NOTIFY alone. */
async function takeLatency(url: string): Promise<void> {
  const [submitter, taker] = [await open(url, 'take'), await open(url, 'take')];
  const [speaker, listener] = [new Client(url), new Client(url)];
  await Promise.all([speaker.connect(), listener.connect()]);
  await listener.query('LISTEN bare');
  const once = (subscribe: (heard: () => void) => void) => new Promise<void>(subscribe);
  const sample = async (one: () => Promise<void>) => {
    const times: number[] = [];
    for (let i = 0; i < takes; i++) {
      const start = performance.now();
      await one();
      times.push(performance.now() - start);
      await systemClock.sleep(30);
    }
    return median(times);
  };
  const ours = async () => {
    const heard = once((resolve) => {
      const off = taker.store.onReady(() => (off(), resolve()));
    });
    await submitter.jobs.submit(base);
    await heard;
    if ((await claim(taker.jobs)).length !== 1) throw new Error('the job was not there');
  };
  const bare = async () => {
    const heard = once((resolve) => listener.once('notification', () => resolve()));
    await speaker.query('BEGIN');
    await speaker.query('CREATE TABLE IF NOT EXISTS bare_take (id bigint)');
    await speaker.query('INSERT INTO bare_take VALUES (1)');
    await speaker.query(`SELECT pg_notify('bare', 'x')`);
    await speaker.query('COMMIT');
    await heard;
    await listener.query('BEGIN');
    await listener.query('DELETE FROM bare_take');
    await listener.query('COMMIT');
  };
  await compare({
    name: 'take latency p50, idle',
    unit: ' ms',
    rounds,
    ours: async () => ({ name: 'errand', round: () => sample(ours) }),
    peers: [
      {
        name: 'insert + NOTIFY, then a delete in a transaction',
        bar: { atMost: 2 },
        open: async () => ({ name: 'bare', round: () => sample(bare) }),
      },
    ],
  });
  await Promise.all([speaker.end(), listener.end(), submitter.store.close(), taker.store.close()]);
}

/** Milliseconds of a claim with so many waiting; what was claimed is finished, so that the number stays. */
async function backlog(url: string): Promise<void> {
  const sides: [schema: string, count: number][] = [
    ['many', many],
    ['few', few],
  ];
  const opened = new Map<string, Jobs>();
  const stores: PostgresStore[] = [];
  for (const [schema, count] of sides) {
    const { store, jobs } = await open(url, schema);
    await fill(jobs, count);
    const client = new Client(url);
    await client.connect();
    await client.query('VACUUM ANALYZE');
    await client.end();
    opened.set(schema, jobs);
    stores.push(store);
  }
  const side = (schema: string): Side => ({
    name: schema,
    round: async () => {
      const jobs = opened.get(schema)!;
      const times: number[] = [];
      for (let i = 0; i < claims; i++) {
        const start = performance.now();
        const [job] = await claim(jobs);
        times.push(performance.now() - start);
        await jobs.finish(
          { jobId: job!.id, attemptId: job!.attemptId, known: job! },
          { type: 'completed' },
        );
      }
      return median(times);
    },
  });
  await compare({
    name: `claim p50, ${many.toLocaleString('en')} waiting`,
    unit: ' ms',
    rounds,
    ours: async () => side('many'),
    peers: [
      {
        name: `${few.toLocaleString('en')} waiting`,
        bar: { atMost: 1.3 },
        open: async () => side('few'),
      },
    ],
  });
  for (const store of stores) await store.close();
}

async function fill(jobs: Jobs, count: number): Promise<void> {
  const batch = 500;
  for (let left = count; left > 0; left -= batch * 4) {
    const sizes = [0, 1, 2, 3].map((i) => Math.max(0, Math.min(batch, left - i * batch)));
    await Promise.all(
      sizes
        .filter((size) => size > 0)
        .map((size) => jobs.submitMany(Array.from({ length: size }, () => base))),
    );
  }
}

function startNode(url: string): Promise<ChildProcess> {
  const child = fork(import.meta.filename, { env: { ...process.env, BENCH_NODE: url } });
  return new Promise((resolve, reject) => {
    child.once('message', () => resolve(child));
    child.once('exit', () => reject(new Error('a node of the benchmark did not start')));
  });
}

function work(child: ChildProcess, count: number): Promise<void> {
  return new Promise((resolve) => {
    child.once('message', () => resolve());
    child.send(count);
  });
}
