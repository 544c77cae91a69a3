// The open input of a running command: a named pipe that a holder process keeps open until its end is wanted.
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import type { Clock } from '../../../runtime/clock.ts';
import { textOf, type LaunchFolder } from './folder.ts';
import { signalProcess, startOf, type Identity } from './identity.ts';
import { identityOf, treeMembers, type ProcessRow } from './tree.ts';

const fullMsMax = 5000;
const stepMs = 50;

/** Never blocks the server: a pipe that is full is tried again for a while, then the rest is left. */
export async function writeInput(
  folder: LaunchFolder,
  bytes: Buffer,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ sent: number; ended: boolean }> {
  let sent = 0;
  // The wrapper still has the pipe open: it would take what nobody reads.
  if (hasEnded(folder)) return { sent, ended: true };
  for (let waited = 0; sent < bytes.length && waited < fullMsMax && !signal.aborted;) {
    const taken = tryWrite(folder.stdin, bytes.subarray(sent));
    sent += taken;
    if (taken > 0) continue;
    await clock.sleep(stepMs, signal);
    waited += stepMs;
  }
  return { sent, ended: false };
}

function tryWrite(path: string, bytes: Buffer): number {
  let fd: number;
  try {
    fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENXIO' || code === 'ENOENT') return 0;
    throw error;
  }
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EAGAIN') return 0;
    if (code === 'EPIPE') return 0;
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** The pipe ends when the last writer goes: that is the wrapper's holder. It comes a moment after the claim. */
export async function endInput(folder: LaunchFolder, mark: string, clock: Clock): Promise<void> {
  for (let waited = 0; holderOf(folder) === undefined && waited < fullMsMax; waited += stepMs)
    await clock.sleep(stepMs);
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return;
  // A number may be somebody else's by now: only a process of this job is its holder.
  const { identity: wrapper } = claim;
  const members = await treeMembers({ wrapper, mark });
  const holder = members.find((row) => isHolder(row, folder, wrapper));
  // A shell that has just forked still has the wrapper's traps: it would swallow any signal that can be caught.
  if (holder) signalProcess(identityOf(holder, wrapper.bootId), 'SIGKILL');
}

/** Whether a process of the job is the one that only keeps its input open. */
export const isHolder = (
  { pid, pgid }: ProcessRow,
  folder: LaunchFolder,
  wrapper: Identity,
): boolean => pid === holderOf(folder) && pgid === wrapper.pid;

/** It had a holder, and has none any more. A terminal never had one. */
function hasEnded(folder: LaunchFolder): boolean {
  const holder = holderOf(folder);
  return holder !== undefined && startOf(holder) === undefined;
}

function holderOf(folder: LaunchFolder): number | undefined {
  return Number(/^\d+(?=\n)/.exec(textOf(folder.holder) ?? '')?.[0] ?? 0) || undefined;
}
