// Hands argv to the command line, with what it needs of the rest imported when it is needed.
import { constants } from 'node:os';
import { join } from 'node:path';
import { runCli } from './faces/cli/cli.ts';
import { plainEnv } from './faces/cli/place.ts';
import type { Program } from './faces/cli/program.ts';
import { systemClock } from './runtime/clock.ts';
import { createLog } from './runtime/log.ts';
import { version } from './version.ts';
import { clientPlace, environment, logLevelOf, usualHome } from './config-place.ts';

const env = environment();
const log = createLog(logLevelOf(env.ERRAND_LOG ?? 'warn'));

const program: Program = {
  version,
  binPath: join(import.meta.dirname, '..', 'bin', 'errand.js'),
  platform: process.platform,
  clock: systemClock,
  log,
  env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  usualHome: () => usualHome(env),
  place: (wish) => clientPlace(wish.home, env),
  isServed: async (home) => (await import('./runtime/home-lock.ts')).isLocked(home),
  serve: async (wish) => (await import('./server.ts')).startServer(wish),
  runFront: async (wish) => {
    const { runFront } = await import('./faces/mcp/front.ts');
    await runFront({
      ...wish,
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
  checkStore: async (wish) => (await import('./store-check.ts')).checkStore(wish),
  copyStore: async (from, to) => (await import('./store-tools.ts')).copyBetween(from, to),
  settings: async (home) => (await import('./settings-report.ts')).settingsReport(home, env),
  examine: async (home) => (await import('./doctor/doctor.ts')).examine(home, env),
};

// Whoever reads us left (`errand logs … | head`): end as quietly as every other program does.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(128 + constants.signals.SIGPIPE);
  });
}
process.exitCode = await runCli(process.argv.slice(2), program);
// Sockets kept alive and timers of libraries must not hold a finished command; what was printed is flushed first.
await Promise.all(
  [process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write('', done))),
);
process.exit();
