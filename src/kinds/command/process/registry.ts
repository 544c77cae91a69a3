// The attempts that run now, one line each in one file, for the guard: it enforces their limits while no server does.
// A line is appended before its payload starts. The line of an attempt that ended stays until the file is written anew:
// making and removing a file per attempt waits for the disk's journal, and the guard asks each process anyway.
// Format: words separated by blanks, read by sh: deadline (epoch seconds, 0 = none), bytes (0 = none),
// mode (cap or ring; left- before it: of what an ended attempt left running; +n: to be ended after n seconds without a server), registered (epoch seconds), then the attempt's id and the folder.
import { appendFileSync, closeSync, mkdirSync, openSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf } from './folder.ts';

export interface Registered {
  attemptId: string;
  folder: string;
  /** Wall time; a suspend moves it (see `gaps`). */
  deadlineAt: number | null;
  outputBytesMax: number | null;
  ring: boolean;
  /** The attempt is over, but left something running that prints. */
  left: boolean;
  /** Without a server for longer, another node may run it. */
  aloneMsMax: number | null;
  registeredAt: number;
}

/** So many lines of ended attempts are let stand. */
const endedMax = 1000;

export class Registry {
  private readonly path: string;
  /** The lines that count, those of an earlier server too until they are known to be over. */
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
    const line = lineOf(entry);
    this.lines.set(entry.attemptId, line);
    this.file ??= openSync(this.path, 'a', 0o600);
    appendFileSync(this.file, `${line}\n`);
    this.written += 1;
  }

  remove(attemptId: string): void {
    this.lines.delete(attemptId);
    if (this.written - this.lines.size > endedMax) this.rewrite();
  }

  /** Forgets what is none of these: a server that has adopted everything knows all that runs. */
  keepOnly(isRunning: (attemptId: string) => boolean): void {
    for (const attemptId of this.lines.keys()) {
      if (!isRunning(attemptId)) this.lines.delete(attemptId);
    }
    if (this.written > this.lines.size) this.rewrite();
  }

  list(): Registered[] {
    return [...this.lines.values()].flatMap((line) => entryOf(line) ?? []);
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

function lineOf(entry: Registered): string {
  const seconds = (ms: number | null) => (ms === null ? 0 : Math.ceil(ms / 1000));
  const alone = entry.aloneMsMax === null ? '' : `+${seconds(entry.aloneMsMax)}`;
  return [
    seconds(entry.deadlineAt),
    entry.outputBytesMax ?? 0,
    (entry.left ? 'left-' : '') + (entry.ring ? 'ring' : 'cap') + alone,
    seconds(entry.registeredAt),
    entry.attemptId,
    entry.folder,
  ].join(' ');
}

function entryOf(line: string): Registered | undefined {
  const match = /^(\d+) (\d+) (left-)?(cap|ring)(?:\+(\d+))? (\d+) (\S+) (.+)$/.exec(line);
  if (!match) return undefined;
  const [, deadline, bytes, left, mode, alone, registered, attemptId, folder] = match;
  return {
    attemptId: attemptId!,
    folder: folder!,
    deadlineAt: Number(deadline) ? Number(deadline) * 1000 : null,
    outputBytesMax: Number(bytes) || null,
    ring: mode === 'ring',
    left: left !== undefined,
    aloneMsMax: alone === undefined ? null : Number(alone) * 1000,
    registeredAt: Number(registered) * 1000,
  };
}
