// How claim + finish scales from 1 to 3 nodes (separate processes) on this machine, and what uses its cores. If the
// database shares the cores with the nodes, it becomes the bottleneck long before the nodes do.
import { fork, type ChildProcess } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { compare, median, treeCpu, type Side } from '../harness.ts';
import { startPostgres } from '../services.ts';
import { claim, fill, finish, open, rounds } from './kit.ts';

const cycles = Number(process.env.BENCH_COUNT ?? 400);
const workers = 4;

if (process.env.BENCH_NODE) await node(process.env.BENCH_NODE);
else await main();

/** A node in its own process that works off the backlog on request. */
async function node(url: string): Promise<void> {
  const { jobs } = await open(url, 'grow');
  process.on('message', (left: number) => {
    const worker = async () => {
      while (left-- > 0) {
        const job = await claim(jobs);
        if (job) await finish(jobs, job);
      }
    };
    void Promise.all(Array.from({ length: workers }, worker)).then(() => process.send!('done'));
  });
  process.send!('ready');
}

async function main(): Promise<void> {
  const server = await startPostgres();
  const home = await open(server.url, 'grow');
  const nodes = await Promise.all([1, 2, 3].map(() => startNode(server.url)));
  const spent: Record<string, { database: number[]; nodes: number[] }> = {};
  const side = (name: string, used: ChildProcess[]): Side => ({
    name,
    prepare: () => fill(home.jobs, cycles),
    round: async () => {
      const cpu = () => ({
        database: treeCpu(server.pid),
        nodes: used.reduce((sum, child) => sum + treeCpu(child.pid!), 0),
      });
      const before = cpu();
      const start = performance.now();
      const share = Math.floor(cycles / used.length);
      await Promise.all(
        used.map((child, i) => work(child, i === 0 ? cycles - share * (used.length - 1) : share)),
      );
      const wallMs = performance.now() - start;
      const after = cpu();
      const spentMs = (of: 'database' | 'nodes') => (after[of] - before[of]) / 1000 / cycles;
      const kept = (spent[name] ??= { database: [], nodes: [] });
      kept.database.push(spentMs('database'));
      kept.nodes.push(spentMs('nodes'));
      return (cycles / wallMs) * 1000;
    },
  });
  await compare({
    name: `claim + finish, 3 nodes of ${workers} workers`,
    unit: '/s',
    rounds,
    ours: async () => side('3 nodes', nodes),
    peers: [
      {
        name: `1 node of ${workers} workers`,
        bar: 'none',
        open: async () => side('1 node', nodes.slice(0, 1)),
      },
    ],
  });
  const cores = availableParallelism();
  for (const [name, { database, nodes: own }] of Object.entries(spent)) {
    const [theirs, ours] = [median(database), median(own)];
    const ceiling = Math.round((cores * 1000) / (theirs + ours));
    const parts = `PostgreSQL ${theirs.toFixed(1)} ms, nodes ${ours.toFixed(1)} ms`;
    console.log(`${name}: CPU per cycle ${parts}; ${cores} cores end at ${ceiling}/s`);
  }
  for (const child of nodes) child.kill();
  await home.store.close();
  await server.close();
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
