// Starts the command line and connects it with the rest of the program, which is imported on demand.
import { constants, homedir } from 'node:os';
import { join } from 'node:path';
import { runCli } from './interfaces/cli/cli.ts';
import { plainEnv } from './interfaces/cli/server-target.ts';
import type { Program } from './interfaces/cli/program.ts';
import { systemClock } from './runtime/clock.ts';
import { createLog } from './runtime/log.ts';
import { version } from './version.ts';
import { clientPlace, environment, homePlace, logLevelOf, defaultHome } from './config-place.ts';

const env = environment();
const log = createLog(logLevelOf(env.ERRAND_LOG ?? 'warn'));

const program: Program = {
  version,
  binPath: join(import.meta.dirname, '..', 'bin', 'errand.js'),
  platform: process.platform,
  userHome: env.HOME || homedir(),
  clock: systemClock,
  log,
  env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  defaultHome: () => defaultHome(env),
  place: (options) => clientPlace(options.home, env),
  isServed: async (home) => (await import('./runtime/home-lock.ts')).isLocked(home),
  serve: async (options) => {
    // Lock the home before loading the application: if several servers start concurrently, all but one exit here.
    const home = (await import('./home.ts')).openHome(homePlace(options.home, env).home);
    return (await import('./server.ts')).startServer(options, home);
  },
  runBridge: async (options) => {
    const { runBridge } = await import('./interfaces/mcp/bridge.ts');
    await runBridge({
      ...options,
      origin: { cwd: process.cwd(), env: plainEnv(env) },
      stdin: process.stdin,
      stdout: process.stdout,
      version,
      clock: systemClock,
      log,
    });
  },
  restore: async (home, file) => (await import('./restore.ts')).restoreBackup(home, file),
  migrate: async (address) => (await import('./store-tools.ts')).migrateStore(address),
  checkStore: async (options) => (await import('./store-check.ts')).checkStore(options),
  copyStore: async (from, to) => (await import('./store-tools.ts')).copyBetween(from, to),
  settings: async (home) => (await import('./settings-report.ts')).settingsReport(home, env),
  examine: async (home) => (await import('./doctor/doctor.ts')).examine(home, env),
};

export async function start(argv: readonly string[]): Promise<never> {
  // The reader closed the pipe (`errand logs … | head`): exit quietly like other programs.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(128 + constants.signals.SIGPIPE);
    });
  }
  process.exitCode = await runCli(argv, program);
  // Flush the output, then exit: open sockets and library timers must not keep a finished command running.
  await Promise.all(
    [process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write('', done))),
  );
  process.exit();
}
