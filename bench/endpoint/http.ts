// Durable /run and /status over HTTP against a bare node:http JSON echo, with wrk (64 connections) and with undici (16) as
// the client; and RunPod's documented 100/s.
import { compare, payload, rate, type Peer, type Side } from '../harness.ts';
import { call, startEcho, startErrand, undiciCall, type Server } from './kit.ts';
import { needWrk, runWrk, type WrkRequest } from './wrk.ts';

const perRound = Number(process.env.BENCH_JOBS ?? 3000);
const undiciConnections = 16;
const rounds = Number(process.env.BENCH_ROUNDS ?? 5);

const server = await startErrand();
await call(server, 'POST', '/api/endpoints', { id: 'bench' });
const { id } = await call(server, 'POST', '/v2/bench/run', { input: payload });
const echo = await startEcho();

/** Also prints the CPU time per request, which depends less on other load than the rate. */
function byWrk(name: string, to: Server, request: WrkRequest): Side {
  const side: Side = {
    name,
    servicePids: [to.pid],
    round: async () => {
      const { perSecond, requests } = await runWrk(to, request);
      side.operations = requests;
      return perSecond;
    },
  };
  return side;
}
const byUndici = (name: string, to: Server, { method, path, body }: WrkRequest): Side => ({
  name,
  round: () => rate(perRound, undiciConnections, () => undiciCall(to, method, path, body)),
});
const documented: Peer = {
  name: "RunPod's documented 100/s",
  bar: { atLeast: 30 },
  open: async () => ({ name: 'documented', round: () => Promise.resolve(100) }),
};

await measure('durable /run per second', 0.5, {
  ours: { method: 'POST', path: '/v2/bench/run', body: { input: payload } },
  bare: { method: 'POST', path: '/run', body: { input: payload } },
  more: [documented],
});
await measure('/status reads per second', 0.7, {
  ours: { method: 'GET', path: `/v2/bench/status/${String(id)}` },
  bare: { method: 'GET', path: '/status' },
  more: [],
});
await server.close();
await echo.close();

async function measure(
  name: string,
  atLeast: number,
  { ours, bare, more }: { ours: WrkRequest; bare: WrkRequest; more: Peer[] },
): Promise<void> {
  const open = async () => {
    await needWrk();
    return byWrk('echo', echo, bare);
  };
  await compare({
    name: `${name}, wrk -t1 -c64`,
    unit: '/s',
    rounds,
    ours: async () => byWrk('errand', server, ours),
    peers: [{ name: 'bare node:http JSON echo', bar: { atLeast }, open }, ...more],
  });
  await compare({
    name: `${name}, undici with ${undiciConnections} connections`,
    unit: '/s',
    rounds: 3,
    ours: async () => byUndici('errand', server, ours),
    peers: [
      {
        name: 'bare node:http JSON echo',
        bar: 'none',
        open: async () => byUndici('echo', echo, bare),
      },
    ],
  });
}
