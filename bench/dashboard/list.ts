// The job list with 100,000 waiting jobs in Chromium, against bull-board with 100,000 waiting jobs: time until the first rows
// are on the screen, and gzipped bytes of script.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Browser, Page } from 'playwright-core';
import { findChromium } from '../../test/helpers/chromium.ts';
import { compare, importPeer, payload, scratchFolder, type Side } from '../harness.ts';
import { startRedis } from '../services.ts';

const jobCount = Number(process.env.BENCH_JOBS ?? 100_000);
const rounds = 5;
const submitted = 500;

/** Not every server compresses, so both sides are compressed the same way. */
const gzippedBytes = `Promise.all(
  performance
    .getEntriesByType('resource')
    .filter(({ name }) => /\\.js($|\\?)/.test(name))
    .map(async ({ name }) => {
      const { body } = await fetch(name);
      const packed = new Response(body.pipeThrough(new CompressionStream('gzip')));
      return (await packed.arrayBuffer()).byteLength;
    }),
).then((sizes) => sizes.reduce((sum, size) => sum + size, 0))`;

interface Target {
  name: string;
  open(page: Page): Promise<void>;
  /** Present when the reader can see and use the first rows. */
  firstRow: string;
  close(): Promise<void>;
}

const found = await findChromium();
if ('reason' in found) throw new Error(found.reason);
const { chromium } = await import('playwright-core');
const browser: Browser = await chromium.launch({
  executablePath: found.path,
  args: [...found.args, '--no-sandbox'],
});
const ours = await openErrand();
let peer: Promise<Target> | undefined;
const bullBoard = () => (peer ??= openBullBoard());

await compare({
  name: `job list with ${jobCount} jobs, time to the first rows`,
  unit: 'ms',
  rounds,
  ours: async () => timeSide(ours),
  peers: [
    { name: 'bull-board', bar: { atMost: 0.5 }, open: async () => timeSide(await bullBoard()) },
  ],
});
await compare({
  name: 'job list, gzipped script of the first load',
  unit: 'bytes',
  rounds: 1,
  ours: async () => bytesSide(ours),
  peers: [
    { name: 'bull-board', bar: { atMost: 0.3 }, open: async () => bytesSide(await bullBoard()) },
  ],
});
await browser.close();
await ours.close();
await (await peer)?.close();

/** Each round is a first visit: nothing is cached. */
async function visit<T>(run: (page: Page) => Promise<T>): Promise<T> {
  const context = await browser.newContext({ locale: 'en-US' });
  try {
    return await run(await context.newPage());
  } finally {
    await context.close();
  }
}

function timeSide(target: Target): Side {
  const round = () =>
    visit(async (page) => {
      await target.open(page);
      const begin = performance.now();
      await page.reload({ waitUntil: 'commit' });
      await page.waitForSelector(target.firstRow);
      return performance.now() - begin;
    });
  return { name: target.name, round };
}

function bytesSide(target: Target): Side {
  const round = () =>
    visit(async (page) => {
      await target.open(page);
      await page.waitForSelector(target.firstRow);
      return page.evaluate<number>(gzippedBytes);
    });
  return { name: target.name, round };
}

async function openErrand(): Promise<Target> {
  const home = join(scratchFolder(), 'home');
  const bin = join(import.meta.dirname, '..', '..', 'bin', 'errand.js');
  const child = spawn(process.execPath, [bin, '--home', home, 'serve', '--json', '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [first] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url, key } = JSON.parse(first) as { url: string; key: string };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const call = async (method: string, path: string, body: unknown) => {
    const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(await response.text());
  };
  await call('PUT', '/api/queues/command/default', { paused: true });
  const command = { command: `true '${JSON.stringify(payload)}'`, waitMs: 0 };
  for (let left = jobCount; left > 0; left -= submitted)
    await Promise.all(
      Array.from({ length: Math.min(left, submitted) }, () =>
        call('POST', '/api/commands', command),
      ),
    );
  return {
    name: 'errand',
    open: async (page) => {
      await page.goto(`${url}/login`);
      await page.getByLabel('Or log in with an API key').fill(key);
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.waitForURL(`${url}/jobs`);
    },
    firstRow: 'tr[data-id]',
    close: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

interface BoardModule {
  createBullBoard(options: { queues: object[]; serverAdapter: object }): void;
}
interface AdapterModule {
  BullMQAdapter: new (queue: object) => object;
}
interface RouterModule {
  ExpressAdapter: new () => { getRouter(): unknown };
}
interface ExpressModule {
  default(): {
    use(path: string, router: unknown): void;
    listen(port: number, host: string): Server;
  };
}

interface BullMq {
  Queue: new (
    name: string,
    options: object,
  ) => { addBulk(jobs: object[]): Promise<unknown>; close(): Promise<void> };
}

async function openBullBoard(): Promise<Target> {
  const redis = await startRedis();
  const { Queue } = await importPeer<BullMq>('bullmq');
  const { createBullBoard } = await importPeer<BoardModule>('@bull-board/api');
  const { BullMQAdapter } = await importPeer<AdapterModule>('@bull-board/api/bullMQAdapter');
  const { ExpressAdapter } = await importPeer<RouterModule>('@bull-board/express');
  const { default: express } = await importPeer<ExpressModule>('express');
  const queue = new Queue('jobs', { connection: { host: '127.0.0.1', port: redis.port } });
  for (let left = jobCount; left > 0; left -= submitted)
    await queue.addBulk(
      Array.from({ length: Math.min(left, submitted) }, () => ({ name: 'job', data: payload })),
    );
  const adapter = new ExpressAdapter();
  createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter });
  const app = express();
  app.use('/', adapter.getRouter());
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    name: 'bull-board',
    open: async (page) => {
      await page.goto(`http://127.0.0.1:${port}/queue/jobs?status=waiting`);
    },
    firstRow: 'text=#1',
    close: async () => {
      server.closeAllConnections();
      server.close();
      await queue.close();
      await redis.close();
    },
  };
}
