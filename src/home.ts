// The home folder: private, locked by one server at a time, with the files that the first start creates.
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { socketRecord } from './config-place.ts';
import { AppError } from './errors.ts';
import { randomId } from './runtime/id.ts';
import { createFolder, rejectShared } from './runtime/folder.ts';
import { lockFile, acquireLock } from './runtime/home-lock.ts';
import { shellQuote } from './runtime/shell.ts';

export interface Home {
  path: string;
  ownerKey: string;
  /** Private files whose mode this start corrected. */
  repaired: string[];
  /** The file with that key. */
  ownerKeyFile: string;
  /** The identity of this server. It survives restarts. */
  node: string;
  /** Secrets for signatures are derived from it and never stored. */
  secret: Buffer;
  folder(name: string): string;
  /** False if the folder was removed or replaced while it was in use. */
  isThere(): boolean;
  release(): void;
}

/** Network file systems (NFS, SMB, CIFS, 9P) on which SQLite's locks are not reliable. */
const networkFileSystems = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x564c]);

export function openHome(path: string): Home {
  prepare(path);
  const lock = lockHome(path);
  const locked = lockNumber(path);
  return {
    path,
    repaired: closeToOthers(path),
    ownerKey: once(join(path, 'owner.key'), () => randomId('errand_', 40)),
    ownerKeyFile: join(path, 'owner.key'),
    node: once(join(path, 'node.id'), () => randomId('node_', 12)),
    secret: Buffer.from(
      once(join(path, 'secret'), () => randomBytes(32).toString('hex')),
      'hex',
    ),
    folder: (name) => {
      const folder = join(path, name);
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      return folder;
    },
    isThere: () => lockNumber(path) === locked,
    release: () => lock.release(),
  };
}

/** All nodes of a cluster share one owner key. The home keeps its own key for later use without the cluster. */
export function clusterHome(home: Home, shared: { secret: Buffer; ownerKey: string }): Home {
  const file = clusterKeyFile(home.path);
  if (!existsSync(file) || readFileSync(file, 'utf8').trim() !== shared.ownerKey)
    write(file, shared.ownerKey);
  return { ...home, ...shared, ownerKeyFile: file };
}

/**
 * Prevents a former cluster node from starting with its own database by accident. `meant`: the operator asked for it
 * explicitly.
 */
export function standAlone(path: string, meant: boolean): void {
  const file = clusterKeyFile(path);
  if (meant) {
    for (const one of [file, clusterMarkOf(path)]) rmSync(one, { force: true });
    return;
  }
  if (!existsSync(file)) return;
  throw new AppError(
    'unavailable',
    `The home ${path} is a cluster node, but no store is configured.`,
    {
      hint: `Set ERRAND_STORE (or add it to ${join(path, 'env')}). To use the home without the cluster: \`errand serve --store sqlite\`.`,
    },
  );
}

/** The file that records which cluster ledger the home used. */
export const clusterMarkOf = (home: string): string => join(home, 'cluster-ledger.id');

const clusterKeyFile = (path: string): string => join(path, 'cluster-owner.key');

/** Stores the secret of a copied store: its rows are signed and encrypted with it. */
export function inheritSecret(path: string, secret: Buffer): void {
  write(join(path, 'secret'), secret.toString('hex'));
}

function prepare(path: string): void {
  rejectShared(path);
  try {
    createFolder(path);
    chmodSync(path, 0o700);
    const probe = join(path, '.writable');
    writeFileSync(probe, '', { mode: 0o600 });
    rmSync(probe);
  } catch (error) {
    throw new AppError(
      'unavailable',
      `The home ${path} is not writable: ${(error as Error).message}.`,
      {
        hint: 'Choose another home with ERRAND_HOME, or make this one writable.',
        cause: error,
      },
    );
  }
  if (process.platform === 'linux' && networkFileSystems.has(statfsSync(path).type)) {
    throw new AppError(
      'unavailable',
      `The home ${path} is on a network file system, where locks are not reliable.`,
      {
        hint: 'Choose a local folder with ERRAND_HOME; for several machines use a PostgreSQL store.',
      },
    );
  }
}

function lockHome(path: string): { release(): void } {
  const lock = acquireLock(path);
  if ('release' in lock) {
    // Of a server that was killed: clients must not take it for ours.
    rmSync(socketRecord(path), { force: true });
    return lock;
  }
  throw new AppError('conflict', `Another server has the home ${path} open${holder(path)}.`, {
    hint: 'Use that one (`errand list` finds it by itself), stop it, or choose another home with ERRAND_HOME.',
    cause: lock.heldError,
  });
}

const lockNumber = (path: string): number | undefined =>
  statSync(lockFile(path), { throwIfNoEntry: false })?.ino;

function holder(path: string): string {
  try {
    return ` (process ${readFileSync(join(path, 'server.pid'), 'utf8').trim()})`;
  } catch {
    return '';
  }
}

/** Written whole or not at all: a kill in the middle never leaves half a key. */
function write(file: string, text: string): void {
  writeFileSync(`${file}.new`, `${text}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** Files whose content is a secret, or leads to one. */
export const privateFiles = [
  'owner.key',
  'cluster-owner.key',
  'secret',
  'env',
  'errand.sqlite',
  'server.log',
];

/** A folder with mode 0700 protects them now; a copy or a backup of the home with these modes would not. */
function closeToOthers(home: string): string[] {
  const open = privateFiles
    .map((name) => join(home, name))
    .filter((file) => ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0);
  for (const file of open) {
    try {
      chmodSync(file, 0o600);
    } catch (error) {
      throw new AppError(
        'unavailable',
        `${file} is open to other users, and its mode cannot be changed: ${(error as Error).message}.`,
        {
          hint: `Make it yours alone: \`chown $(id -u) ${shellQuote(file)}; chmod 600 ${shellQuote(file)}\`.`,
          cause: error,
        },
      );
    }
  }
  return open;
}

function once(file: string, make: () => string): string {
  if (!existsSync(file)) write(file, make());
  return readFileSync(file, 'utf8').trim();
}
