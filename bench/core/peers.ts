// The peers of the queue benchmarks, each used as documented: BullMQ 6 on a Redis that syncs every write, pg-boss 12 and
// graphile-worker 0.18 on PostgreSQL with one connection per caller.
import { PgBoss } from 'pg-boss';
import { Client } from 'pg';
import { importPeer, payload, rate, timed, type Side } from '../harness.ts';
import { startPostgres, startRedis } from '../services.ts';

/** What is measured, with this concurrency and this many operations per round. */
export interface Load {
  concurrency: number;
  count: number;
}

interface BullMq {
  Queue: new (
    name: string,
    options: object,
  ) => {
    add(name: string, data: object): Promise<unknown>;
    addBulk(jobs: object[]): Promise<unknown>;
    waitUntilReady(): Promise<unknown>;
    close(): Promise<void>;
  };
  Worker: new (
    name: string,
    work: () => Promise<unknown>,
    options: object,
  ) => {
    on(event: 'completed', listener: () => void): void;
    run(): Promise<void>;
    waitUntilReady(): Promise<unknown>;
    close(): Promise<void>;
  };
}

export async function bullSubmit({ concurrency, count }: Load): Promise<Side> {
  const { Queue } = await importPeer<BullMq>('bullmq');
  const redis = await startRedis();
  const queue = new Queue('bench', { connection: { host: '127.0.0.1', port: redis.port } });
  await queue.waitUntilReady();
  return {
    name: 'BullMQ',
    operations: count,
    servicePids: [redis.pid],
    round: () => rate(count, concurrency, () => queue.add('job', payload)),
    close: async () => {
      await queue.close();
      await redis.close();
    },
  };
}

export async function bullCycle({ concurrency, count }: Load): Promise<Side> {
  const { Queue, Worker } = await importPeer<BullMq>('bullmq');
  const redis = await startRedis();
  const connection = { host: '127.0.0.1', port: redis.port };
  const queue = new Queue('bench', { connection });
  return {
    name: 'BullMQ',
    operations: count,
    servicePids: [redis.pid],
    prepare: async () => {
      await queue.addBulk(Array.from({ length: count }, () => ({ name: 'job', data: payload })));
    },
    round: async () => {
      const work = async () => ({ ok: true });
      const worker = new Worker('bench', work, { connection, concurrency, autorun: false });
      await worker.waitUntilReady();
      const done = reached(count, (step) => worker.on('completed', step));
      const perSecond = await timed(count, async () => {
        void worker.run();
        await done;
      });
      await worker.close();
      return perSecond;
    },
    close: async () => {
      await queue.close();
      await redis.close();
    },
  };
}

async function openBoss(concurrency: number) {
  const postgres = await startPostgres();
  const boss = new PgBoss({
    connectionString: postgres.url,
    max: concurrency,
    supervise: false,
    schedule: false,
  });
  // Its pool reports the stopped server when a benchmark ends. A failed call throws anyway.
  boss.on('error', () => {});
  await boss.start();
  await boss.createQueue('bench');
  const close = async () => {
    await boss.stop({ graceful: false });
    await postgres.close();
  };
  return { boss, close, url: postgres.url, pid: postgres.pid };
}

export async function bossSubmit({ concurrency, count }: Load): Promise<Side> {
  const { boss, close, pid } = await openBoss(concurrency);
  return {
    name: 'pg-boss',
    operations: count,
    servicePids: [pid],
    round: () => rate(count, concurrency, () => boss.send('bench', payload)),
    close,
  };
}

export async function bossCycle({ concurrency, count }: Load): Promise<Side> {
  const { boss, close, url, pid } = await openBoss(concurrency);
  return {
    name: 'pg-boss',
    operations: count,
    servicePids: [pid],
    prepare: async () => {
      const jobs = Array.from({ length: count }, () => ({ data: payload }));
      await boss.insert('bench', jobs);
      await analyze(url);
    },
    round: () =>
      rate(count, concurrency, async () => {
        const [job] = await boss.fetch('bench');
        if (!job) throw new Error('nothing was left to fetch');
        await boss.complete('bench', job.id, { ok: true });
      }),
    close,
  };
}

interface Graphile {
  makeWorkerUtils(options: object): Promise<{
    migrate(): Promise<void>;
    addJob(task: string, payload: object): Promise<unknown>;
    addJobs(jobs: object[]): Promise<unknown>;
    release(): Promise<void>;
  }>;
  run(options: object): Promise<{ stop(): Promise<void> }>;
  Logger: new (factory: () => () => void) => object;
}

export async function graphileSubmit({ concurrency, count }: Load): Promise<Side> {
  const { makeWorkerUtils } = await importPeer<Graphile>('graphile-worker');
  const postgres = await startPostgres();
  const utils = await makeWorkerUtils({
    connectionString: postgres.url,
    maxPoolSize: concurrency,
  });
  await utils.migrate();
  return {
    name: 'graphile-worker',
    operations: count,
    servicePids: [postgres.pid],
    round: () => rate(count, concurrency, () => utils.addJob('bench', payload)),
    close: async () => {
      await utils.release();
      await postgres.close();
    },
  };
}

export async function graphileCycle({ concurrency, count }: Load): Promise<Side> {
  const { makeWorkerUtils, run, Logger } = await importPeer<Graphile>('graphile-worker');
  const postgres = await startPostgres();
  const logger = new Logger(() => () => {});
  const shared = { connectionString: postgres.url, logger };
  const utils = await makeWorkerUtils(shared);
  await utils.migrate();
  return {
    name: 'graphile-worker',
    operations: count,
    servicePids: [postgres.pid],
    prepare: async () => {
      const jobs = Array.from({ length: count }, () => ({ identifier: 'bench', payload }));
      await utils.addJobs(jobs);
      await analyze(postgres.url);
    },
    round: async () => {
      let step = () => {};
      const done = reached(count, (listener) => (step = listener));
      const taskList = { bench: async () => step() };
      const options = { ...shared, concurrency, maxPoolSize: concurrency, taskList };
      const start = performance.now();
      const runner = await run({ ...options, noHandleSignals: true });
      await done;
      const perSecond = count / ((performance.now() - start) / 1000);
      await runner.stop();
      return perSecond;
    },
    close: async () => {
      await utils.release();
      await postgres.close();
    },
  };
}

/** A bulk insert leaves stale statistics, and a peer must not be measured with a bad plan. */
async function analyze(url: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  await client.query('ANALYZE');
  await client.end();
}

function reached(count: number, listen: (step: () => void) => void): Promise<void> {
  let seen = 0;
  return new Promise((resolve) => {
    listen(() => {
      seen += 1;
      if (seen === count) resolve();
    });
  });
}
