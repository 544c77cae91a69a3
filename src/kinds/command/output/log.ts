// Reads one log file by absolute byte offsets. Reads are bounded: at most one window is in memory, regardless of the file size.
import { statSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { cleanText, partialEnd, partialStart, type Line } from './text.ts';

export interface LogView {
  path: string;
  /** The complete content, if it is not in a file. */
  bytes?: Buffer;
  /** First byte that still exists (a ring drops the oldest output). */
  start: number;
  /** The job may still append, so an incomplete character at the end is left for the next read. */
  growing: boolean;
}

export class Log {
  readonly start: number;
  readonly size: number;
  readonly growing: boolean;
  private readonly file: FileHandle | undefined;
  private readonly held: Buffer | undefined;

  private constructor(file: FileHandle | undefined, size: number, view: LogView) {
    this.file = file;
    this.held = view.bytes;
    this.size = size;
    this.start = Math.min(view.start, size);
    this.growing = view.growing;
  }

  /** A job that has not started has an empty log. An empty file is not opened. */
  static async open(view: LogView): Promise<Log> {
    if (view.bytes) return new Log(undefined, view.bytes.length, view);
    const size = statSync(view.path, { throwIfNoEntry: false })?.size ?? 0;
    return new Log(size === 0 ? undefined : await open(view.path, 'r'), size, view);
  }

  /** `into`: reads into this buffer, up to its length, instead of a new one. */
  async bytes(from: number, to: number, into?: Buffer): Promise<Buffer> {
    const begin = Math.max(from, this.start);
    const end = Math.min(to, this.size, begin + (into?.length ?? Infinity));
    const length = Math.max(end - begin, 0);
    if (this.held) return this.held.subarray(begin, begin + length);
    if (!this.file || length === 0) return Buffer.alloc(0);
    const buffer = into ?? Buffer.allocUnsafe(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await this.file.read(buffer, done, length - done, begin + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return buffer.subarray(0, done);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file?.close();
  }
}

const newline = 10;

/** Splits a window that begins at `base` into lines. The last one may have no newline. */
export function splitLines(bytes: Buffer, base: number, clean: boolean): Line[] {
  const lines: Line[] = [];
  for (let at = 0; at < bytes.length;) {
    const found = bytes.indexOf(newline, at);
    const end = found < 0 ? bytes.length : found + 1;
    const text = bytes.toString('utf8', at, found < 0 ? end : found);
    lines.push({
      at: base + at,
      end: base + end,
      text: clean ? cleanText(text) : text,
      ended: found >= 0,
    });
    at = end;
  }
  return lines;
}

/** Cuts partial characters at both ends of a window. `base` moves with the start. */
export function wholeWindow(
  bytes: Buffer,
  base: number,
  ends: { start: boolean; end: boolean },
): { bytes: Buffer; base: number } {
  const skip = ends.start ? partialStart(bytes) : 0;
  const drop = ends.end ? partialEnd(bytes) : 0;
  return { bytes: bytes.subarray(skip, bytes.length - drop), base: base + skip };
}

interface LineWindow {
  bytes: Buffer;
  base: number;
  /** Where the next window begins. */
  next: number;
  /** The window begins within a line that filled the previous window. */
  continues: boolean;
}

/** Yields a range window by window. Each window ends with a line if possible; parts of a longer line overlap. */
export async function* scanLines(log: Log, from: number, to: number): AsyncGenerator<LineWindow> {
  let continues = false;
  for (let at = Math.max(from, log.start); at < Math.min(to, log.size);) {
    const bytes = await log.bytes(at, Math.min(at + scanWindowBytes, to));
    if (bytes.length === 0) return;
    const last = at + bytes.length >= Math.min(to, log.size);
    const cut = last ? bytes.length : bytes.lastIndexOf(newline) + 1;
    const next = at + (cut || bytes.length - overlapBytes);
    yield { bytes: cut === 0 ? bytes : bytes.subarray(0, cut), base: at, next, continues };
    continues = cut === 0;
    at = next;
  }
}

/** Longer than any search pattern. */
const overlapBytes = 8192;

const scanWindowBytes = 2 ** 20;
