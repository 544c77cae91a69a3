// Limits of running attempts, used by the server and, while there is none, by the guard: which attempts are over
// their time or their bytes, and the ring that gives the oldest part of a log back to the disk.
import { execFile } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { EndingReason } from './ending.ts';
import { LaunchFolder, textOf } from './folder.ts';
import type { Registered } from './registry.ts';

export interface OverLimit {
  entry: Registered;
  reason: EndingReason;
}

/** Bytes both streams have on record (not on disk: a ring has holes). */
export function outputBytes(folder: LaunchFolder): number {
  return sizeOf(folder.out) + sizeOf(folder.err);
}

/** The same without what a ring gave back: this is what counts against all jobs together. */
export function keptBytes(folder: LaunchFolder): number {
  return outputBytes(folder) - droppedBytes(folder);
}

export function overLimit(
  entry: Registered,
  now: number,
  gaps: Gap[],
  /** When a server last was there. */
  aliveAt = now,
): OverLimit | undefined {
  const folder = new LaunchFolder(entry.folder);
  if (entry.aloneMsMax !== null && now - aliveAt > entry.aloneMsMax)
    return { entry, reason: 'lost' };
  if (entry.deadlineAt !== null && now >= entry.deadlineAt + asleepMs(gaps, entry.registeredAt))
    return { entry, reason: 'timeout' };
  if (entry.outputBytesMax === null || entry.ring) return undefined;
  return outputBytes(folder) > entry.outputBytesMax ? { entry, reason: 'outputLimit' } : undefined;
}

/** Half of a ring is dropped at once: one call per half ring, not per write. */
export async function turnRing(folder: LaunchFolder, bytesMax: number): Promise<number> {
  const size = sizeOf(folder.out);
  const dropped = droppedBytes(folder);
  if (size - dropped <= bytesMax) return dropped;
  const block = 4096;
  const until = Math.floor((size - bytesMax / 2) / block) * block;
  if (until <= dropped) return dropped;
  // Written first: a reader that believes the note never reads a hole as text.
  writeFileSync(folder.dropped, `${until}\n`, { mode: 0o600 });
  const hole = ['-p', '-o', '0', '-l', String(until), folder.out];
  await promisify(execFile)('fallocate', hole);
  return until;
}

export function droppedBytes(folder: LaunchFolder): number {
  // Nearly always there is none: asked first, because a read that fails costs ten times as much.
  return existsSync(folder.dropped) ? Number(textOf(folder.dropped) ?? 0) || 0 : 0;
}

export interface Gap {
  at: number;
  ms: number;
}

/** Times the machine slept, as the guard noticed them. */
export function readGaps(commandsFolder: string): Gap[] {
  const text = textOf(join(commandsFolder, 'gaps')) ?? '';
  return text.split('\n').flatMap((line) => {
    const [at, seconds] = line.split(' ').map(Number);
    return at && seconds ? { at: at * 1000, ms: seconds * 1000 } : [];
  });
}

export function asleepMs(gaps: readonly Gap[], since: number): number {
  return gaps.reduce((sum, gap) => (gap.at >= since ? sum + gap.ms : sum), 0);
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
