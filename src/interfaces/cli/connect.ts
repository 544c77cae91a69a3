// Finds the server of a home or starts one. Exactly one server starts even when ten clients connect concurrently: the home
// lock decides, the others exit, and all clients poll the same socket.
import type { ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '../../errors.ts';
import { createFolder, rejectShared } from '../../runtime/folder.ts';
import { childProcess } from '../../runtime/packages.ts';
import { Client } from './client.ts';
import type { Place, Program } from './program.ts';
import type { stopServer } from '../../contracts/server.ts';

const maxStartMs = 30_000;
const pollMs = 40;
/** A server that is suspended or stuck accepts connections and does not respond. */
const maxResponseMs = 10_000;
/** After this the command prints what it is waiting for. */
const slowMs = 1000;
/** Between two servers, the recorded socket may briefly be that of the old one. */
const maxFailures = 3;
/** Exit code of a server that found the home in use: another server is starting. */
const homeInUseExitCode = 5;

/** A local server needs POSIX processes and sockets. Remote servers (ERRAND_URL) work on every platform. */
export function refuseWindows({ platform }: Program): void {
  if (platform !== 'win32') return;
  throw new AppError('unsupported', 'Errand does not run on Windows yet.', {
    hint: 'Run it in WSL, or use a server in WSL or on another machine with ERRAND_URL and ERRAND_KEY.',
  });
}

export async function findServer(program: Program, home?: string): Promise<string | undefined> {
  const { socketPath } = program.place(home === undefined ? {} : { home });
  return 'health' in (await checkHealth(socketPath)) ? socketPath : undefined;
}

/** Returns the socket of the server of this home; starts the server if necessary. */
export async function connectServer(program: Program, home?: string): Promise<string> {
  refuseWindows(program);
  const place = () => program.place(home === undefined ? {} : { home });
  const first = place();
  const { socketPath } = first;
  const found = await withSlowNotice(program, slowNotice(first), () => checkHealth(socketPath));
  if ('reason' in found && found.reason === noResponse && (await program.isServed(first.home)))
    throw unresponsiveServer(first);
  const isCurrent = 'health' in found && !isOlder(String(found.health.version), program.version);
  // A newer program replaces an idle server. A busy server continues; calls of newer programs still work.
  if (isCurrent || ('health' in found && !(await stopIdle(socketPath)))) return socketPath;
  const deadline = program.clock.now() + maxStartMs;
  let attempt: Attempt | undefined;
  let failures = 0;
  while (program.clock.now() < deadline) {
    const at = place();
    const response = await checkHealth(at.socketPath);
    if ('health' in response) return at.socketPath;
    if (await program.isServed(at.home)) {
      // A server without a recorded socket is starting or stopping.
      failures = at.recorded ? failures + 1 : 0;
      if (failures >= maxFailures) throw unreachableServer(at, response.reason);
    } else {
      failures = 0;
      if (attempt?.exitCode !== undefined && attempt.exitCode !== homeInUseExitCode)
        throw startError(attempt);
      if (!attempt || attempt.exitCode === homeInUseExitCode)
        attempt = startServer(program, at.home);
    }
    await program.clock.sleep(pollMs);
  }
  throw new AppError('unavailable', `The server did not respond within ${maxStartMs / 1000} s.`, {
    hint: `See its log ${join(place().home, 'server.log')}, or run \`errand doctor\`.`,
  });
}

const noResponse = 'no response';

const serverName = ({ recorded }: Place) =>
  recorded ? `The server of this home (pid ${recorded.pid})` : 'The server of this home';

const slowNotice = (place: Place) =>
  `${serverName(place)} has not responded yet; waiting up to ${maxResponseMs / 1000} s …\n`;

/** Prints `text` to stderr if the work takes longer than `slowMs`. */
async function withSlowNotice<T>(
  program: Program,
  text: string,
  work: () => Promise<T>,
): Promise<T> {
  const cancel = program.clock.after(slowMs, () => program.stderr.write(text));
  try {
    return await work();
  } finally {
    cancel();
  }
}

function unresponsiveServer(place: Place): AppError {
  const pid = place.recorded?.pid ?? 'PID';
  return new AppError(
    'unavailable',
    `${serverName(place)} is running but did not respond within ${maxResponseMs / 1000} s.`,
    {
      hint: `It may be suspended (\`kill -CONT ${pid}\` resumes it) or the machine may be overloaded. If it does not recover, end it with \`kill -9 ${pid}\`: jobs keep running, and the next command starts a new server.`,
    },
  );
}

/** The error for a home that is in use but whose recorded socket is unreachable. */
export function unreachableServer({ recorded, socketPath }: Place, reason: string): AppError {
  const pid = recorded?.pid ?? 0;
  return new AppError(
    'unavailable',
    `The server of this home is running (pid ${pid}), but its socket ${socketPath} is unreachable from here: ${reason}.`,
    {
      hint: `A sandbox, a container or another user account may hide that folder. Run the command where the server was started, or stop the server (\`kill ${pid}\`) and try again.`,
    },
  );
}

interface Attempt {
  child: ChildProcess;
  exitCode: number | undefined;
  logPath: string;
  logStart: number;
}

/**
 * With its defaults, glibc keeps freed memory of the start in several arenas and never returns it. A server lives long
 * and is mostly idle.
 */
const smallHeap = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_TRIM_THRESHOLD_: '65536',
  MALLOC_MMAP_THRESHOLD_: '65536',
};

/** glibc reads them when the process starts. Jobs must not inherit them. */
export function removeHeapVariables(env: Program['env']): void {
  for (const [name, value] of Object.entries(smallHeap)) if (env[name] === value) delete env[name];
}

function startServer(program: Program, home: string): Attempt {
  rejectShared(home);
  const logPath = join(home, 'server.log');
  let log: number;
  try {
    createFolder(home);
    log = openSync(logPath, 'a', 0o600);
  } catch (error) {
    throw new AppError(
      'unavailable',
      `The home ${home} is not writable: ${(error as Error).message}.`,
      {
        hint: 'Set ERRAND_HOME to another folder, or make this one writable.',
        cause: error,
      },
    );
  }
  const logStart = fstatSync(log).size;
  const child = childProcess().spawn(
    process.execPath,
    [program.binPath, 'serve', '--auto', '--home', home],
    {
      detached: true,
      stdio: ['ignore', 'ignore', log],
      cwd: home,
      // A client may run inside a command job. Without this the server would inherit the job's marker and be killed with it.
      env: { ...smallHeap, ...program.env, ERRAND_ATTEMPT: undefined },
    },
  );
  closeSync(log);
  const attempt: Attempt = { child, exitCode: undefined, logPath, logStart };
  child.on('exit', (code) => (attempt.exitCode = code ?? 70));
  child.on('error', () => (attempt.exitCode = 70));
  child.unref();
  return attempt;
}

function startError({ logPath, logStart, exitCode }: Attempt): AppError {
  const lastLines = readFileSync(logPath)
    .subarray(logStart)
    .toString('utf8')
    .trim()
    .split('\n')
    .slice(-6);
  return new AppError(
    'unavailable',
    `The server could not start (exit ${exitCode}): ${lastLines.join(' ')}`,
    {
      hint: `See its log ${logPath}, or run \`errand doctor\`.`,
    },
  );
}

/** Returns the health of the server, or why the request failed. */
async function checkHealth(
  socketPath: string,
): Promise<{ health: Record<string, unknown> } | { reason: string }> {
  try {
    return { health: await new Client({ socketPath }).health(AbortSignal.timeout(maxResponseMs)) };
  } catch (error) {
    if ((error as Error).name === 'AbortError') return { reason: noResponse };
    if (!(error instanceof AppError) || error.code !== 'unavailable') throw error;
    return { reason: (error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.message };
  }
}

async function stopIdle(socketPath: string): Promise<boolean> {
  try {
    const { output } = await new Client({ socketPath }).call<typeof stopServer>('stop_server', {
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
