// Finding lines in a log of any size: a literal by default, an RE2 expression on request (linear time, so a pattern
// cannot hang the server). A scan has a time limit and answers the cursor to go on from.
import { RE2JS } from 're2js';
import { AppError } from '../../../errors.ts';
import { nextTurn, type Clock } from '../../../runtime/clock.ts';
import { shortenedAround, type Line } from './clean.ts';
import { scanLines, splitLines, type Log } from './log.ts';

export interface GrepOptions {
  pattern: string;
  regex: boolean;
  ignoreCase: boolean;
  /** Lines before and after each match. */
  context: number;
  countOnly: boolean;
  from: number;
  bytesMax: number;
  raw: boolean;
}

export interface GrepResult {
  text: string;
  /** Matches in the part that was scanned. */
  matches: number;
  shown: number;
  /** Scanned up to here; smaller than the size when time or room ran out. */
  next: number;
  complete: boolean;
}

/** One call scans no longer than this; the rest is a second call. */
const scanMsMax = 4000;
/** Of one line so much is shown, and never more than half of the answer; its offset stands before it. */
const lineBytesMax = (bytesMax: number): number => Math.min(600, Math.floor(bytesMax / 2));

export async function grep(log: Log, options: GrepOptions, clock: Clock): Promise<GrepResult> {
  const matches = matcher(options);
  const started = clock.now();
  const page = new Page(options, matches);
  let next = Math.max(options.from, log.start);
  /** Of the line that began in a window before. */
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
    if (clock.now() - started > scanMsMax && next < log.size) return page.result(next, false);
    await nextTurn();
  }
  return page.result(Math.max(next, Math.min(options.from, log.size)), true);
}

interface LineMatcher {
  /** A quick look at a whole window: false means no line of it can match. */
  possible(bytes: Buffer): boolean;
  test(text: string): boolean;
  /** Where the match begins, of a text that has one. */
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
    // Escapes and NULs (UTF-16) may stand inside what a person sees as one word: then every line is looked at cleaned.
    possible: (bytes) =>
      bytes.includes(wanted) || [0x1b, 0x08, 0x00].some((byte) => bytes.includes(byte)),
    test: (text) => text.includes(pattern),
    place: (text) => text.indexOf(pattern),
  };
}

function compile(pattern: string, ignoreCase: boolean): RE2JS {
  try {
    return RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'not understood';
    throw new AppError('invalidInput', `The pattern is no valid RE2 expression: ${why}.`, {
      hint: 'RE2 has no look-around and no back references. Leave `regex` out to search the text as it is.',
      cause,
    });
  }
}

/** Collects matches with their context until the budget is full. */
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
    this.room = options.bytesMax;
  }

  /** False: no room for this match, so it is where the next call begins. */
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
    // The match comes first; of what stands before it the nearest lines take what room there is.
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
    const bytesMax = lineBytesMax(this.options.bytesMax);
    const place = mark === ':' && line.text.length > bytesMax ? this.matcher.place(line.text) : 0;
    return `${line.at}${mark}${shortenedAround(line.text, place, bytesMax)}`;
  }
}
