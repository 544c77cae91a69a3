// Reads a log within a byte budget: the end, both ends, a range, or everything after a cursor. Stateless: a cursor is a byte
// offset. Every result reports where it begins and ends.
import { nextTurn, type Clock } from '../../../runtime/clock.ts';
import { cleanText, partialEscape, shorten, type Line } from './text.ts';
import { fold } from './fold.ts';
import { scanLines, splitLines, wholeWindow, type Log } from './log.ts';

export interface ReadOptions {
  /** Maximum bytes of text in the result. */
  maxBytes: number;
  /** As printed, without cleaning and folding. */
  raw: boolean;
}

export interface Reading {
  text: string;
  /** Offset of the first byte shown, and of the byte after the last one: the cursor to continue from. */
  from: number;
  next: number;
}

/** Maximum bytes of a single line in a result, unless raw. */
const maxLineBytes = 1200;
/** Cleaning shrinks output, so up to this much raw output is read to fill one result. */
const maxWindowBytes = 2 ** 20;
/** How far back the beginning of a line is searched. */
const maxLineSearchBytes = 64 * 2 ** 20;
/** This many short lines, folded to a few, are enough. Reading more would delay other requests. */
const maxLines = 10_000;
/** Longest time to count the lines before a position. */
const maxCountMs = 4000;
/** Share of the beginning in `head_tail`. Failures are usually at the end. */
const headShare = 0.2;
/** Bytes reserved for the remark between head and tail. */
const gapBytes = 100;

/** Reads the end of the log, or of the part before `before`. */
export async function readTail(
  log: Log,
  options: ReadOptions,
  before = log.size,
): Promise<Reading> {
  const to = Math.max(Math.min(before, log.size), log.start);
  if (options.raw) return readRaw(log, { from: log.start, to }, 'end', options.maxBytes);
  for (let span = Math.max(options.maxBytes, 4096) * 2; ; span *= 4) {
    const from = Math.max(to - Math.min(span, maxWindowBytes), log.start);
    const { lines, hasManyLines } = linesOf(await log.bytes(from, to), from, log);
    // Only the first line can be incomplete. The lines after it are whole.
    const cut = from > log.start ? lines.shift() : undefined;
    const selected = takeFromEnd(lines, options);
    const last = from === log.start || span >= maxWindowBytes || hasManyLines;
    if (selected.length < lines.length) return toReading(selected, to);
    if (last && cut && (isLong(cut) || lines.length === 0))
      return toReading(takeFromEnd([await wholeLine(log, cut), ...lines], options), to);
    if (last) return toReading(selected, to);
  }
}

/** Loads the real beginning and the end of a line longer than the window. A line that rewrote itself becomes its last state. */
async function wholeLine(log: Log, cut: Line): Promise<Line> {
  const at = await lineStart(log, cut.at);
  if (!isLong(cut)) return { ...cut, at };
  const headBytes = Math.min(maxLineBytes, cut.at - at);
  const ends = { start: false, end: true };
  const head = wholeWindow(await log.bytes(at, at + headBytes), at, ends).bytes;
  const text = cleanText(head.toString()) + cut.text;
  return { ...cut, at, text, hiddenBytes: cut.at - at - head.length };
}

const isLong = ({ text }: Line): boolean => Buffer.byteLength(text) > maxLineBytes;

/** Finds the start of the line that contains this byte, within the search limit. */
async function lineStart(log: Log, at: number): Promise<number> {
  const limit = Math.max(log.start, at - maxLineSearchBytes);
  for (let end = at; end > limit; end -= maxWindowBytes) {
    const from = Math.max(end - maxWindowBytes, limit);
    const found = (await log.bytes(from, end)).lastIndexOf(10);
    if (found >= 0) return from + found + 1;
  }
  return limit;
}

/** Reads from a byte offset, at most up to `to`, as much as fits into the budget. */
export async function readForward(
  log: Log,
  from: number,
  options: ReadOptions,
  to = log.size,
): Promise<Reading> {
  const begin = Math.min(Math.max(from, log.start), log.size);
  if (options.raw)
    return readRaw(log, { from: begin, to: Math.min(to, log.size) }, 'start', options.maxBytes);
  for (let span = options.maxBytes; ; span *= 4) {
    const window = await log.bytes(begin, Math.min(begin + Math.min(span, maxWindowBytes), to));
    const whole = begin + window.length >= Math.min(to, log.size);
    const { lines, hasManyLines } = linesOf(window, begin, log);
    if (!whole && lines.length > 1) lines.pop();
    const selected = takeFromStart(lines, options);
    const complete =
      whole || span >= maxWindowBytes || hasManyLines || selected.length < lines.length;
    if (complete) return toReading(selected, begin);
  }
}

interface BothEnds {
  head: Reading;
  /** Undefined if the head is already everything. */
  tail: Reading | undefined;
}

export async function readBothEnds(log: Log, options: ReadOptions): Promise<BothEnds> {
  const all = await readForward(log, log.start, options);
  if (all.next >= log.size) return { head: all, tail: undefined };
  const room = options.maxBytes - gapBytes;
  const maxHead = Math.floor(room * headShare);
  const head = await readForward(log, log.start, { ...options, maxBytes: maxHead });
  const tail = await readTail(log, { ...options, maxBytes: room - maxHead });
  if (tail.from >= head.next) return { head, tail };
  const left = options.maxBytes - Buffer.byteLength(head.text);
  return { head, tail: await readForward(log, head.next, { ...options, maxBytes: left }) };
}

/** Offset at which a line (from 1) begins. Returns the size if there are fewer lines. */
export async function offsetOfLine(log: Log, line: number): Promise<number> {
  let left = line - 1;
  if (left <= 0) return log.start;
  for await (const { bytes, base } of scanLines(log, log.start, log.size)) {
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1))
      if (--left === 0) return base + at + 1;
  }
  return log.size;
}

/** Number of the line (from 1) that contains this byte. Undefined if its beginning was dropped or counting takes too long. */
export async function lineAt(log: Log, at: number, clock: Clock): Promise<number | undefined> {
  if (log.start > 0) return undefined;
  const started = clock.now();
  let line = 1;
  for (let from = 0; from < at; from += maxWindowBytes) {
    const bytes = await log.bytes(from, Math.min(from + maxWindowBytes, at));
    for (let found = bytes.indexOf(10); found >= 0; found = bytes.indexOf(10, found + 1)) line++;
    if (clock.now() - started > maxCountMs) return undefined;
    await nextTurn();
  }
  return line;
}

function linesOf(bytes: Buffer, base: number, log: Log): { lines: Line[]; hasManyLines: boolean } {
  const atEnd = base + bytes.length >= log.size;
  const end = !atEnd || log.growing;
  const window = wholeWindow(bytes, base, { start: base > 0, end });
  const whole = window.bytes.length - (end ? partialEscape(window.bytes) : 0);
  const lines = splitLines(window.bytes.subarray(0, whole), window.base, true);
  return { lines: fold(lines), hasManyLines: lines.length > maxLines };
}

function takeFromEnd(lines: readonly Line[], options: ReadOptions): Line[] {
  const selected: Line[] = [];
  let room = options.maxBytes;
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = fit(lines[i]!, options);
    room -= Buffer.byteLength(line.text) + 1;
    if (room < 0 && selected.length > 0) break;
    selected.unshift(line);
  }
  return selected;
}

function takeFromStart(lines: readonly Line[], options: ReadOptions): Line[] {
  const selected: Line[] = [];
  let room = options.maxBytes;
  for (const original of lines) {
    const line = fit(original, options);
    room -= Buffer.byteLength(line.text) + 1;
    if (room < 0 && selected.length > 0) break;
    selected.push(line);
  }
  return selected;
}

function fit(line: Line, options: ReadOptions): Line {
  const maxBytes = Math.min(maxLineBytes, options.maxBytes - 1);
  return { ...line, text: shorten(line.text, maxBytes, line.hiddenBytes) };
}

/** Returns a range of bytes unchanged. Invalid UTF-8 expands to three bytes per byte, which makes the range shorter. */
async function readRaw(
  log: Log,
  { from, to }: { from: number; to: number },
  keep: 'start' | 'end',
  max: number,
) {
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

function toReading(lines: readonly Line[], empty: number): Reading {
  const text = lines.map((line) => (line.ended ? `${line.text}\n` : line.text)).join('');
  return { text, from: lines[0]?.at ?? empty, next: lines.at(-1)?.end ?? empty };
}
