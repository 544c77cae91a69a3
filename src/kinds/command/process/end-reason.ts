// Records in the attempt folder why the server or the guard ended an attempt. The reason is written before the first
// signal, so a crash between the two cannot turn a timeout into a plain failure.
import { statSync, writeFileSync } from 'node:fs';
import { textOf, type LaunchFolder } from './folder.ts';

export type EndReason = 'cancel' | 'timeout' | 'outputLimit' | 'totalOutputLimit' | 'lost';

export interface EndNote {
  reason: EndReason;
  /** File time, from the same clock as the exit record: file times may lag milliseconds behind the system clock. */
  at: number;
}

/** Keeps an existing reason. */
export function writeEndReason(folder: LaunchFolder, reason: EndReason): void {
  try {
    writeFileSync(folder.endReason, `${reason}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Called before sending a SIGINT that does not end the job. */
export function markInterrupted(folder: LaunchFolder): void {
  writeFileSync(folder.interrupted, '', { mode: 0o600 });
}

export function readEndNote(folder: LaunchFolder): EndNote | undefined {
  const stat = statSync(folder.endReason, { throwIfNoEntry: false });
  const reason = stat && /^\w+/.exec(textOf(folder.endReason) ?? '')?.[0];
  return reason ? { reason: reason as EndReason, at: stat.mtimeMs } : undefined;
}
