// Keeps page text and Markdown markup apart. Page characters with a meaning in Markdown, and our own markup,
// are encoded as noncharacters until a line is complete. Only then are all neighbours known, and each is
// written as is, with a backslash, or (markup that would not be recognized) not at all.

/** Characters of the page. */
const specialChars = '*_~[]<&\\`';
const encodedChars = new Map(
  Array.from(specialChars, (char, i) => [char, String.fromCharCode(0xfdd0 + i)] as const),
);
const decodedChars = new Map([...encodedChars].map(([char, encoded]) => [encoded, char]));

/** Our markup, as pairs of start and end. */
export const strong = ['\uFDE0', '\uFDE1'] as const;
export const emphasis = ['\uFDE2', '\uFDE3'] as const;
export const deleted = ['\uFDE4', '\uFDE5'] as const;
const [image, link, target, end] = ['\uFDE6', '\uFDE7', '\uFDE8', '\uFDE9'] as const;
/** Both ends of a code span. They produce no output. */
const code = ['\uFDEA', '\uFDEB'] as const;
const markupText = new Map<string, string>([
  ...strong.map((mark) => [mark, '**'] as const),
  ...emphasis.map((mark) => [mark, '*'] as const),
  ...deleted.map((mark) => [mark, '~~'] as const),
  [image, '!['],
  [link, '['],
  [target, ']('],
  [end, ')'],
  ...code.map((mark) => [mark, ''] as const),
]);
const pairs = [strong, emphasis, deleted] as const;
const closerOf = new Map<string, string>(pairs.map(([open, close]) => [open, close]));
const openers = new Map<string, string>(pairs.map(([open, close]) => [close, open]));

/** A longer run of stars is a horizontal rule, or an attempt to waste time. */
const maxRun = 20;
const maxPasses = 10;
/** A longer label does not define a link reference. */
const maxLabel = 1000;

/** Encodes page text for a line that is being built. */
export function encodeText(text: string): string {
  return text.replace(/[*_~[\]<&\\`]/g, (char) => encodedChars.get(char)!);
}

export function encodeLink(url: string, text: string): string {
  return `${link}${text.replace(/\s*\n\s*/g, ' ')}${target}${linkDestination(url)}${end}`;
}

export function encodeImage(url: string, alt: string): string {
  return `${image}${encodeText(alt)}${target}${linkDestination(url)}${end}`;
}

export function encodeCode(span: string): string {
  return `${code[0]}${span}${code[1]}`;
}

export function hasLink(text: string): boolean {
  return text.includes(link);
}

export function withoutMarkup(text: string, [open, close]: readonly [string, string]): string {
  return text.replaceAll(open, '').replaceAll(close, '');
}

/** Converts a complete line to Markdown, for places where no block can start (a heading, a cell). */
export function toMarkdown(line: string): string {
  if (!/[\uFDD0-\uFDEF]/.test(line)) return line;
  const chars = Array.from(withValidMarkup(line));
  const addresses = urlPositions(chars);
  let inLink = false;
  let text = '';
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i]!;
    if (char === link || char === image) inLink = true;
    else if (char === target) inLink = false;
    const own = decodedChars.get(char);
    const inAddress = addresses.has(i);
    if (own !== undefined)
      text += needsEscape(own, i, chars, { inLink, inAddress }) ? `\\${own}` : own;
    // Before a link, it would turn the link into an image.
    else if (char === '!' && chars[i + 1] === link) text += '\\!';
    else text += markupText.get(char) ?? char;
  }
  return text;
}

/**
 * Converts complete lines to a paragraph. Text that would start a block by accident (heading, quote, list,
 * rule) stays text.
 */
export function toParagraph(lines: string): string {
  return toMarkdown(lines)
    .replace(
      /^(?:#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|~{3}|=+ *$|[|: ]*-[-|: ]*$|([_*])(?: *\1){2,} *$)/gm,
      (match) => `\\${match}`,
    )
    .replace(/^(\d{1,9})(?=[.)](?:\s|$))/gm, '$1\\');
}

interface EscapeContext {
  inLink: boolean;
  inAddress: boolean;
}

function needsEscape(
  own: string,
  at: number,
  chars: readonly string[],
  around: EscapeContext,
): boolean {
  const next = chars[at + 1] ?? '';
  switch (own) {
    case '`':
      return true;
    case '\\':
      return next !== '' && isPunctuation(next) && (next < '\u0080' || next >= '\uFDD0');
    case '<':
      return /[a-z/!?]/i.test(next);
    case '&':
      return /^#?\w{1,32};/.test(chars.slice(at + 1, at + 36).join(''));
    case '[':
      return around.inLink || (isLineStart(chars, at) && isDefinition(chars, at));
    case ']':
      return around.inLink || next === '(';
    default:
      return !around.inAddress && isFlanking(own, at, chars);
  }
}

/** Whether a run of these characters could open or close markup. */
function isFlanking(own: string, at: number, chars: readonly string[]): boolean {
  const { before, after, length } = runAround(at, chars);
  if (isSpace(before) && isSpace(after)) return false;
  if (own === '*') return true;
  // We never open with `_`, so only a possible opening needs an escape.
  if (own === '_') return !isSpace(after) && (isSpace(before) || isPunctuation(before));
  if (length > 1 || [before, after].some((mark) => isDeleted(mark))) return true;
  return !isSpace(before) && (!isPunctuation(before) || !isLetter(after));
}

const isDeleted = (char: string): boolean => char === deleted[0] || char === deleted[1];

function runAround(at: number, chars: readonly string[]) {
  let [from, to] = [at, at];
  while (at - from < maxRun && chars[from - 1] === chars[at]) from--;
  while (to - at < maxRun && chars[to + 1] === chars[at]) to++;
  return { before: chars[from - 1] ?? '', after: chars[to + 1] ?? '', length: to - from + 1 };
}

const isSpace = (char: string): boolean => char === '' || /\s/.test(char);
const isPunctuation = (char: string): boolean => /[\p{P}\p{S}\uFDD0-\uFDEF]/u.test(char);
const isLetter = (char: string): boolean => !isSpace(char) && !isPunctuation(char);

function isLineStart(chars: readonly string[], at: number): boolean {
  return at === 0 || chars[at - 1] === '\n';
}

/** `[name]: …`, which a renderer would hide. */
function isDefinition(chars: readonly string[], at: number): boolean {
  const label = chars.slice(at, at + maxLabel);
  const close = label.indexOf(encodedChars.get(']')!);
  return close > 0 && label[close + 1] === ':';
}

/** URLs in the text stay unescaped, so that they can be copied. */
function urlPositions(chars: readonly string[]): Set<number> {
  const positions = new Set<number>();
  const text = chars.map((char) => (char.length === 1 ? char : 'x')).join('');
  for (const { 0: address, index } of text.matchAll(
    /(?:https?:\/\/|www\.)[^\s\uFDD5\uFDE0-\uFDEF]*/g,
  )) {
    for (let i = 0; i < address.length; i++) positions.add(index + i);
  }
  return positions;
}

/** Removing markup changes its neighbours, so this repeats until all remaining markup is valid. */
function withValidMarkup(line: string): string {
  let marked = line;
  for (let pass = 0; pass < maxPasses; pass++) {
    // `**a****b**` and `` `a``b` `` do not render as they look.
    const joined = marked
      .replace(/\uFDE1\uFDE0|\uFDE3\uFDE2|\uFDE5\uFDE4/g, '')
      .replace(/\uFDEB\uFDEA/g, `${code[1]} ${code[0]}`);
    const next = withoutInvalidMarkup(joined);
    if (next === marked) break;
    marked = next;
  }
  return marked;
}

/**
 * Markup nested in the same markup has no effect. Markup that does not touch its text would render as stars.
 */
function withoutInvalidMarkup(line: string): string {
  const chars = Array.from(line);
  const open: { char: string; at: number; isInvalid: boolean }[] = [];
  const invalid = new Set<number>();
  chars.forEach((char, at) => {
    if (closerOf.has(char)) {
      const isInvalid = open.some((other) => other.char === char) || !isLeftFlanking(chars, at);
      open.push({ char, at, isInvalid: isInvalid || isSplitRun(chars, at) });
    } else if (openers.has(char)) {
      const opener = open.pop();
      if (!opener) invalid.add(at);
      else if (opener.isInvalid || !isRightFlanking(chars, at) || isSplitRun(chars, at))
        invalid.add(at).add(opener.at);
    }
  });
  for (const { at } of open) invalid.add(at);
  return invalid.size === 0 ? line : chars.filter((_, at) => !invalid.has(at)).join('');
}

/** Closing stars next to opening stars: the weaker markup is removed. */
function isSplitRun(chars: readonly string[], at: number): boolean {
  const [open, close] = emphasis;
  if (chars[at] === open) return chars[at - 1] === strong[1];
  return chars[at] === close && chars[at + 1] === strong[0];
}

function isLeftFlanking(chars: readonly string[], at: number): boolean {
  const [before, after] = charsAroundRun(chars, at);
  return !isSpace(after) && (isLetter(after) || isSpace(before) || isPunctuation(before));
}

function isRightFlanking(chars: readonly string[], at: number): boolean {
  const [before, after] = charsAroundRun(chars, at);
  return !isSpace(before) && (isLetter(before) || isSpace(after) || isPunctuation(after));
}

/** Adjacent stars are parsed as one run, and so are tildes. */
function charsAroundRun(chars: readonly string[], at: number): [string, string] {
  const symbol = markupText.get(chars[at]!)![0];
  const isSame = (char = '') => markupText.get(char)?.[0] === symbol;
  let [from, to] = [at, at];
  while (isSame(chars[from - 1])) from--;
  while (isSame(chars[to + 1])) to++;
  return [chars[from - 1] ?? '', chars[to + 1] ?? ''];
}

function linkDestination(url: string): string {
  const safe = url.replace(/[\s<>]/g, encodeURIComponent);
  return isBalanced(safe) ? safe : safe.replaceAll('(', '%28').replaceAll(')', '%29');
}

function isBalanced(url: string): boolean {
  let depth = 0;
  for (const char of url) {
    if (char === '(') depth++;
    if (char === ')' && --depth < 0) return false;
  }
  return depth === 0;
}
