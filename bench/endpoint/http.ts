// Durable /run and /status over HTTP, 16 connections, against a bare node:http JSON echo; and RunPod's documented 100/s.
import { compare, payload, rate, type Side } from '../harness.ts';
import { call, startEcho, startErrand, type Server } from './kit.ts';

const perRound = Number(process.env.BENCH_JOBS ?? 3000);
const connections = 16;
const rounds = 3;

const server = await startErrand();
await call(server, 'POST', '/api/endpoints', { id: 'bench' });
const { id } = await call(server, 'POST', '/v2/bench/run', { input: payload });
const echo = await startEcho();

const side = (name: string, to: Server, method: string, path: string): Side => {
  const body = method === 'POST' ? { input: payload } : undefined;
  return { name, round: () => rate(perRound, connections, () => call(to, method, path, body)) };
};
const documented: Side = { name: 'documented', round: () => Promise.resolve(100) };

await compare({
  name: 'durable /run per second',
  unit: '/s',
  rounds,
  ours: async () => side('errand', server, 'POST', '/v2/bench/run'),
  peers: [
    {
      name: 'bare node:http JSON echo',
      bar: { atLeast: 0.35 },
      open: async () => side('echo', echo, 'POST', '/run'),
    },
    { name: "RunPod's documented 100/s", bar: { atLeast: 30 }, open: async () => documented },
  ],
});
await compare({
  name: '/status reads per second',
  unit: '/s',
  rounds,
  ours: async () => side('errand', server, 'GET', `/v2/bench/status/${String(id)}`),
  peers: [
    {
      name: 'bare node:http JSON echo',
      bar: { atLeast: 0.5 },
      open: async () => side('echo', echo, 'GET', '/status'),
    },
  ],
});
await server.close();
await echo.close();
