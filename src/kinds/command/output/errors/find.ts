// The errors in a log of any size, from its end backwards: each line with its number, as much as the budget holds.
// A scan has a time limit and returns the cursor from which an earlier part can be read.
import { nextTurn, type Clock } from '../../../../runtime/clock.ts';
import { cleanText, number, shortened } from '../clean.ts';
import { equalRunMin } from '../fold.ts';
import { splitLines, type Log } from '../log.ts';
import { unprefixed } from './prefix.ts';
import { anyMayMatter, hasPlace, type RuleOptions } from './rules.ts';
import { markErrors, type Mark } from './select.ts';

export interface ErrorOptions extends RuleOptions {
  bytesMax: number;
  /** Lines as printed: with escapes and repetition. */
  raw: boolean;
}

export interface FoundErrors {
  text: string;
  /** Lines with an error in the part that was scanned. */
  matches: number;
  /** Where the scanned part begins. */
  from: number;
  next: number;
  /** What lies before this was not shown or not scanned. */
  earlier: number | undefined;
  /** False: the log is so large that byte offsets (`@12`) stand in place of line numbers. */
  numbered: boolean;
}

const windowBytes = 2 ** 18;
/** One call scans no longer than this; an earlier part is another call. */
const scanMsMax = 1500;
/** Counting the lines before the scanned part takes at most this long. */
const countMsMax = 1500;
const countBytes = 2 ** 20;
/** A rule looks at the beginning and the end of a longer line. */
const judgedCharsMax = 1000;
/** Of one line this much is shown, and never more than half of the answer. */
const lineBytesMax = (bytesMax: number): number => Math.min(600, Math.floor(bytesMax / 2));
/** Room for the remark that there is more. */
const remarkBytes = 80;

interface Entry {
  at: number;
  /** Newlines between the beginning of the scanned part and this line. */
  line: number;
  mark: Mark;
  text: string;
}

export async function findErrors(
  log: Log,
  options: ErrorOptions,
  clock: Clock,
  before = log.size,
): Promise<FoundErrors> {
  const to = Math.max(Math.min(before, log.size), log.start);
  const { entries, from } = await scan(log, to, options, clock);
  const linesBefore = entries.length === 0 ? 0 : await newlines(log, from, clock);
  const numbered = linesBefore !== undefined;
  const labelOf = ({ at, line }: Entry) => (numbered ? `${linesBefore + line + 1}` : `@${at}`);
  const { text, first } = page(entries, labelOf, options);
  const matches = entries.filter(({ mark }) => mark === 'error').length;
  const earlier = first ?? (from > log.start ? from : undefined);
  return { text, matches, from, next: to, earlier, numbered };
}

async function scan(
  log: Log,
  to: number,
  options: ErrorOptions,
  clock: Clock,
): Promise<{ entries: Entry[]; from: number }> {
  const started = clock.now();
  const parts: { entries: Entry[]; newlines: number }[] = [];
  let from = to;
  let room = options.bytesMax;
  while (from > log.start && room > 0 && clock.now() - started <= scanMsMax) {
    const part = await scanWindow(log, from, options);
    room -= part.errorBytes;
    from = part.from;
    parts.unshift(part);
    await nextTurn();
  }
  let passed = 0;
  const entries = parts.flatMap((part) => {
    const shifted = part.entries.map((entry) => ({ ...entry, line: entry.line + passed }));
    passed += part.newlines;
    return shifted;
  });
  return { entries, from };
}

/** The part of the log before `end`, from the beginning of a line unless one line fills the window. */
async function scanWindow(log: Log, end: number, options: ErrorOptions) {
  const begin = Math.max(end - windowBytes, log.start);
  const bytes = await log.bytes(begin, end);
  const cut = begin > log.start ? bytes.indexOf(10) + 1 : 0;
  // A newline at the very end does not help: the line before it still fills the window.
  const skip = cut < bytes.length ? cut : 0;
  const from = begin + skip;
  const whole = bytes.subarray(skip);
  if (!isDrawn(whole) && !anyMayMatter(whole.toString()))
    return { entries: [], newlines: newlinesIn(whole), from, errorBytes: 0 };
  const lines = splitLines(whole, from, false);
  const cleaned = lines.map(({ text }) => cleanText(text));
  const marks = markErrors(cleaned.map(judged), options);
  const width = lineBytesMax(options.bytesMax);
  const entries: Entry[] = [];
  let errorBytes = 0;
  for (const [i, mark] of [...marks].toSorted(([a], [b]) => a - b)) {
    const { at, text } = lines[i]!;
    const shown = options.raw
      ? shortened(text, Math.floor(options.bytesMax / 2))
      : shortened(cleaned[i]!, width);
    entries.push({ at, line: i, mark, text: shown });
    if (mark === 'error') errorBytes += Buffer.byteLength(shown) + 1;
  }
  const newlineCount = lines.length - (lines.at(-1)?.ended === false ? 1 : 0);
  return { entries, newlines: newlineCount, from, errorBytes };
}

/** Escapes, rewrites or NULs (UTF-16) may stand inside what a person sees as one word. */
const isDrawn = (bytes: Buffer): boolean =>
  [0x1b, 0x08, 0x0d, 0x00].some((byte) => bytes.includes(byte));

function newlinesIn(bytes: Buffer): number {
  let count = 0;
  for (let i = bytes.indexOf(10); i >= 0; i = bytes.indexOf(10, i + 1)) count++;
  return count;
}

const judged = (text: string): string =>
  text.length <= judgedCharsMax
    ? text
    : `${text.slice(0, judgedCharsMax * 0.8)} ${text.slice(-judgedCharsMax * 0.2)}`;

/** Newlines before `to`; undefined when there is too much to count. */
async function newlines(log: Log, to: number, clock: Clock): Promise<number | undefined> {
  const started = clock.now();
  const buffer = Buffer.allocUnsafe(Math.min(countBytes, Math.max(to - log.start, 1)));
  let count = 0;
  for (let at = log.start; at < to;) {
    const bytes = await log.bytes(at, Math.min(at + countBytes, to), buffer);
    if (bytes.length === 0) break;
    count += newlinesIn(bytes);
    at += bytes.length;
    if (clock.now() - started > countMsMax && at < to) return undefined;
    await nextTurn();
  }
  return count;
}

/** Everything if it fits, else the errors alone, of these the last. `first`: where the shown part begins if earlier ones are missing. */
function page(
  entries: readonly Entry[],
  labelOf: (entry: Entry) => string,
  { bytesMax, raw }: ErrorOptions,
): { text: string; first: number | undefined } {
  const textOf = (entry: Entry) =>
    `${labelOf(entry)}${entry.mark === 'error' ? ':' : '-'}${entry.text}`;
  const all = raw ? entries.map(textOf) : folded(entries, textOf);
  if (bytesOf(all) <= bytesMax) return { text: all.join('\n'), first: undefined };
  const errors = entries.filter(({ mark }) => mark === 'error');
  const shown: string[] = [];
  let room = bytesMax - remarkBytes;
  for (let i = errors.length - 1; i >= 0; i--) {
    const text = textOf(errors[i]!);
    room -= Buffer.byteLength(text) + 1;
    if (room < 0 && shown.length > 0) {
      const first = errors[i + 1]!.at;
      shown.push(`[… earlier errors before byte ${number(first)} left out …]`);
      return { text: shown.toReversed().join('\n'), first };
    }
    shown.push(text);
  }
  return { text: shown.toReversed().join('\n'), first: undefined };
}

/** Equal lines in a row become the first, a remark and the last; a line that names a place in a file is always shown. */
function folded(entries: readonly Entry[], textOf: (entry: Entry) => string): string[] {
  const texts: string[] = [];
  for (let i = 0; i < entries.length;) {
    const { text } = unprefixed(entries[i]!.text);
    let end = i + 1;
    while (end < entries.length && unprefixed(entries[end]!.text).text === text) end++;
    const fold = end - i >= equalRunMin && !hasPlace(text);
    const run = entries.slice(i, end).map(textOf);
    if (fold) texts.push(run[0]!, `[… ${number(end - i - 2)} more lines like this …]`, run.at(-1)!);
    else texts.push(...run);
    i = end;
  }
  return texts;
}

const bytesOf = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, -1);
