// How an attempt ended, read from its folder: the wrapper's record, and why somebody of ours ended it. The reason is
// written before the first signal, so a crash between the two cannot turn a timeout into a plain failure.
import { existsSync, writeFileSync } from 'node:fs';
import { textOf, type LaunchFolder } from './folder.ts';

export type EndingReason = 'cancel' | 'timeout' | 'outputLimit' | 'totalOutputLimit' | 'lost';

export interface Ending {
  reason: EndingReason;
  at: number;
}

/** The first reason stays. */
export function noteEnding(folder: LaunchFolder, reason: EndingReason, at: number): void {
  try {
    writeFileSync(folder.ending, `${reason} ${at}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

export function readEnding(folder: LaunchFolder): Ending | undefined {
  if (!existsSync(folder.ending)) return undefined;
  const match = /^(\w+) (\d+)/.exec(textOf(folder.ending) ?? '');
  return match ? { reason: match[1] as EndingReason, at: Number(match[2]) } : undefined;
}
