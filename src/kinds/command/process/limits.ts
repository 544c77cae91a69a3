// Limits of running attempts, used by the server and, while there is none, by the guard: which attempts exceed their time
// or output limit, and the ring that frees the oldest part of a log.
import { execFile } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { EndReason } from './end-reason.ts';
import { LaunchFolder, textOf } from './folder.ts';
import type { Registered } from './registry.ts';

interface OverLimit {
  entry: Registered;
  reason: EndReason;
}

/** Logical size of both streams. Disk usage may be smaller, because a ring punches holes. */
export function outputBytes(folder: LaunchFolder): number {
  return sizeOf(folder.out) + sizeOf(folder.err);
}

/** Output size without the part that a ring dropped. This counts against the total limit. */
export function keptBytes(folder: LaunchFolder): number {
  return outputBytes(folder) - droppedBytes(folder);
}

export function overLimit(
  entry: Registered,
  now: number,
  gaps: Gap[],
  /** When a server last ran. */
  aliveAt = now,
): OverLimit | undefined {
  const folder = new LaunchFolder(entry.folder);
  if (entry.maxAloneMs !== null && now - aliveAt > entry.maxAloneMs)
    return { entry, reason: 'lost' };
  if (entry.deadlineAt !== null && now >= entry.deadlineAt + asleepMs(gaps, entry.registeredAt))
    return { entry, reason: 'timeout' };
  if (entry.maxOutputBytes === null || entry.ring) return undefined;
  return outputBytes(folder) > entry.maxOutputBytes ? { entry, reason: 'outputLimit' } : undefined;
}

/** Drops half of the ring in one call instead of a little per write. */
export async function trimRing(folder: LaunchFolder, maxBytes: number): Promise<number> {
  const size = sizeOf(folder.out);
  const dropped = droppedBytes(folder);
  if (size - dropped <= maxBytes) return dropped;
  const block = 4096;
  const until = Math.floor((size - maxBytes / 2) / block) * block;
  if (until <= dropped) return dropped;
  // Written first, so that a reader never reads a hole as text.
  writeFileSync(folder.dropped, `${until}\n`, { mode: 0o600 });
  const hole = ['-p', '-o', '0', '-l', String(until), folder.out];
  await promisify(execFile)('fallocate', hole);
  return until;
}

export function droppedBytes(folder: LaunchFolder): number {
  // The file rarely exists, and a failing read costs ten times as much as this check.
  return existsSync(folder.dropped) ? Number(textOf(folder.dropped) ?? 0) || 0 : 0;
}

interface Gap {
  at: number;
  ms: number;
}

/** Periods in which the machine slept, as recorded by the guard. */
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
