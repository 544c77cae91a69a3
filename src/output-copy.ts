// The files that jobs have in a home, copied beside a backup of the database and back.
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

/** Where the files of a backup are: a folder beside it. */
export const outputFolder = (backup: string): string => `${backup}.files`;

/** `folders`: those of the kinds. The copy takes the place of an earlier one when it is whole. */
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

/** Undefined when the backup has none. */
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

/** Plain files only: the pipes and sockets of running jobs mean nothing elsewhere. What goes away meanwhile is left out. */
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
