// How soon a waiting worker gets a new job, from the submit on one node to the claim on another, against bare pg-boss with
// its own listener and worker, and against LISTEN/NOTIFY around two plain statements.
import { Client } from 'pg';
import { PgBoss } from 'pg-boss';
import { systemClock } from '../../src/runtime/clock.ts';
import { compare, median, type Side } from '../harness.ts';
import { startPostgres } from '../services.ts';
import { claim, finish, open, rounds, submission } from './kit.ts';

const takes = Number(process.env.BENCH_COUNT ?? 40);
/** Time for both workers to wait again before the next job. */
const pauseMs = 60;

const server = await startPostgres();
await compare({
  name: 'take latency p50, idle',
  unit: ' ms',
  rounds,
  ours,
  peers: [
    { name: 'pg-boss 12 with notify', bar: { atMost: 2 }, open: boss },
    { name: 'insert + NOTIFY, then a delete in a transaction', bar: 'none', open: bare },
  ],
});
await server.close();

/** One take. Returns the cleanup, which no caller waits for. */
type Take = () => Promise<() => Promise<unknown>>;

function sampled(name: string, take: Take, close: () => Promise<unknown>): Side {
  const round = async () => {
    const times: number[] = [];
    for (let i = 0; i < takes; i++) {
      const start = performance.now();
      const after = await take();
      times.push(performance.now() - start);
      await after();
      await systemClock.sleep(pauseMs);
    }
    return median(times);
  };
  return { name, round, close: async () => void (await close()) };
}

async function ours(): Promise<Side> {
  const submitter = await open(server.url, 'take');
  const taker = await open(server.url, 'take');
  const take: Take = async () => {
    const heard = new Promise<void>((resolve) => {
      const off = taker.store.onReady(() => (off(), resolve()));
    });
    await submitter.jobs.submit(submission);
    await heard;
    const job = await claim(taker.jobs);
    if (!job) throw new Error('the job was not there');
    return () => finish(taker.jobs, job);
  };
  return sampled('errand', take, async () => {
    await submitter.store.close();
    await taker.store.close();
  });
}

async function boss(): Promise<Side> {
  const started = async () => {
    const one = new PgBoss({
      connectionString: server.url,
      schema: 'take_boss_bare',
      useListenNotify: true,
      supervise: false,
      schedule: false,
    });
    one.on('error', () => {});
    await one.start();
    return one;
  };
  const sender = await started();
  await sender.createQueue('take', { retryLimit: 0, notify: true });
  const worker = await started();
  let arrived = () => {};
  // Polls so rarely that only a notification can be in time.
  const seldom = { pollingIntervalSeconds: 30, notifyPollingIntervalSeconds: 30 };
  await worker.work('take', seldom, async () => arrived());
  const take: Take = async () => {
    const heard = new Promise<void>((resolve) => (arrived = resolve));
    await sender.send('take', submission.input);
    await heard;
    return async () => {};
  };
  return sampled('pg-boss', take, () =>
    Promise.all([sender, worker].map((one) => one.stop({ graceful: false }))),
  );
}

async function bare(): Promise<Side> {
  const [speaker, listener] = [new Client(server.url), new Client(server.url)];
  await Promise.all([speaker.connect(), listener.connect()]);
  await speaker.query('CREATE TABLE bare_take (id bigint)');
  await listener.query('LISTEN bare');
  const take: Take = async () => {
    const heard = new Promise<void>((resolve) => listener.once('notification', () => resolve()));
    await speaker.query(
      `BEGIN; INSERT INTO bare_take VALUES (1); SELECT pg_notify('bare', 'x'); COMMIT`,
    );
    await heard;
    await listener.query('BEGIN; DELETE FROM bare_take; COMMIT');
    return async () => {};
  };
  return sampled('bare', take, () => Promise.all([speaker.end(), listener.end()]));
}
