// Reads and replaces config files of other programs without damaging them: backup, write and rename, symbolic links
// followed, concurrent writers detected.
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { AppError } from '../errors.ts';

const maxConfigBytes = 32 * 1024 * 1024;
const maxBackups = 5;
/** A temporary file of this age was left by a process that was killed. */
const maxWriteMs = 30_000;
const bom = '\ufeff';

export interface ConfigFile {
  path: string;
  /** The file behind symbolic links. */
  realPath: string;
  exists: boolean;
  /** Without the byte order mark. */
  text: string;
  hasBom: boolean;
  bytes: Buffer;
  mode: number;
}

export function readConfigFile(path: string): ConfigFile {
  const link = statOf(path);
  if (!link) {
    return {
      path,
      realPath: path,
      exists: false,
      text: '',
      hasBom: false,
      bytes: Buffer.alloc(0),
      mode: 0o600,
    };
  }
  try {
    const realPath = realpathSync(path);
    const stats = statSync(realPath);
    if (!stats.isFile()) throw unusable(path, 'is not a regular file');
    if (stats.size > maxConfigBytes) throw unusable(path, 'is larger than 32 MiB');
    const bytes = readFileSync(realPath);
    const decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const hasBom = decoded.startsWith(bom);
    const text = hasBom ? decoded.slice(1) : decoded;
    return { path, realPath, exists: true, text, hasBom, bytes, mode: stats.mode & 0o7777 };
  } catch (error) {
    throw readError(path, error);
  }
}

function statOf(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    throw readError(path, error);
  }
}

const unusable = (path: string, what: string, hint?: string): AppError =>
  new AppError('unavailable', `${path} ${what}.`, {
    hint: hint ?? 'Correct this and run the command again. The file was not changed.',
  });

function readError(path: string, error: unknown): AppError {
  if (error instanceof AppError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ELOOP') return unusable(path, 'is a symbolic link that leads back to itself');
  if (code === 'ENOENT') return unusable(path, 'is a symbolic link to a file that does not exist');
  if (code === 'EACCES' || code === 'EPERM') return unusable(path, 'is not readable');
  if (code === 'ENOTDIR') return unusable(path, 'cannot exist, because a parent is not a folder');
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return unusable(path, 'is not valid UTF-8');
  return unusable(path, `cannot be read: ${message}`);
}

export const bytesOf = ({ hasBom }: Pick<ConfigFile, 'hasBom'>, text: string): Buffer =>
  Buffer.from((hasBom ? bom : '') + text);

/** Thrown when another program changed the file after it was read. */
export class FileChanged extends Error {}

/**
 * Replaces the file as a whole. Returns the path of the backup. Without `bytes` the file is deleted.
 * Throws FileChanged, with the file untouched, if it is no longer what was read.
 */
export function replaceConfigFile(
  file: ConfigFile,
  bytes: Buffer | undefined,
  { now, backup }: { now: number; backup: boolean },
): string | undefined {
  const { realPath, mode } = file;
  if (file.exists && (mode & 0o200) === 0)
    throw unusable(file.path, 'is read-only', `To allow the change: chmod u+w ${file.path}`);
  try {
    if (!file.exists) mkdirSync(dirname(realPath), { recursive: true, mode: 0o700 });
    if (bytes === undefined) {
      rejectChanged(file);
      rmSync(realPath);
      return undefined;
    }
    return replace(file, bytes, { now, backup });
  } catch (error) {
    if (error instanceof AppError || error instanceof FileChanged) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const why =
      code === 'EACCES' || code === 'EPERM' || code === 'EROFS'
        ? 'is not writable'
        : `cannot be written: ${message}`;
    throw unusable(file.path, why);
  }
}

function replace(
  file: ConfigFile,
  bytes: Buffer,
  { now, backup }: { now: number; backup: boolean },
) {
  const { realPath, mode } = file;
  const next = `${realPath}.errand-new`;
  writeNew(next, bytes, { mode, now });
  try {
    copyOwner(realPath, next);
    const saved = backup && file.exists ? saveBackup(file, now) : undefined;
    rejectChanged(file);
    renameSync(next, realPath);
    return saved;
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  }
}

/** The temporary file also keeps a second Errand from writing at the same time. */
function writeNew(path: string, bytes: Buffer, { mode, now }: { mode: number; now: number }): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && now - found.mtimeMs > maxWriteMs) rmSync(path, { force: true });
  let file: number;
  try {
    file = openSync(path, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw new FileChanged(path);
    throw error;
  }
  try {
    writeSync(file, bytes);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  chmodSync(path, mode);
}

function copyOwner(from: string, to: string): void {
  const old = statSync(from, { throwIfNoEntry: false });
  const own = statSync(to);
  if (old && (old.uid !== own.uid || old.gid !== own.gid)) chownSync(to, old.uid, old.gid);
}

function rejectChanged({ realPath, exists, bytes }: ConfigFile): void {
  const current = lstatSync(realPath, { throwIfNoEntry: false })
    ? readFileSync(realPath)
    : undefined;
  const isSame = exists ? current?.equals(bytes) === true : current === undefined;
  if (!isSame) throw new FileChanged(realPath);
}

const backupPrefix = (realPath: string): string => `${basename(realPath)}.errand-backup-`;

export function saveBackup({ realPath, bytes, mode }: ConfigFile, now: number): string {
  const stamp = new Date(now).toISOString().replaceAll(/[-:]/g, '').replace('.', '');
  const path = join(dirname(realPath), backupPrefix(realPath) + stamp);
  writeFileSync(path, bytes, { mode: mode & 0o700 });
  for (const old of backupsOf(realPath).slice(maxBackups)) rmSync(old, { force: true });
  return path;
}

/** Backups of a file, newest first. */
export function backupsOf(realPath: string): string[] {
  const folder = dirname(realPath);
  const prefix = backupPrefix(realPath);
  try {
    const names = readdirSync(folder).filter((name) => name.startsWith(prefix));
    return names
      .toSorted()
      .toReversed()
      .map((name) => join(folder, name));
  } catch {
    return [];
  }
}
