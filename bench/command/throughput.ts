// `true` as a durable job, 8 in flight, against a bare loop with the same detached spawn of the same wrapper (folder, log
// file, exit record) without a ledger, in a small process (bare.ts). Rounds alternate, so that other load affects both.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { runCommand } from '../../src/contracts/command.ts';
import { createApp, kinds } from '../../src/app.ts';
import { loadConfig } from '../../src/config.ts';
import { openHome } from '../../src/home.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { median, report, tempHome } from './kit.ts';

const inFlight = 8;
const perRound = Number(process.env.BENCH_JOBS ?? 400);
const rounds = 9;

const path = tempHome();
const home = openHome(path);
const config = loadConfig({ home: path, sections: kinds });
const app = await createApp({
  config,
  home,
  clock: systemClock,
  log: silentLog,
  baseUrl: () => undefined,
  openBaseUrl: () => Promise.reject(new Error('no HTTP here')),
});
await app.start();

const context = {
  caller: { owner: 'bench', scopes: new Set(['run' as const]), admin: false, local: true },
  signal: new AbortController().signal,
  origin: { cwd: '/', env: { PATH: process.env.PATH ?? '' } },
};

async function ours(): Promise<void> {
  const input = { argv: ['true'], waitMs: 30_000 };
  const view = await app.operations.call(runCommand, input, context);
  if (view.exitCode !== 0) throw new Error('a job failed');
}

mkdirSync(join(path, 'bare'));
const loop = spawn(
  process.execPath,
  [join(import.meta.dirname, 'bare.ts'), join(path, 'bare'), String(inFlight), String(perRound)],
  { stdio: ['pipe', 'pipe', 'inherit'] },
);
const output = createInterface({ input: loop.stdout });
async function bareRate(): Promise<number> {
  loop.stdin.write('\n');
  const [line] = (await once(output, 'line')) as [string];
  return Number(line);
}

async function oursRate(): Promise<number> {
  let left = perRound;
  const started = performance.now();
  const worker = async () => {
    while (left-- > 0) await ours();
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return perRound / ((performance.now() - started) / 1000);
}

// Not counted: the launcher starts with a burst.
await oursRate();
await bareRate();
const oursRates: number[] = [];
const bareRates: number[] = [];
for (let round = 0; round < rounds; round++) {
  bareRates.push(await bareRate());
  oursRates.push(await oursRate());
}
await app.stop();
loop.stdin.end();
rmSync(path, { recursive: true, force: true });
// The speed of process starts varies by a factor of two within minutes, so each round is compared with its neighbor.
const ratio = median(oursRates.map((rate, i) => rate / bareRates[i]!));
report('true as a job', ratio, '>= 0.7', {
  jobsPerSecond: Math.round(median(oursRates)),
  barePerSecond: Math.round(median(bareRates)),
});
process.exit(0);
