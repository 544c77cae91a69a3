// No-op jobs end to end on one warm JS worker, 16 concurrently, against BullMQ on a Redis that syncs every write; the delay
// of a warm worker against RunPod's reported 21 ms; a handler's cold start against starting it manually.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  compare,
  importPeer,
  median,
  payload,
  rate,
  scratchFolder,
  type Side,
} from '../harness.ts';
import { startRedis } from '../services.ts';
import { call, startErrand } from './kit.ts';

const perRound = Number(process.env.BENCH_JOBS ?? 1500);
const concurrency = 16;
const handler = join(import.meta.dirname, 'handler.mjs');
const marks = scratchFolder();
const server = await startErrand();
const recipe = { module: handler };
const warm = { recipe, minWorkers: 1, maxWorkers: 1, concurrency };
await call(server, 'POST', '/api/endpoints', { id: 'warm', ...warm });
const runsync = () => call(server, 'POST', '/v2/warm/runsync', { input: payload });

await compare({
  name: 'no-op job end to end, 16 concurrently',
  unit: '/s',
  rounds: 3,
  ours: async () => ({ name: 'errand', round: () => rate(perRound, concurrency, runsync) }),
  peers: [{ name: 'BullMQ, Redis appendfsync always', bar: { atLeast: 1.2 }, open: bullmq }],
});
await compare({
  name: 'delayTime of a warm worker, p50',
  unit: ' ms',
  rounds: 3,
  ours: async () => ({ name: 'errand', round: warmDelay }),
  peers: [
    {
      name: "RunPod's reported 21 ms (5 ms is the bar)",
      bar: { atMost: 5 / 21 },
      open: async () => ({ name: 'reported', round: () => Promise.resolve(21) }),
    },
  ],
});
await compare({
  name: 'cold start of a JS handler',
  unit: ' ms',
  rounds: 5,
  ours: async () => ({ name: 'errand', prepare: settled, round: () => coldStart(true) }),
  peers: [
    {
      name: '`node handler.mjs` by hand',
      bar: { atMost: 1.5 },
      open: async () => ({ name: 'by hand', round: byHand }),
    },
  ],
});
await compare({
  name: 'cold start of a JS handler without a spare runner',
  unit: ' ms',
  rounds: 5,
  ours: async () => ({ name: 'errand', prepare: settled, round: () => coldStart(false) }),
  peers: [
    {
      name: '`node handler.mjs` by hand',
      bar: 'none',
      open: async () => ({ name: 'by hand', round: byHand }),
    },
  ],
});
await server.close();

/** Waits until the next spare runner is ready, so that a cold start does not overlap the previous one. */
function settled(): Promise<void> {
  return sleep(2500);
}

async function warmDelay(): Promise<number> {
  const delays: number[] = [];
  for (let i = 0; i < 100; i++) delays.push((await runsync()).delayTime as number);
  // A delay of 0 ms is below the clock's resolution.
  return Math.max(median(delays), 0.5);
}

async function coldStart(spareRunner: boolean): Promise<number> {
  const mark = join(marks, 'mark');
  const id = `cold${Math.random().toString(36).slice(2)}`;
  await call(server, 'POST', '/api/endpoints', {
    id,
    recipe,
    env: { BENCH_MARK: mark },
    spareRunner,
  });
  const start = Date.now();
  await call(server, 'POST', `/v2/${id}/run`, { input: payload });
  const at = await markedAt(mark);
  await call(server, 'DELETE', `/api/endpoints/${id}`);
  return at - start;
}

async function byHand(): Promise<number> {
  const mark = join(marks, 'mark');
  const start = Date.now();
  const child = spawn(process.execPath, [handler], {
    stdio: 'ignore',
    env: { ...process.env, BENCH_MARK: mark },
  });
  const at = await markedAt(mark);
  child.kill();
  return at - start;
}

async function markedAt(mark: string): Promise<number> {
  for (;;) {
    const text = existsSync(mark) ? readFileSync(mark, 'utf8') : '';
    if (text !== '') {
      rmSync(mark);
      return Number(text);
    }
    await sleep(2);
  }
}

interface BullQueue {
  add(
    name: string,
    data: unknown,
  ): Promise<{ waitUntilFinished(events: unknown): Promise<unknown> }>;
  close(): Promise<void>;
}
interface Bull {
  Queue: new (name: string, options: object) => BullQueue;
  QueueEvents: new (
    name: string,
    options: object,
  ) => { waitUntilReady(): Promise<unknown>; close(): Promise<void> };
}

async function bullmq(): Promise<Side> {
  const redis = await startRedis();
  const { Queue, QueueEvents } = await importPeer<Bull>('bullmq');
  const connection = { host: '127.0.0.1', port: redis.port };
  // The peer's worker is also a separate process.
  const program = `
    import { Worker } from 'bullmq';
    new Worker('bench', async (job) => job.data, { connection: ${JSON.stringify(connection)}, concurrency: ${concurrency} });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: join(import.meta.dirname, '..'),
    stdio: 'ignore',
  });
  const queue = new Queue('bench', { connection });
  const events = new QueueEvents('bench', { connection });
  await events.waitUntilReady();
  const one = async () => (await queue.add('job', payload)).waitUntilFinished(events);
  return {
    name: 'bullmq',
    round: () => rate(perRound, concurrency, one),
    close: async () => {
      child.kill();
      await queue.close();
      await events.close();
      await redis.close();
    },
  };
}
