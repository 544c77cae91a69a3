// Finds the server of a home, or starts one: exactly one, also when ten fronts start at once (the home's lock decides,
// the losers end and everybody polls the same socket).
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '../../errors.ts';
import { makeFolder, refuseShared } from '../../runtime/folder.ts';
import { Client } from './client.ts';
import type { Program } from './program.ts';

const startMsMax = 30_000;
const pollMs = 40;
/** Exit code of a server that found the home taken: another one is coming up. */
const takenExit = 5;

/** A server of one's own needs POSIX processes and sockets; one elsewhere is reached from anywhere (ERRAND_URL). */
export function refuseWindows({ platform }: Program): void {
  if (platform !== 'win32') return;
  throw new AppError('unsupported', 'Errand does not run on Windows yet.', {
    hint: 'Run it in WSL; a server there, or on another machine, is reached with ERRAND_URL and ERRAND_KEY.',
  });
}

export async function findServer(program: Program, home?: string): Promise<string | undefined> {
  const { socketPath } = program.place(home === undefined ? {} : { home });
  return (await healthOf(socketPath)) ? socketPath : undefined;
}

/** The socket of a running server of this home. */
export async function connectServer(program: Program, home?: string): Promise<string> {
  refuseWindows(program);
  const place = program.place(home === undefined ? {} : { home });
  const { socketPath } = place;
  const health = await healthOf(socketPath);
  if (health && !isOlder(String(health.version), program.version)) return socketPath;
  // A newer program replaces a server that has nothing to do; a busy one goes on, and newer calls still work.
  if (health && !(await stopIdle(socketPath))) return socketPath;
  const deadline = program.clock.now() + startMsMax;
  let attempt: Attempt | undefined;
  while (program.clock.now() < deadline) {
    if (await healthOf(socketPath)) return socketPath;
    if (attempt?.exitCode !== undefined && attempt.exitCode !== takenExit)
      throw startFailed(attempt);
    if (!attempt || attempt.exitCode === takenExit) attempt = startServer(program, place.home);
    await program.clock.sleep(pollMs);
  }
  throw new AppError('unavailable', `The server did not answer within ${startMsMax / 1000} s.`, {
    hint: `Its log is ${join(place.home, 'server.log')}; \`errand doctor\` looks for reasons.`,
  });
}

interface Attempt {
  child: ChildProcess;
  exitCode: number | undefined;
  logPath: string;
  logStart: number;
}

function startServer(program: Program, home: string): Attempt {
  refuseShared(home);
  const logPath = join(home, 'server.log');
  let log: number;
  try {
    makeFolder(home);
    log = openSync(logPath, 'a', 0o600);
  } catch (error) {
    throw new AppError(
      'unavailable',
      `The home ${home} cannot be written: ${(error as Error).message}.`,
      {
        hint: 'Choose another with ERRAND_HOME, or give yourself the right to write there.',
        cause: error,
      },
    );
  }
  const logStart = fstatSync(log).size;
  const child = spawn(process.execPath, [program.binPath, 'serve', '--auto', '--home', home], {
    detached: true,
    stdio: ['ignore', 'ignore', log],
    cwd: home,
    // A front may run inside a command job: the server it starts must not carry that job's mark, or it would end with it.
    env: { ...program.env, ERRAND_ATTEMPT: undefined },
  });
  closeSync(log);
  const attempt: Attempt = { child, exitCode: undefined, logPath, logStart };
  child.on('exit', (code) => (attempt.exitCode = code ?? 70));
  child.on('error', () => (attempt.exitCode = 70));
  child.unref();
  return attempt;
}

function startFailed({ logPath, logStart, exitCode }: Attempt): AppError {
  const said = readFileSync(logPath)
    .subarray(logStart)
    .toString('utf8')
    .trim()
    .split('\n')
    .slice(-6);
  return new AppError(
    'unavailable',
    `The server could not start (exit ${exitCode}): ${said.join(' ')}`,
    {
      hint: `Its log is ${logPath}; \`errand doctor\` looks for reasons.`,
    },
  );
}

async function healthOf(socketPath: string): Promise<Record<string, unknown> | undefined> {
  try {
    return await new Client({ socketPath }).health();
  } catch (error) {
    if (error instanceof AppError && error.code === 'unavailable') return undefined;
    throw error;
  }
}

async function stopIdle(socketPath: string): Promise<boolean> {
  try {
    const { output } = await new Client({ socketPath }).call<{ stopping: boolean }>('stop_server', {
      ifIdle: true,
    });
    return output.stopping;
  } catch {
    return false;
  }
}

function isOlder(version: string, than: string): boolean {
  const parts = (text: string) => text.split(/[.-]/).map((part) => Number(part) || 0);
  const [a, b] = [parts(version), parts(than)];
  for (let i = 0; i < 3; i++) if ((a[i] ?? 0) !== (b[i] ?? 0)) return (a[i] ?? 0) < (b[i] ?? 0);
  return false;
}
