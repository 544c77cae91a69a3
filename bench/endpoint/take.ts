// Latency (p99) of job-take with 100,000 jobs queued on 100 endpoints, against the same server with empty queues.
import { spawnSync } from 'node:child_process';
import { compare, payload, type Side } from '../harness.ts';
import { call, startErrand, type Server } from './kit.ts';

const queued = Number(process.env.BENCH_QUEUED ?? 100_000);
const endpoints = 100;
/** Enough that the p99 of a round is not a single sync on a busy disk. */
const takes = 1000;

const full = await startErrand();
const empty = await startErrand();
for (const server of [full, empty])
  for (let i = 0; i < endpoints; i++) await call(server, 'POST', '/api/endpoints', { id: `e${i}` });
const inputs = Array.from({ length: queued / endpoints }, () => payload);
for (let i = 0; i < endpoints; i++)
  await call(full, 'POST', `/api/endpoints/e${i}/batches`, { inputs });
// Wait until the system has flushed the loaded data. Otherwise every sync would measure that instead of the queue.
spawnSync('sync');

await compare({
  name: `take with ${queued} queued on ${endpoints} endpoints, p99`,
  unit: ' ms',
  rounds: 7,
  ours: async () => side(full),
  peers: [{ name: 'empty queues', bar: { atMost: 1.5 }, open: async () => side(empty) }],
});
await full.close();
await empty.close();

/** Submits one job and completes one, on a different endpoint each time. */
function side(server: Server): Side {
  return {
    name: server.url,
    round: async () => {
      const times: number[] = [];
      for (let i = 0; i < takes; i++) {
        const path = `/v2/e${i % endpoints}`;
        await call(server, 'POST', `${path}/run`, { input: payload });
        const start = performance.now();
        const job = await call(server, 'GET', `${path}/job-take/bench?gpu=x`);
        times.push(performance.now() - start);
        await call(server, 'POST', `${path}/job-done/bench/${String(job.id)}?x=1`, { output: 1 });
      }
      return times.toSorted((a, b) => a - b)[Math.floor(takes * 0.99)]!;
    },
  };
}
