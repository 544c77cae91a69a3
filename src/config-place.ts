// Where a home and its socket are, and the environment: the part of the configuration that the front and the command
// line need before anything else, kept free of heavy imports so that they start fast.
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { AppError } from './errors.ts';
import { setOwn } from './runtime/by-name.ts';
import type { LogLevel } from './runtime/log.ts';

type Env = Record<string, string | undefined>;

/** The one place that reads process.env. */
export const environment = (): Env => process.env;

export function homePlace(
  wish: string | undefined,
  env: Env,
): { home: string; socketPath: string } {
  const home = homeOf(wish, env);
  return { home, socketPath: socketOf(home, env) };
}

function homeOf(wish: string | undefined, env: Env): string {
  const named = wish ?? given(env.ERRAND_HOME);
  return named === undefined ? usualHome(env) : withoutLinks(resolve(named));
}

export interface ClientPlace {
  home: string;
  socketPath: string;
  /** Where the server of this home says it listens, and its process. */
  recorded?: { socketPath: string; pid: number };
}

/**
 * Where a client finds the server of a home: what that server recorded there comes first, because the environment of the
 * client (XDG_RUNTIME_DIR, TMPDIR) may be another one.
 */
export function clientPlace(wish: string | undefined, env: Env): ClientPlace {
  const home = homeOf(wish, env);
  const recorded = recordedSocket(home);
  return recorded
    ? { home, socketPath: recorded.socketPath, recorded }
    : { home, socketPath: socketOf(home, env) };
}

/** The server writes it once it listens, and removes it before it stops. */
export const socketRecord = (home: string): string => join(home, 'server.socket');

function recordedSocket(home: string): ClientPlace['recorded'] {
  try {
    const [socketPath, pid] = readFileSync(socketRecord(home), 'utf8').split('\n');
    return socketPath && Number(pid) > 0 ? { socketPath, pid: Number(pid) } : undefined;
  } catch {
    return undefined;
  }
}

/** Every folder in which a server of this user may have left its socket. */
export function socketFolders(env: Env): string[] {
  const bases = [given(env.XDG_RUNTIME_DIR), tmpdir(), '/tmp'];
  return bases.flatMap((base) => (base === undefined ? [] : [ownFolder(base)]));
}

/** The home where nobody names another one. */
export const usualHome = (env: Env): string => withoutLinks(resolve(defaultHome(env)));

/** One home by whatever way it is named: one socket, and file names as the kernel tells them. */
function withoutLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(withoutLinks(parent), basename(path));
  }
}

export function logLevelOf(value: string | undefined): LogLevel {
  return value === 'debug' || value === 'warn' || value === 'error' ? value : 'info';
}

function defaultHome(env: Env): string {
  if (process.platform === 'darwin')
    return join(homedir(), 'Library', 'Application Support', 'errand');
  return join(given(env.XDG_DATA_HOME) ?? join(homedir(), '.local', 'share'), 'errand');
}

/** A variable that is set to nothing is none: as a path it would be the folder we happen to stand in. */
const given = (value: string | undefined): string | undefined => value || undefined;

/** Short and private whatever the home is called: paths over about 100 bytes do not work for sockets. */
function socketOf(home: string, env: Env): string {
  const hash = createHash('sha256').update(home).digest('hex').slice(0, 16);
  const runtime = env.XDG_RUNTIME_DIR;
  const folder = runtime && runtime.length < 60 && existsSync(runtime) ? runtime : tmpdir();
  const base = folder.length < 60 ? folder : '/tmp';
  const own = ownFolder(base);
  refuseForeign(own);
  return join(own, `${hash}.sock`);
}

/** By number: a user of a container may have no name. */
const ownFolder = (base: string): string => join(base, `errand-${process.getuid?.() ?? 0}`);

/** In a folder that everybody may write to somebody else may have been there first, to listen in our place. */
function refuseForeign(folder: string): void {
  const there = lstatSync(folder, { throwIfNoEntry: false });
  if (!there || process.getuid === undefined) return;
  const mine = there.isDirectory() && there.uid === process.getuid();
  if (mine && (there.mode & 0o022) === 0) return;
  throw new AppError(
    'unavailable',
    `${folder} is not yours alone: the private socket is not safe.`,
    {
      hint: 'Remove that folder, or set XDG_RUNTIME_DIR to a folder of your own.',
    },
  );
}

/** The variables of a file that may hold secrets. */
export function readEnvFile(path: string): Record<string, string> {
  if (!existsSync(path)) return {};
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new AppError('unavailable', `${path} holds secrets, but others may read it.`, {
      hint: `chmod 600 ${path}`,
    });
  }
  const values: Record<string, string> = {};
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const match = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match) setOwn(values, match[1]!, match[2]!.replace(/^(['"])(.*)\1$/, '$2'));
  }
  return values;
}
