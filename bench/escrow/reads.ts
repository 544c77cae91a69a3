// Public reads of one escrow job over HTTP without a key, against a bare node:http server that returns JSON of the same
// size. Both servers are separate processes with the same client.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { compare, rate, scratchFolder } from '../harness.ts';

const reads = 4000;
const connections = 16;

const echo = `
  const { createServer } = require('node:http');
  const size = Number(process.argv[1]);
  const body = { text: 'x'.repeat(size) };
  const server = createServer((request, response) => {
    const text = JSON.stringify(body);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length });
    response.end(text);
  });
  server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
`;

export async function compareReads(): Promise<void> {
  const home = join(scratchFolder(), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  // Raise the rate limit per address, because it is not measured here.
  writeFileSync(join(home, 'config.json'), JSON.stringify({ http: { addressRate: 0 } }));
  const bin = join(import.meta.dirname, '../../bin/errand.js');
  const child = spawn(process.execPath, [bin, 'serve', '--json', '--port', '0'], {
    env: { ...process.env, ERRAND_HOME: home, ERRAND_LOG: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { url, key } = (await firstLine(child)) as { url: string; key: string };
  const path = await publicJob(url, key);
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const size = await fetchText(`${url}${path}`, agent);
  await compare({
    name: 'public get_job',
    unit: '/s',
    rounds: 5,
    ours: async () => ({
      name: 'errand',
      operations: reads,
      servicePids: [child.pid!],
      round: () => rate(reads, connections, () => fetchText(`${url}${path}`, agent)),
      close: async () => void child.kill('SIGTERM'),
    }),
    peers: [
      {
        name: 'bare node:http',
        bar: { atLeast: 0.5 },
        open: async () => {
          const bare = spawn(process.execPath, ['-e', echo, String(size)], {
            stdio: ['ignore', 'pipe', 'inherit'],
          });
          const { port } = (await firstLine(bare)) as { port: number };
          const target = `http://127.0.0.1:${port}/`;
          return {
            name: 'node:http',
            operations: reads,
            servicePids: [bare.pid!],
            round: () => rate(reads, connections, () => fetchText(target, agent)),
            close: async () => void bare.kill('SIGKILL'),
          };
        },
      },
    ],
  });
  agent.destroy();
}

async function publicJob(url: string, key: string): Promise<string> {
  const call = async (method: string, path: string, body: unknown) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { id: string };
  };
  const client = await call('POST', '/api/wallets', { name: 'client' });
  const provider = await call('POST', '/api/wallets', { name: 'provider' });
  const mint = { wallet: client.id, amount: '10.00', transferId: 'start' };
  await call('POST', '/api/escrow/mint', mint);
  const job = await call('POST', '/api/work', {
    wallet: client.id,
    provider: provider.id,
    budget: '1000000',
    title: 'Read me',
    description: 'Often.',
    fund: true,
  });
  return `/api/jobs/${job.id}`;
}

/** Reads the whole response and returns its size. */
function fetchText(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => (bytes += chunk.length));
      response.on('end', () =>
        response.statusCode === 200 ? resolve(bytes) : reject(new Error(`${response.statusCode}`)),
      );
    }).on('error', reject);
  });
}

async function firstLine(child: ChildProcess): Promise<unknown> {
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return JSON.parse(line);
}
