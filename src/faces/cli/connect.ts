// Finds the server of a home, or starts one: exactly one, also when ten clients start concurrently (the home's lock
// decides, the losers end and everybody polls the same socket). While a process has the home, no other one is started.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '../../errors.ts';
import { makeFolder, refuseShared } from '../../runtime/folder.ts';
import { Client } from './client.ts';
import type { Place, Program } from './program.ts';

const startMsMax = 30_000;
const pollMs = 40;
/** A server that is stopped or stuck accepts connections and does not answer. */
const answerMsMax = 10_000;
/** Between the end of one server and the start of the next, the record may be the old one for a moment. */
const failuresMax = 3;
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
  return 'health' in (await ask(socketPath)) ? socketPath : undefined;
}

/** The socket of a running server of this home. */
export async function connectServer(program: Program, home?: string): Promise<string> {
  refuseWindows(program);
  const place = () => program.place(home === undefined ? {} : { home });
  const { socketPath } = place();
  const found = await ask(socketPath);
  const isCurrent = 'health' in found && !isOlder(String(found.health.version), program.version);
  // A newer program replaces a server that has nothing to do; a busy one goes on, and newer calls still work.
  if (isCurrent || ('health' in found && !(await stopIdle(socketPath)))) return socketPath;
  const deadline = program.clock.now() + startMsMax;
  let attempt: Attempt | undefined;
  let failures = 0;
  while (program.clock.now() < deadline) {
    const at = place();
    const answer = await ask(at.socketPath);
    if ('health' in answer) return at.socketPath;
    if (await program.isServed(at.home)) {
      // Without a record that server is starting or stopping.
      failures = at.recorded ? failures + 1 : 0;
      if (failures >= failuresMax) throw unreachableServer(at, answer.reason);
    } else {
      failures = 0;
      if (attempt?.exitCode !== undefined && attempt.exitCode !== takenExit)
        throw startFailed(attempt);
      if (!attempt || attempt.exitCode === takenExit) attempt = startServer(program, at.home);
    }
    await program.clock.sleep(pollMs);
  }
  throw new AppError('unavailable', `The server did not answer within ${startMsMax / 1000} s.`, {
    hint: `Its log is ${join(place().home, 'server.log')}; \`errand doctor\` looks for reasons.`,
  });
}

/** What to say when the home is in use, but the socket its server recorded cannot be reached. */
export function unreachableServer({ recorded, socketPath }: Place, reason: string): AppError {
  const pid = recorded?.pid ?? 0;
  return new AppError(
    'unavailable',
    `The server of this home runs (pid ${pid}) but its socket ${socketPath} is unreachable from here: ${reason}.`,
    {
      hint: `A sandbox, a container or another user may hide that folder. Run the command where the server was started, or stop the server (\`kill ${pid}\`) and try again.`,
    },
  );
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

/** The server's health, or why it could not be asked. */
async function ask(
  socketPath: string,
): Promise<{ health: Record<string, unknown> } | { reason: string }> {
  try {
    return { health: await new Client({ socketPath }).health(AbortSignal.timeout(answerMsMax)) };
  } catch (error) {
    if ((error as Error).name === 'AbortError') return { reason: 'no answer' };
    if (!(error instanceof AppError) || error.code !== 'unavailable') throw error;
    return { reason: (error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.message };
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
