// Finding lines in a log of any size: a literal by default, an RE2 expression on request (linear time, so a pattern
// cannot hang the server). A scan has a time limit and answers the cursor to go on from.
import { RE2JS } from 're2js';
import { AppError } from '../../../errors.ts';
import { nextTurn, type Clock } from '../../../runtime/clock.ts';
import { cleanText, fold, number, shortened, shortenedAround, type Line } from './clean.ts';
import { scanLines, scanWindowBytes, splitLines, type Log } from './log.ts';

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
  for await (const { bytes, base } of scanLines(log, options.from, log.size)) {
    if (!matches.possible(bytes)) {
      page.skip();
    } else {
      for (const line of splitLines(bytes, base, !options.raw)) {
        if (page.add(line, matches.test(line.text))) continue;
        return page.result(line.at, false);
      }
    }
    next = base + bytes.length;
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
    // Escapes may stand inside what a person sees as one word: then every line is looked at cleaned.
    possible: (bytes) => bytes.includes(wanted) || bytes.includes(0x1b) || bytes.includes(0x08),
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
    const first = this.before[0] ?? line;
    if (this.options.context > 0 && this.parts.length > 0 && first.at > this.lastEnd)
      this.parts.push('--');
    for (const context of this.before) this.put(context, '-');
    this.before = [];
    if (!this.put(line, ':') && this.shown > 0) return false;
    this.shown++;
    this.after = this.options.context;
    return true;
  }

  private put(line: Line, mark: string): boolean {
    const bytesMax = lineBytesMax(this.options.bytesMax);
    const place = mark === ':' && line.text.length > bytesMax ? this.matcher.place(line.text) : 0;
    const text = `${line.at}${mark}${shortenedAround(line.text, place, bytesMax)}`;
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > this.room) return false;
    this.room -= bytes;
    this.parts.push(text);
    this.lastEnd = line.end;
    return true;
  }
}

/** What programs say when something is wrong; deliberately wide, the exit code is the truth. */
const troubles = new RegExp(
  [
    // `ValueError`, `NullPointerException`: the word may end a longer one.
    String.raw`(?:error|exception)s?\b`,
    String.raw`\b(?:fail(?:s|ed|ure|ures|ing)?|fatal|panic|panicked|traceback|killed|aborted|assert(?:ion)?)\b`,
    String.raw`\b(?:cannot|can't|could not|unable to|not ok|not found|no such|denied|refused|timed out)\b`,
    String.raw`\b(?:undefined reference|segmentation fault|core dumped|out of memory|unrecognized|unresolved)\b`,
    String.raw`\bERR!|✗|✖|✘|^E {2,}|^\s+at .+:\d+:\d+`,
  ].join('|'),
  'i',
);
/** What programs say when nothing is; the rest of the line still counts. */
const quiet =
  /\b(?:0|no|zero|without) (?:errors?|failures?|failed|exceptions?)\b|\b(?:errors?|failures?|failed|fail|exceptions?)[:=]? 0(?![\w.])/gi;
const troubleWindowBytes = 4 * scanWindowBytes;
const troubleContext = 3;
/** Room for the remark that there is more. */
const earlierBytes = 80;

export interface Troubles {
  text: string;
  matches: number;
  /** Where the looked-at part begins. */
  from: number;
  next: number;
}

/** The last lines that look like trouble, each with what follows it, from the end of the log. */
export async function findTroubles(log: Log, bytesMax: number): Promise<Troubles> {
  const from = Math.max(log.size - troubleWindowBytes, log.start);
  const bytes = await log.bytes(from, log.size);
  const lines = fold(
    splitLines(bytes, from, false).map((l) => ({ ...l, text: cleanText(l.text) })),
  );
  const hits = lines.map((line) => troubles.test(line.text.replace(quiet, '')));
  const wanted = new Set<number>();
  hits.forEach((hit, i) => {
    if (hit) for (let n = i - 1; n <= i + troubleContext; n++) if (lines[n]) wanted.add(n);
  });
  const shown: string[] = [];
  let room = bytesMax - earlierBytes;
  let next = -1;
  for (const i of [...wanted].toSorted((a, b) => b - a)) {
    const text = `${lines[i]!.at}${hits[i] ? ':' : '-'}${shortened(lines[i]!.text, lineBytesMax(bytesMax))}`;
    const gap = next > i + 1 ? '--\n' : '';
    room -= Buffer.byteLength(text) + 1 + gap.length;
    if (room < 0 && next >= 0) {
      shown.unshift(`[… earlier matches before byte ${number(lines[next]!.at)} left out …]`);
      break;
    }
    shown.unshift(gap ? `${text}\n--` : text);
    next = i;
  }
  const matches = hits.filter(Boolean).length;
  return { text: shown.join('\n'), matches, from, next: log.size };
}
