// Searches lines in a log of any size: plain text by default, an RE2 expression on request (linear time, so a pattern
// cannot block the server). A scan has a time limit and returns the cursor to continue from.
import type { RE2JS } from 're2js';
import { AppError } from '../../../errors.ts';
import { nextTurn, type Clock } from '../../../runtime/clock.ts';
import { re2js } from '../../../runtime/packages.ts';
import { shortenAround, type Line } from './text.ts';
import { scanLines, splitLines, type Log } from './log.ts';

export interface GrepOptions {
  pattern: string;
  regex: boolean;
  ignoreCase: boolean;
  /** Lines before and after each match. */
  context: number;
  countOnly: boolean;
  from: number;
  maxBytes: number;
  raw: boolean;
}

interface GrepResult {
  text: string;
  /** Matches in the scanned part. */
  matches: number;
  shown: number;
  /** End of the scanned part. Less than the size if time or space ran out. */
  next: number;
  complete: boolean;
}

/** Maximum duration of one scan. The rest needs another call. */
const maxScanMs = 4000;
/** Maximum shown bytes per line, and never more than half of the response. The line's offset precedes it. */
const maxLineBytes = (maxBytes: number): number => Math.min(600, Math.floor(maxBytes / 2));

export async function grep(log: Log, options: GrepOptions, clock: Clock): Promise<GrepResult> {
  const matches = matcher(options);
  const started = clock.now();
  const page = new Page(options, matches);
  let next = Math.max(options.from, log.start);
  /** Whether the line that began in a previous window was already counted. */
  let counted = false;
  for await (const window of scanLines(log, options.from, log.size)) {
    const { bytes, base, continues } = window;
    counted &&= continues;
    if (!matches.possible(bytes)) {
      page.skip();
    } else {
      for (const line of splitLines(bytes, base, !options.raw)) {
        const part = continues && line.at === base;
        const match = !(part && counted) && matches.test(line.text);
        if (part && !match) continue;
        if (!page.add(line, match)) return page.result(line.at, false);
        counted ||= match;
      }
    }
    next = window.next;
    if (clock.now() - started > maxScanMs && next < log.size) return page.result(next, false);
    await nextTurn();
  }
  return page.result(Math.max(next, Math.min(options.from, log.size)), true);
}

interface LineMatcher {
  /** A quick check of a whole window: false means that no line in it can match. */
  possible(bytes: Buffer): boolean;
  test(text: string): boolean;
  /** Position of the match in a text that contains one. */
  place(text: string): number;
}

function matcher({ pattern, regex, ignoreCase }: GrepOptions): LineMatcher {
  if (regex) {
    const compiled = compile(pattern, ignoreCase);
    const place = (text: string) => {
      const found = compiled.matcher(text);
      return found.find() ? found.start() : 0;
    };
    return { possible: () => true, test: (text) => compiled.test(text), place };
  }
  if (ignoreCase) {
    const wanted = pattern.toLowerCase();
    const place = (text: string) => text.toLowerCase().indexOf(wanted);
    return { possible: () => true, test: (text) => place(text) >= 0, place };
  }
  const wanted = Buffer.from(pattern);
  return {
    // Escape codes and NULs (UTF-16) may be inside what a person sees as one word. Then every line is checked after cleaning.
    possible: (bytes) =>
      bytes.includes(wanted) || [0x1b, 0x08, 0x00].some((byte) => bytes.includes(byte)),
    test: (text) => text.includes(pattern),
    place: (text) => text.indexOf(pattern),
  };
}

function compile(pattern: string, ignoreCase: boolean): RE2JS {
  try {
    const { RE2JS } = re2js();
    return RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'not understood';
    throw new AppError('invalidInput', `The pattern is not a valid RE2 expression: ${why}.`, {
      hint: 'RE2 does not support look-around and back references. Omit `regex` to search for plain text.',
      cause,
    });
  }
}

/** Collects matches with their context until the byte budget is used up. */
class Page {
  private readonly options: GrepOptions;
  private readonly matcher: LineMatcher;
  private readonly parts: string[] = [];
  private before: Line[] = [];
  private after = 0;
  private room: number;
  private lastEnd = -1;
  private matches = 0;
  private shown = 0;

  constructor(options: GrepOptions, lineMatcher: LineMatcher) {
    this.options = options;
    this.matcher = lineMatcher;
    this.room = options.maxBytes;
  }

  /** Returns false if the match does not fit: the next call begins there. */
  add(line: Line, match: boolean): boolean {
    if (match) {
      if (!this.options.countOnly && !this.show(line)) return false;
      this.matches++;
      return true;
    }
    if (this.after > 0) {
      this.after--;
      if (this.put(line, '-')) return true;
    }
    if (this.options.context > 0) {
      this.before.push(line);
      if (this.before.length > this.options.context) this.before.shift();
    }
    return true;
  }

  skip(): void {
    this.before = [];
    this.after = 0;
  }

  result(next: number, complete: boolean): GrepResult {
    const { matches, shown } = this;
    return { text: this.parts.join('\n'), matches, shown, next, complete };
  }

  private show(line: Line): boolean {
    const match = this.textOf(line, ':');
    const gapBytes = this.options.context > 0 ? 3 : 0;
    let left = this.room - Buffer.byteLength(match) - 1 - gapBytes;
    if (left < 0 && this.shown > 0) return false;
    // The match comes first. The nearest lines before it use the remaining space.
    const context: string[] = [];
    let first = line;
    for (const near of this.before.toReversed()) {
      const text = this.textOf(near, '-');
      left -= Buffer.byteLength(text) + 1;
      if (left < 0) break;
      context.unshift(text);
      first = near;
    }
    this.before = [];
    if (gapBytes > 0 && this.parts.length > 0 && first.at > this.lastEnd) this.push('--');
    for (const text of [...context, match]) this.push(text);
    this.lastEnd = line.end;
    this.shown++;
    this.after = this.options.context;
    return true;
  }

  private put(line: Line, mark: string): boolean {
    const text = this.textOf(line, mark);
    if (Buffer.byteLength(text) + 1 > this.room) return false;
    this.push(text);
    this.lastEnd = line.end;
    return true;
  }

  private push(text: string): void {
    this.room -= Buffer.byteLength(text) + 1;
    this.parts.push(text);
  }

  private textOf(line: Line, mark: string): string {
    const maxBytes = maxLineBytes(this.options.maxBytes);
    const place = mark === ':' && line.text.length > maxBytes ? this.matcher.place(line.text) : 0;
    return `${line.at}${mark}${shortenAround(line.text, place, maxBytes)}`;
  }
}
