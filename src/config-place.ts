// Locates the home and its socket, and reads the environment. The bridge and the command line need this part of the
// configuration first, so it has no heavy imports.
import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { AppError } from './errors.ts';
import { setOwn } from './runtime/by-name.ts';
import type { LogLevel } from './runtime/log.ts';
import { nodeCrypto } from './runtime/packages.ts';

type Env = Record<string, string | undefined>;

/** The only code that reads process.env. */
export const environment = (): Env => process.env;

export function homePlace(
  requested: string | undefined,
  env: Env,
): { home: string; socketPath: string } {
  const home = resolveHome(requested, env);
  return { home, socketPath: socketPathFor(home, env) };
}

function resolveHome(requested: string | undefined, env: Env): string {
  const named = requested ?? nonEmpty(env.ERRAND_HOME);
  return named === undefined ? defaultHome(env) : resolveLinks(resolve(named));
}

export interface ClientPlace {
  home: string;
  socketPath: string;
  /** The socket, process id and URL that the server of this home recorded. */
  recorded?: { socketPath: string; pid: number; url?: string };
}

/**
 * Locates the server of a home for a client. The socket that the server recorded takes precedence, because the environment
 * of the client (XDG_RUNTIME_DIR, TMPDIR) may differ.
 */
export function clientPlace(requested: string | undefined, env: Env): ClientPlace {
  const home = resolveHome(requested, env);
  const recorded = recordedSocket(home);
  return recorded
    ? { home, socketPath: recorded.socketPath, recorded }
    : { home, socketPath: socketPathFor(home, env) };
}

/** The server writes this file when it listens, and removes it before it stops. */
export const socketRecord = (home: string): string => join(home, 'server.socket');

function recordedSocket(home: string): ClientPlace['recorded'] {
  try {
    const [socketPath, pid, url] = readFileSync(socketRecord(home), 'utf8').split('\n');
    return socketPath && Number(pid) > 0
      ? { socketPath, pid: Number(pid), ...(url ? { url } : {}) }
      : undefined;
  } catch {
    return undefined;
  }
}

/** All folders that may contain sockets of this user's servers. */
export function socketFolders(env: Env): string[] {
  const bases = [nonEmpty(env.XDG_RUNTIME_DIR), tmpdir(), '/tmp'];
  return bases.flatMap((base) => (base === undefined ? [] : [userFolder(base)]));
}

/** The home that is used when no other one is named. */
export const defaultHome = (env: Env): string => resolveLinks(resolve(platformHome(env)));

/** Resolves symbolic links, so that every path to a home leads to the same socket. */
function resolveLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(resolveLinks(parent), basename(path));
  }
}

export function logLevelOf(value: string | undefined): LogLevel {
  return value === 'debug' || value === 'warn' || value === 'error' ? value : 'info';
}

function platformHome(env: Env): string {
  if (process.platform === 'darwin')
    return join(homedir(), 'Library', 'Application Support', 'errand');
  return join(nonEmpty(env.XDG_DATA_HOME) ?? join(homedir(), '.local', 'share'), 'errand');
}

/** Treats an empty variable as unset: as a path it would mean the current directory. */
const nonEmpty = (value: string | undefined): string | undefined => value || undefined;

/** Returns a short, private socket path for any home: socket paths are limited to about 100 bytes. */
function socketPathFor(home: string, env: Env): string {
  const hash = nodeCrypto().createHash('sha256').update(home).digest('hex').slice(0, 16);
  const runtime = env.XDG_RUNTIME_DIR;
  const folder = runtime && runtime.length < 60 && existsSync(runtime) ? runtime : tmpdir();
  const base = folder.length < 60 ? folder : '/tmp';
  const own = userFolder(base);
  rejectForeignFolder(own);
  return join(own, `${hash}.sock`);
}

/** Uses the numeric user id, because a user in a container may have no name. */
const userFolder = (base: string): string => join(base, `errand-${process.getuid?.() ?? 0}`);

/** In a shared folder, another user may have created our folder first, to impersonate the server. */
function rejectForeignFolder(folder: string): void {
  const stats = lstatSync(folder, { throwIfNoEntry: false });
  if (!stats || process.getuid === undefined) return;
  const isOwn = stats.isDirectory() && stats.uid === process.getuid();
  if (isOwn && (stats.mode & 0o022) === 0) return;
  throw new AppError(
    'unavailable',
    `${folder} belongs to or is writable by other users, so a private socket in it is not safe.`,
    {
      hint: 'Remove that folder, or set XDG_RUNTIME_DIR to a folder that only you can write to.',
    },
  );
}

/** Reads variables from a file that may contain secrets. */
export function readEnvFile(path: string): Record<string, string> {
  if (!existsSync(path)) return {};
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new AppError(
      'unavailable',
      `${path} may contain secrets, but other users can access it.`,
      {
        hint: `Run \`chmod 600 ${path}\`.`,
      },
    );
  }
  const values: Record<string, string> = {};
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const match = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match) setOwn(values, match[1]!, match[2]!.replace(/^(['"])(.*)\1$/, '$2'));
  }
  return values;
}
