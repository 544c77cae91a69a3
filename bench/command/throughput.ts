// `true` as a durable job, 8 in flight, against a bare loop that does the same detached spawn of the same wrapper
// (folder, log file, exit record) without any ledger. Rounds alternate, so that a busy machine is busy for both.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createApp, kinds } from '../../src/app.ts';
import { loadConfig } from '../../src/config.ts';
import { openHome } from '../../src/home.ts';
import { LaunchFolder } from '../../src/kinds/command/process/folder.ts';
import { launch, type LaunchSpec } from '../../src/kinds/command/process/launch.ts';
import { Launcher } from '../../src/kinds/command/process/launcher.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { median, report, tempHome } from './kit.ts';

const inFlight = 8;
const perRound = Number(process.env.BENCH_JOBS ?? 400);
const rounds = 5;

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
  const view = await app.operations.call<{ exitCode: number }>('run_command', input, context);
  if (view.exitCode !== 0) throw new Error('a job went wrong');
}

/** Its own, like the one the server has: both sides spawn in the same way. */
const launcher = new Launcher(systemClock);
let bareCount = 0;
async function bare(): Promise<void> {
  const folder = new LaunchFolder(join(path, 'bare', String(bareCount++), '1.1'));
  const spec: LaunchSpec = {
    folder,
    argv: ['true'],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    attemptId: 'bare',
    stdin: 'none',
    streams: 'merged',
  };
  const { ended } = await launch(spec, launcher);
  await ended;
  if (folder.readExit()?.exitCode !== 0) throw new Error('a bare one went wrong');
}

async function rate(work: () => Promise<void>): Promise<number> {
  let left = perRound;
  const started = performance.now();
  const worker = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return perRound / ((performance.now() - started) / 1000);
}

mkdirSync(join(path, 'bare'));
// Not counted: both launchers start with a burst.
await Promise.all([rate(ours), rate(bare)]);
const oursRates: number[] = [];
const bareRates: number[] = [];
for (let round = 0; round < rounds; round++) {
  bareRates.push(await rate(bare));
  oursRates.push(await rate(ours));
}
await app.stop();
rmSync(path, { recursive: true, force: true });
report('true as a job', median(oursRates) / median(bareRates), '>= 0.7', {
  jobsPerSecond: Math.round(median(oursRates)),
  barePerSecond: Math.round(median(bareRates)),
});
process.exit(0);
