// Installs the skill of this package into the skill folders of agent clients, and removes it.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { AppError } from '../errors.ts';
import type { Target } from './find.ts';
import { entryName, type UserPlace } from './table.ts';

export interface SkillChange {
  state: 'add' | 'update' | 'remove' | 'unchanged';
  folder: string;
}

/** Undefined if the client has no folder for skills. */
export function skillFolder(place: UserPlace, { client, scope }: Target): string | undefined {
  const parent =
    scope === 'user'
      ? client.skillFolder?.(place)
      : client.projectSkillFolder && join(place.cwd, client.projectSkillFolder);
  return parent === undefined ? undefined : join(parent, entryName);
}

export function planSkill(source: string, folder: string, action: 'add' | 'remove'): SkillChange {
  const isThere = existsSync(folder);
  if (action === 'remove') return { folder, state: isThere ? 'remove' : 'unchanged' };
  if (!isThere) return { folder, state: 'add' };
  return { folder, state: isEqual(source, folder) ? 'unchanged' : 'update' };
}

export function applySkill(source: string, { folder, state }: SkillChange): void {
  try {
    if (state === 'unchanged') return;
    // Only files that the skill has are written or removed: the user may have added others.
    for (const name of readdirSync(source))
      rmSync(join(folder, name), { force: true, recursive: true });
    if (state !== 'remove') {
      mkdirSync(dirname(folder), { recursive: true });
      cpSync(source, folder, { recursive: true });
    } else if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true });
  } catch (error) {
    throw new AppError('unavailable', `${folder} cannot be written: ${(error as Error).message}.`, {
      hint: 'Correct this and run the command again.',
    });
  }
}

const isEqual = (source: string, folder: string): boolean =>
  readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(source, join(parentPath, name)))
    .every((name) => {
      const path = join(folder, name);
      return existsSync(path) && readFileSync(path).equals(readFileSync(join(source, name)));
    });
