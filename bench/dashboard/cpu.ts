// CPU of the server for open dashboards while 500 jobs per second run: the difference to the same load without a dashboard,
// as a share of one core. One dashboard is a real page in Chromium; a hundred are their requests, sent by another process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findChromium } from '../../test/helpers/chromium.ts';
import { call, startErrand, type Server } from '../endpoint/kit.ts';
import { compare, payload } from '../harness.ts';

const jobsPerSecond = Number(process.env.BENCH_RATE ?? 500);
const seconds = Number(process.env.BENCH_SECONDS ?? 10);
const warmUpSeconds = 2;
const many = 100;
const pacesPerSecond = 50;
/** Below this share of the wanted rate the figures are about another load. */
const minShare = 0.9;
/** /proc counts CPU time in hundredths of a second. */
const ticksPerSecond = 100;

type Close = () => Promise<void>;

if (process.argv[2] === 'read') readEndlessly(process.argv[3]!, process.argv[4]!);
else await run();

async function run(): Promise<void> {
  const server = await startErrand();
  try {
    await measure(server);
  } finally {
    await server.close();
  }
}

async function measure(server: Server): Promise<void> {
  await call(server, 'POST', '/api/endpoints', {
    id: 'warm',
    recipe: { module: join(import.meta.dirname, '../endpoint/handler.mjs') },
    minWorkers: 1,
    maxWorkers: 1,
    concurrency: 64,
  });
  await call(server, 'POST', '/v2/warm/runsync', { input: payload });
  const core = (bar: { atMost: number } | 'none') => [
    {
      name: 'one core',
      bar,
      open: async () => ({ name: 'one core', round: () => Promise.resolve(1) }),
    },
  ];
  const extra = (open: () => Promise<Close>) => async () => ({
    name: 'errand',
    round: async () => {
      const without = await cpuUnderLoad(server);
      const close = await open();
      try {
        return (await cpuUnderLoad(server)) - without;
      } finally {
        await close();
      }
    },
  });
  const comparison = { unit: ' cores', rounds: 3 };
  await compare({
    ...comparison,
    name: `server CPU for one open dashboard at ${jobsPerSecond} jobs/s`,
    ours: extra(() => openPage(server)),
    peers: core({ atMost: 0.1 }),
  });
  await compare({
    ...comparison,
    name: `server CPU for ${many} open dashboards at ${jobsPerSecond} jobs/s`,
    ours: extra(() => openMany(server)),
    peers: core('none'),
  });
}

/** Cores that the server uses. The first seconds let a new page load and are not counted. */
async function cpuUnderLoad(server: Server): Promise<number> {
  await load(server, warmUpSeconds);
  const before = cpuSeconds(server.pid);
  const begin = performance.now();
  const done = await load(server, seconds);
  const elapsed = (performance.now() - begin) / 1000;
  if (done / elapsed < minShare * jobsPerSecond)
    throw new Error(`only ${Math.round(done / elapsed)} jobs/s: the machine is too busy`);
  return (cpuSeconds(server.pid) - before) / elapsed;
}

async function load(server: Server, forSeconds: number): Promise<number> {
  const paces = forSeconds * pacesPerSecond;
  const begin = performance.now();
  const running: Promise<unknown>[] = [];
  for (let pace = 0; pace < paces; pace++) {
    for (let i = 0; i < jobsPerSecond / pacesPerSecond; i++)
      running.push(call(server, 'POST', '/v2/warm/runsync', { input: payload }));
    await sleep(Math.max(0, begin + ((pace + 1) * 1000) / pacesPerSecond - performance.now()));
  }
  await Promise.all(running);
  return running.length;
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

async function openPage({ url, key }: Server): Promise<Close> {
  const found = await findChromium();
  if ('reason' in found) throw new Error(found.reason);
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: found.path,
    args: [...found.args, '--no-sandbox'],
  });
  const page = await browser.newPage({ locale: 'en-US' });
  await page.goto(`${url}/login`);
  await page.getByLabel('Or log in with an API key').fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForSelector('tr[data-id]');
  return () => browser.close();
}

async function openMany({ url, key }: Server): Promise<Close> {
  const child = spawn(process.execPath, [import.meta.filename, 'read', url, key], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return async () => {
    child.kill();
    await once(child, 'exit');
  };
}

/** What each page of the job list requests: the stream, and every second the counts. */
function readEndlessly(url: string, key: string): void {
  const authorization = `Bearer ${key}`;
  let open = 0;
  for (let i = 0; i < many; i++) {
    const headers = { authorization, accept: 'text/event-stream' };
    get(`${url}/api/jobs/watch`, { headers, agent: false }, (response) => {
      response.resume();
      open += 1;
      if (open === many) console.log('open');
    });
    setInterval(() => {
      get(`${url}/api/jobs/count`, { headers: { authorization } }, (response) => response.resume());
    }, 1000);
  }
}
