// Finds the errors in a log of any size, from its end backwards: each line with its number, as many as fit into the budget.
// A scan has a time limit and returns the cursor from which earlier errors can be read.
import { nextTurn, type Clock } from '../../../../runtime/clock.ts';
import { cleanText, formatNumber, shorten } from '../text.ts';
import { minEqualRun } from '../fold.ts';
import { splitLines, type Log } from '../log.ts';
import { unprefixed } from './prefix.ts';
import { anyMayMatter, hasPlace, type RuleOptions } from './rules.ts';
import { markErrors, type Mark } from './select.ts';

interface ErrorOptions extends RuleOptions {
  maxBytes: number;
  /** Lines as printed, with escape codes and repetition. */
  raw: boolean;
}

interface FoundErrors {
  text: string;
  /** Number of error lines in the scanned part. */
  matches: number;
  /** Offset at which the scanned part begins. */
  from: number;
  next: number;
  /** Output before this offset was not shown or not scanned. */
  earlier: number | undefined;
  /** False if the log is too large to count lines: byte offsets (`@12`) are shown instead. */
  numbered: boolean;
}

const windowBytes = 2 ** 18;
/** Maximum duration of one scan. Earlier output needs another call. */
const maxScanMs = 1500;
/** Maximum time for counting the lines before the scanned part. */
const maxCountMs = 1500;
const countBytes = 2 ** 20;
/** Of a longer line, rules check only the beginning and the end. */
const maxJudgedChars = 1000;
/** Maximum shown bytes per line, and never more than half of the response. */
const maxLineBytes = (maxBytes: number): number => Math.min(600, Math.floor(maxBytes / 2));
/** Bytes reserved for the remark that there is more. */
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
  let left = options.maxBytes;
  while (from > log.start && left > 0 && clock.now() - started <= maxScanMs) {
    const part = await scanWindow(log, from, options);
    left -= part.errorBytes;
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

/** Scans the part of the log before `end`, starting at a line start unless one line fills the window. */
async function scanWindow(log: Log, end: number, options: ErrorOptions) {
  const begin = Math.max(end - windowBytes, log.start);
  const bytes = await log.bytes(begin, end);
  const cut = begin > log.start ? bytes.indexOf(10) + 1 : 0;
  // A newline at the very end does not help, because the line before it still fills the window.
  const skip = cut < bytes.length ? cut : 0;
  const from = begin + skip;
  const whole = bytes.subarray(skip);
  if (!isDrawn(whole) && !anyMayMatter(whole.toString()))
    return { entries: [], newlines: newlinesIn(whole), from, errorBytes: 0 };
  const lines = splitLines(whole, from, false);
  const cleaned = lines.map(({ text }) => cleanText(text));
  const marks = markErrors(cleaned.map(rulePart), options);
  const width = maxLineBytes(options.maxBytes);
  const entries: Entry[] = [];
  let errorBytes = 0;
  for (const [i, mark] of [...marks].toSorted(([a], [b]) => a - b)) {
    const { at, text } = lines[i]!;
    const shown = options.raw
      ? shorten(text, Math.floor(options.maxBytes / 2))
      : shorten(cleaned[i]!, width);
    entries.push({ at, line: i, mark, text: shown });
    if (mark === 'error') errorBytes += Buffer.byteLength(shown) + 1;
  }
  const newlineCount = lines.length - (lines.at(-1)?.ended === false ? 1 : 0);
  return { entries, newlines: newlineCount, from, errorBytes };
}

/** Escape codes, rewrites or NULs (UTF-16) may be inside what a person sees as one word. */
const isDrawn = (bytes: Buffer): boolean =>
  [0x1b, 0x08, 0x0d, 0x00].some((byte) => bytes.includes(byte));

function newlinesIn(bytes: Buffer): number {
  let count = 0;
  for (let i = bytes.indexOf(10); i >= 0; i = bytes.indexOf(10, i + 1)) count++;
  return count;
}

const rulePart = (text: string): string =>
  text.length <= maxJudgedChars
    ? text
    : `${text.slice(0, maxJudgedChars * 0.8)} ${text.slice(-maxJudgedChars * 0.2)}`;

/** Counts newlines before `to`. Undefined if that takes too long. */
async function newlines(log: Log, to: number, clock: Clock): Promise<number | undefined> {
  const started = clock.now();
  const buffer = Buffer.allocUnsafe(Math.min(countBytes, Math.max(to - log.start, 1)));
  let count = 0;
  for (let at = log.start; at < to;) {
    const bytes = await log.bytes(at, Math.min(at + countBytes, to), buffer);
    if (bytes.length === 0) break;
    count += newlinesIn(bytes);
    at += bytes.length;
    if (clock.now() - started > maxCountMs && at < to) return undefined;
    await nextTurn();
  }
  return count;
}

/** Shows everything if it fits, otherwise only the last errors. `first`: where the shown part begins if errors are missing. */
function page(
  entries: readonly Entry[],
  labelOf: (entry: Entry) => string,
  { maxBytes, raw }: ErrorOptions,
): { text: string; first: number | undefined } {
  const textOf = (entry: Entry) =>
    `${labelOf(entry)}${entry.mark === 'error' ? ':' : '-'}${entry.text}`;
  const all = raw ? entries.map(textOf) : foldEqual(entries, textOf);
  if (byteLength(all) <= maxBytes) return { text: all.join('\n'), first: undefined };
  const errors = entries.filter(({ mark }) => mark === 'error');
  const shown: string[] = [];
  let left = maxBytes - remarkBytes;
  for (let i = errors.length - 1; i >= 0; i--) {
    const text = textOf(errors[i]!);
    left -= Buffer.byteLength(text) + 1;
    if (left < 0 && shown.length > 0) {
      const first = errors[i + 1]!.at;
      shown.push(`[… earlier errors before byte ${formatNumber(first)} left out …]`);
      return { text: shown.toReversed().join('\n'), first };
    }
    shown.push(text);
  }
  return { text: shown.toReversed().join('\n'), first: undefined };
}

/** Replaces equal consecutive lines by the first, a remark and the last. Lines with a file location are always shown. */
function foldEqual(entries: readonly Entry[], textOf: (entry: Entry) => string): string[] {
  const texts: string[] = [];
  for (let i = 0; i < entries.length;) {
    const { text } = unprefixed(entries[i]!.text);
    let end = i + 1;
    while (end < entries.length && unprefixed(entries[end]!.text).text === text) end++;
    const fold = end - i >= minEqualRun && !hasPlace(text);
    const run = entries.slice(i, end).map(textOf);
    if (fold)
      texts.push(run[0]!, `[… ${formatNumber(end - i - 2)} more lines like this …]`, run.at(-1)!);
    else texts.push(...run);
    i = end;
  }
  return texts;
}

const byteLength = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, -1);
