// Lists the running attempts in one file for the guard, which enforces their limits while no server runs.
// A line is appended before its payload starts. The line of an ended attempt remains until the file is rewritten: creating
// and deleting a file per attempt waits for the disk journal, and the guard checks each process anyway.
// The format is read by sh and by guards of earlier versions, so it must stay compatible. Fields are separated by blanks:
// deadline (epoch seconds, 0 = none), bytes (0 = none), mode, registration time (epoch seconds), attempt id, folder.
// Mode is `cap` or `ring`. Prefix `left-`: processes that an ended attempt left running. Suffix `+n`: end the attempt after n
// seconds without a server.
import { appendFileSync, closeSync, mkdirSync, openSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf } from './folder.ts';

export interface Registered {
  attemptId: string;
  folder: string;
  /** Wall-clock time. Suspends extend it (see `gaps`). */
  deadlineAt: number | null;
  maxOutputBytes: number | null;
  ring: boolean;
  /** The attempt ended but left processes running that may still print. */
  isOrphaned: boolean;
  /** After this time without a server, another node may run the job. */
  maxAloneMs: number | null;
  registeredAt: number;
}

/** How many lines of ended attempts may accumulate before the file is rewritten. */
const maxEndedLines = 1000;

export class Registry {
  private readonly path: string;
  /** Current lines, including lines of an earlier server until their attempts are known to have ended. */
  private readonly lines: Map<string, string>;
  private written: number;
  private file: number | undefined;

  constructor(commandsFolder: string) {
    mkdirSync(commandsFolder, { recursive: true, mode: 0o700 });
    this.path = join(commandsFolder, 'running.list');
    const text = textOf(this.path) ?? '';
    const lines = text.split('\n').slice(0, -1);
    this.lines = new Map(lines.map((line) => [line.split(' ')[4] ?? '', line]));
    this.written = lines.length;
  }

  add(entry: Registered): void {
    const line = toLine(entry);
    this.lines.set(entry.attemptId, line);
    this.file ??= openSync(this.path, 'a', 0o600);
    appendFileSync(this.file, `${line}\n`);
    this.written += 1;
  }

  remove(attemptId: string): void {
    this.lines.delete(attemptId);
    if (this.written - this.lines.size > maxEndedLines) this.rewrite();
  }

  /** Removes all other entries. A server that has adopted everything knows every running attempt. */
  keepOnly(isRunning: (attemptId: string) => boolean): void {
    for (const attemptId of this.lines.keys()) {
      if (!isRunning(attemptId)) this.lines.delete(attemptId);
    }
    if (this.written > this.lines.size) this.rewrite();
  }

  list(): Registered[] {
    return [...this.lines.values()].flatMap((line) => parseLine(line) ?? []);
  }

  close(): void {
    if (this.file !== undefined) closeSync(this.file);
    this.file = undefined;
  }

  private rewrite(): void {
    this.close();
    const lines = [...this.lines.values()].map((line) => `${line}\n`);
    writeFileSync(`${this.path}.new`, lines.join(''), { mode: 0o600 });
    renameSync(`${this.path}.new`, this.path);
    this.written = lines.length;
  }
}

function toLine(entry: Registered): string {
  const seconds = (ms: number | null) => (ms === null ? 0 : Math.ceil(ms / 1000));
  const alone = entry.maxAloneMs === null ? '' : `+${seconds(entry.maxAloneMs)}`;
  return [
    seconds(entry.deadlineAt),
    entry.maxOutputBytes ?? 0,
    (entry.isOrphaned ? 'left-' : '') + (entry.ring ? 'ring' : 'cap') + alone,
    seconds(entry.registeredAt),
    entry.attemptId,
    entry.folder,
  ].join(' ');
}

function parseLine(line: string): Registered | undefined {
  const match = /^(\d+) (\d+) (left-)?(cap|ring)(?:\+(\d+))? (\d+) (\S+) (.+)$/.exec(line);
  if (!match) return undefined;
  const [, deadline, bytes, left, mode, alone, registered, attemptId, folder] = match;
  return {
    attemptId: attemptId!,
    folder: folder!,
    deadlineAt: Number(deadline) ? Number(deadline) * 1000 : null,
    maxOutputBytes: Number(bytes) || null,
    ring: mode === 'ring',
    isOrphaned: left !== undefined,
    maxAloneMs: alone === undefined ? null : Number(alone) * 1000,
    registeredAt: Number(registered) * 1000,
  };
}
