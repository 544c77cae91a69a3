// The open input of a running command: a named pipe that a holder process keeps open until the input should end.
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import type { Clock } from '../../../runtime/clock.ts';
import { textOf, type LaunchFolder } from './folder.ts';
import { signalProcess, startOf, type Identity } from '../../../runtime/process-identity.ts';
import { identityOf, treeMembers, type ProcessRow } from './tree.ts';

const maxFullMs = 5000;
const stepMs = 50;

/** Never blocks the server: a full pipe is retried for a while, then the rest is not sent. */
export async function writeInput(
  folder: LaunchFolder,
  bytes: Buffer,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ sent: number; ended: boolean }> {
  let sent = 0;
  // The wrapper still has the pipe open, so it would accept input that nothing reads.
  if (hasEnded(folder)) return { sent, ended: true };
  for (let waited = 0; sent < bytes.length && waited < maxFullMs && !signal.aborted;) {
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

/** The pipe ends when its last writer exits, which is the wrapper's holder process. It starts shortly after the claim. */
export async function endInput(folder: LaunchFolder, mark: string, clock: Clock): Promise<void> {
  for (let waited = 0; holderOf(folder) === undefined && waited < maxFullMs; waited += stepMs)
    await clock.sleep(stepMs);
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return;
  // The pid may have been reused: only a process of this job can be its holder.
  const { identity: wrapper } = claim;
  const members = await treeMembers({ wrapper, mark });
  const holder = members.find((row) => isHolder(row, folder, wrapper));
  // A shell that has just forked still has the wrapper's traps and would swallow any signal that can be caught.
  if (holder) signalProcess(identityOf(holder, wrapper.bootId), 'SIGKILL');
}

/** True for the process that only keeps the job's input open. */
export const isHolder = (
  { pid, pgid }: ProcessRow,
  folder: LaunchFolder,
  wrapper: Identity,
): boolean => pid === holderOf(folder) && pgid === wrapper.pid;

/** True if the holder process existed and has exited. A terminal never has one. */
function hasEnded(folder: LaunchFolder): boolean {
  const holder = holderOf(folder);
  return holder !== undefined && startOf(holder) === undefined;
}

function holderOf(folder: LaunchFolder): number | undefined {
  return Number(/^\d+(?=\n)/.exec(textOf(folder.holder) ?? '')?.[0] ?? 0) || undefined;
}
