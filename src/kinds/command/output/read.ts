// Reading a log within a byte budget: the end, both ends, a span, what came after a cursor. Stateless: a cursor is
// a byte offset. Every answer says where it begins and ends and what was left out.
import { cleanText, partialEscape, shortened, type Line } from './clean.ts';
import { fold } from './fold.ts';
import { scanLines, splitLines, wholeWindow, type Log } from './log.ts';

export interface ReadOptions {
  /** Bytes of text in the answer, at most. */
  bytesMax: number;
  /** As it was written, without cleaning and folding. */
  raw: boolean;
}

export interface Reading {
  text: string;
  /** First byte shown, and the byte after the last one shown: the cursor to go on from. */
  from: number;
  next: number;
}

/** A single line takes at most this much of an answer, unless raw. */
const lineBytesMax = 1200;
/** Cleaning shrinks: so much raw output is looked at to fill one answer. */
const windowBytesMax = 2 ** 20;
/** The beginning of a line is looked for this far back. */
const lineSearchBytesMax = 64 * 2 ** 20;
/** So many short lines folded to a few say enough: looking at more would hold up others. */
const linesMax = 10_000;
/** Of `head_tail`, the beginning gets this share: the end is where failures are. */
const headShare = 0.2;
/** Room for the remark between head and tail. */
const gapBytes = 100;

/** The end of the log (or of the part before `to`). */
export async function readTail(
  log: Log,
  options: ReadOptions,
  before = log.size,
): Promise<Reading> {
  const to = Math.max(Math.min(before, log.size), log.start);
  if (options.raw) return readRaw(log, log.start, to, 'end', options.bytesMax);
  for (let span = Math.max(options.bytesMax, 4096) * 2; ; span *= 4) {
    const from = Math.max(to - Math.min(span, windowBytesMax), log.start);
    const { lines, many } = linesOf(await log.bytes(from, to), from, log);
    // Only the first line can be cut: without it the rest is whole.
    const cut = from > log.start ? lines.shift() : undefined;
    const taken = takeFromEnd(lines, options);
    const last = from === log.start || span >= windowBytesMax || many;
    if (taken.length < lines.length) return reading(taken, to);
    if (last && cut && (isLong(cut) || lines.length === 0))
      return reading(takeFromEnd([await wholeLine(log, cut), ...lines], options), to);
    if (last) return reading(taken, to);
  }
}

/** A line longer than the window: its true beginning, how much is missing, its end. One that rewrote itself is its last state. */
async function wholeLine(log: Log, cut: Line): Promise<Line> {
  const at = await lineStart(log, cut.at);
  if (!isLong(cut)) return { ...cut, at };
  const headBytes = Math.min(lineBytesMax, cut.at - at);
  const ends = { start: false, end: true };
  const head = wholeWindow(await log.bytes(at, at + headBytes), at, ends).bytes;
  const text = cleanText(head.toString()) + cut.text;
  return { ...cut, at, text, hiddenBytes: cut.at - at - head.length };
}

const isLong = ({ text }: Line): boolean => Buffer.byteLength(text) > lineBytesMax;

/** Where the line begins that contains this byte, as far as it is worth looking. */
async function lineStart(log: Log, at: number): Promise<number> {
  const limit = Math.max(log.start, at - lineSearchBytesMax);
  for (let end = at; end > limit; end -= windowBytesMax) {
    const from = Math.max(end - windowBytesMax, limit);
    const found = (await log.bytes(from, end)).lastIndexOf(10);
    if (found >= 0) return from + found + 1;
  }
  return limit;
}

/** From a byte on, at most up to `to`, as much as the budget holds. */
export async function readForward(
  log: Log,
  from: number,
  options: ReadOptions,
  to = log.size,
): Promise<Reading> {
  const begin = Math.min(Math.max(from, log.start), log.size);
  if (options.raw) return readRaw(log, begin, Math.min(to, log.size), 'start', options.bytesMax);
  for (let span = options.bytesMax; ; span *= 4) {
    const window = await log.bytes(begin, Math.min(begin + Math.min(span, windowBytesMax), to));
    const whole = begin + window.length >= Math.min(to, log.size);
    const { lines, many } = linesOf(window, begin, log);
    if (!whole && lines.length > 1) lines.pop();
    const taken = takeFromStart(lines, options);
    const complete = whole || span >= windowBytesMax || many || taken.length < lines.length;
    if (complete) return reading(taken, begin);
  }
}

export interface BothEnds {
  head: Reading;
  /** Undefined when the head was already everything. */
  tail: Reading | undefined;
}

export async function readBothEnds(log: Log, options: ReadOptions): Promise<BothEnds> {
  const all = await readForward(log, log.start, options);
  if (all.next >= log.size) return { head: all, tail: undefined };
  const room = options.bytesMax - gapBytes;
  const headMax = Math.floor(room * headShare);
  const head = await readForward(log, log.start, { ...options, bytesMax: headMax });
  const tail = await readTail(log, { ...options, bytesMax: room - headMax });
  if (tail.from >= head.next) return { head, tail };
  const left = options.bytesMax - Buffer.byteLength(head.text);
  return { head, tail: await readForward(log, head.next, { ...options, bytesMax: left }) };
}

/** Where a line (from 1) begins; the size when there are fewer. */
export async function offsetOfLine(log: Log, line: number): Promise<number> {
  let left = line - 1;
  if (left <= 0) return log.start;
  for await (const { bytes, base } of scanLines(log, log.start, log.size)) {
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1))
      if (--left === 0) return base + at + 1;
  }
  return log.size;
}

function linesOf(bytes: Buffer, base: number, log: Log): { lines: Line[]; many: boolean } {
  const atEnd = base + bytes.length >= log.size;
  const end = !atEnd || log.growing;
  const window = wholeWindow(bytes, base, { start: base > 0, end });
  const whole = window.bytes.length - (end ? partialEscape(window.bytes) : 0);
  const lines = splitLines(window.bytes.subarray(0, whole), window.base, true);
  return { lines: fold(lines), many: lines.length > linesMax };
}

function takeFromEnd(lines: readonly Line[], options: ReadOptions): Line[] {
  const taken: Line[] = [];
  let room = options.bytesMax;
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = fitted(lines[i]!, options);
    room -= Buffer.byteLength(line.text) + 1;
    if (room < 0 && taken.length > 0) break;
    taken.unshift(line);
  }
  return taken;
}

function takeFromStart(lines: readonly Line[], options: ReadOptions): Line[] {
  const taken: Line[] = [];
  let room = options.bytesMax;
  for (const original of lines) {
    const line = fitted(original, options);
    room -= Buffer.byteLength(line.text) + 1;
    if (room < 0 && taken.length > 0) break;
    taken.push(line);
  }
  return taken;
}

function fitted(line: Line, options: ReadOptions): Line {
  const bytesMax = Math.min(lineBytesMax, options.bytesMax - 1);
  return { ...line, text: shortened(line.text, bytesMax, line.hiddenBytes) };
}

/** Raw is a span of bytes as they are. Bytes that are no UTF-8 take three in an answer: then the span is shorter. */
async function readRaw(log: Log, from: number, to: number, keep: 'start' | 'end', max: number) {
  for (let span = max; ; span = Math.floor(span / 2)) {
    const begin = keep === 'start' ? from : Math.max(to - span, from);
    const end = keep === 'start' ? Math.min(from + span, to) : to;
    const atEnd = end >= log.size && !log.growing;
    const ends = { start: begin > log.start, end: !atEnd };
    const { bytes, base } = wholeWindow(await log.bytes(begin, end), begin, ends);
    const text = bytes.toString();
    if (Buffer.byteLength(text) <= max || span <= 4)
      return { text, from: base, next: base + bytes.length };
  }
}

function reading(lines: readonly Line[], empty: number): Reading {
  const text = lines.map((line) => (line.ended ? `${line.text}\n` : line.text)).join('');
  return { text, from: lines[0]?.at ?? empty, next: lines.at(-1)?.end ?? empty };
}
