// How an attempt ended, read from its folder: the wrapper's record, and why somebody of ours ended it. The reason is
// written before the first signal, so a crash between the two cannot turn a timeout into a plain failure.
import { statSync, writeFileSync } from 'node:fs';
import { textOf, type LaunchFolder } from './folder.ts';

export type EndingReason = 'cancel' | 'timeout' | 'outputLimit' | 'totalOutputLimit' | 'lost';

export interface Ending {
  reason: EndingReason;
  /** Time of the file, by the same clock as that of the exit record: files may be milliseconds behind ours. */
  at: number;
}

/** The first reason stays. */
export function noteEnding(folder: LaunchFolder, reason: EndingReason): void {
  try {
    writeFileSync(folder.ending, `${reason}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Before a SIGINT is sent that is not to end the job for good. */
export function noteInterrupt(folder: LaunchFolder): void {
  writeFileSync(folder.interrupted, '', { mode: 0o600 });
}

export function readEnding(folder: LaunchFolder): Ending | undefined {
  const stat = statSync(folder.ending, { throwIfNoEntry: false });
  const reason = stat && /^\w+/.exec(textOf(folder.ending) ?? '')?.[0];
  return reason ? { reason: reason as EndingReason, at: stat.mtimeMs } : undefined;
}
