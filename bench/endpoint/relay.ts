// The cost of a relay: CPU of the server and the relay per job of a RunPod protocol worker (one take and one result), with
// and without the relay. The worker itself is not counted.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compare, type Side } from '../harness.ts';
import { call, startErrand, type Server } from './kit.ts';

const jobs = Number(process.env.BENCH_JOBS ?? 1000);
const worker = join(import.meta.dirname, '../../test/fixtures/endpoint/worker.py');
const msPerTick = 10;

const server = await startErrand();
await compare({
  name: 'CPU of the server and the relay per protocol job',
  unit: ' ms',
  rounds: 3,
  ours: () => side('relayed', true),
  peers: [{ name: 'the same without a relay', bar: 'none', open: () => side('direct', false) }],
});
await server.close();

async function side(id: string, relay: boolean): Promise<Side> {
  const spec = { recipe: { worker: ['python3', worker] }, env: { TEST_CONCURRENCY: '8' }, relay };
  await call(server, 'POST', '/api/endpoints', { id, ...spec, minWorkers: 1, maxWorkers: 1 });
  await batch(id, 10);
  return {
    name: id,
    round: async () => {
      const before = cpuMs(server, id);
      await batch(id, jobs);
      return (cpuMs(server, id) - before) / jobs;
    },
    close: async () => void (await call(server, 'DELETE', `/api/endpoints/${id}`)),
  };
}

async function batch(id: string, count: number): Promise<void> {
  const before = await completed(id);
  const inputs = Array.from({ length: count }, (_, n) => ({ n }));
  await call(server, 'POST', `/api/endpoints/${id}/batches`, { inputs });
  // Each poll costs the server a little CPU, so poll rarely.
  while ((await completed(id)) < before + count) await sleep(250);
}

async function completed(id: string): Promise<number> {
  const { jobs: counts } = await call(server, 'GET', `/v2/${id}/health`);
  return (counts as { completed: number }).completed;
}

/** User and system time of the server and this endpoint's relays. */
function cpuMs({ pid }: Server, endpointId: string): number {
  const relays = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isRelay(name, pid));
  // The other endpoint is idle in the meantime, so its relay costs nothing.
  return [String(pid), ...(endpointId === 'relayed' ? relays : [])]
    .map(timeOf)
    .reduce((sum, ms) => sum + ms, 0);
}

function isRelay(pid: string, parent: number): boolean {
  try {
    const isOwn = statFields(pid)[1] === String(parent);
    return isOwn && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('relay-main');
  } catch {
    return false;
  }
}

function timeOf(pid: string): number {
  const fields = statFields(pid);
  return (Number(fields[11]) + Number(fields[12])) * msPerTick;
}

function statFields(pid: string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
