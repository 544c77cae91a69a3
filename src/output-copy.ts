// Copies job files next to a database backup, and back.
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';

export interface CopiedFiles {
  files: number;
  bytes: number;
}

/** The folder with a backup's job files. */
const outputFolder = (backup: string): string => `${backup}.files`;

/** Copies the kinds' folders. The copy replaces an earlier one only when it is complete. */
export function saveOutput(home: string, backup: string, folders: readonly string[]): CopiedFiles {
  const target = outputFolder(backup);
  const next = `${target}.part`;
  rmSync(next, { recursive: true, force: true });
  mkdirSync(next, { recursive: true, mode: 0o700 });
  const copied = copyFolders(home, next, folders);
  rmSync(target, { recursive: true, force: true });
  renameSync(next, target);
  return copied;
}

/** Undefined if the backup has no job files. */
export function restoreOutput(
  backup: string,
  home: string,
  folders: readonly string[],
): CopiedFiles | undefined {
  const source = outputFolder(backup);
  return existsSync(source) ? copyFolders(source, home, folders) : undefined;
}

function copyFolders(from: string, to: string, folders: readonly string[]): CopiedFiles {
  const copied = { files: 0, bytes: 0 };
  for (const folder of folders) copyInto(join(from, folder), join(to, folder), copied);
  return copied;
}

/** Copies regular files only, not pipes and sockets of running jobs. Files that disappear meanwhile are skipped. */
function copyInto(from: string, to: string, copied: CopiedFiles): void {
  const stat = lstatSync(from, { throwIfNoEntry: false });
  if (stat?.isDirectory()) {
    mkdirSync(to, { recursive: true, mode: 0o700 });
    for (const name of namesIn(from)) copyInto(join(from, name), join(to, name), copied);
  } else if (stat?.isFile()) {
    try {
      copyFileSync(from, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
      throw error;
    }
    copied.files += 1;
    copied.bytes += stat.size;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
