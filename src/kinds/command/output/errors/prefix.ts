// Strips what a runner prints before every line: timestamps, names of parallel processes, CI markers. Errors are recognized
// without it.

export interface Unprefixed {
  text: string;
  /** Names before the line. Lines of one process belong together even if others print between them. */
  source: string;
  /** The line has a timestamp, so it is probably a log entry. */
  timed: boolean;
}

const timestamps = [
  /^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?(?: |\t|$)/,
  /^\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d(?:\.\d+)? /,
  /^\[?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?\]?(?: |$)/,
  /^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})? /,
];
const level = String.raw`(?:\s*\d+%|[^\]]*(?:err|warn|fatal|fail|info|debug|trace|notice|severe|crit|help)[^\]]*)\]`;
const names = [
  /^[A-Za-z][\w.-]{0,39} +\|(?: |$)/,
  new RegExp(String.raw`^\[(?!${level})[\w.:/@ -]{1,30}\] `, 'i'),
  /^#\d+ (?:\d+\.\d+ |(?=ERROR|CANCELED))/,
  /^@?[A-Za-z][\w/-]*:[A-Za-z][\w-]*: (?=\S| )/,
  /^[\w@./-]+ (?:test|build|lint|typecheck|check|start|dev)[:$] /,
  /^\d\d[OE][+ ]/,
  // Checkers that share the terminal with the program they watch print their process id.
  /^==\d+==(?: |$)/,
];
/** First characters of the patterns above. Most lines need no further check. */
const begins = /^(?:[[\d#@]|==\d|[A-Z][a-z]{2} [ \d]\d |[\w@./-]+(?: +\||:[A-Za-z]| \w+[:$] ))/;
const maxPrefixes = 3;

export function unprefixed(line: string): Unprefixed {
  let text = line;
  let source = '';
  let timed = false;
  for (let i = 0; i < maxPrefixes && begins.test(text); i++) {
    const time = matchOf(timestamps, text);
    const name = time === undefined ? matchOf(names, text) : undefined;
    const length = time?.length ?? name?.length ?? 0;
    if (length === 0) break;
    timed ||= time !== undefined;
    source += name ?? '';
    text = text.slice(length);
  }
  return { text, source, timed };
}

function matchOf(patterns: readonly RegExp[], text: string): string | undefined {
  for (const pattern of patterns) {
    const found = pattern.exec(text);
    if (found) return found[0];
  }
  return undefined;
}
