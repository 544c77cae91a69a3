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
const openers = new Set<string>(pairs.map(([open]) => open));

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
  const text = withValidMarkup(line);
  const isInAddress = addressesOf(text);
  let inLink = false;
  return text.replace(/[\uFDD0-\uFDEF]|!(?=\uFDE7)/g, (char, at: number) => {
    // Before a link, it would turn the link into an image.
    if (char === '!') return '\\!';
    if (char === link || char === image) inLink = true;
    else if (char === target) inLink = false;
    const own = decodedChars.get(char);
    if (own === undefined) return markupText.get(char) ?? char;
    const inAddress = isInAddress(at);
    return needsEscape(own, at, text, { inLink, inAddress }) ? `\\${own}` : own;
  });
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

function needsEscape(own: string, at: number, text: string, around: EscapeContext): boolean {
  const next = charAt(text, at + 1);
  switch (own) {
    case '`':
      return true;
    case '\\':
      return next !== '' && isPunctuation(next) && (next < '\u0080' || next >= '\uFDD0');
    case '<':
      return /[a-z/!?]/i.test(next);
    case '&':
      return /^#?\w{1,32};/.test(text.slice(at + 1, at + 36));
    case '[':
      return around.inLink || (isLineStart(text, at) && isDefinition(text, at));
    case ']':
      return around.inLink || next === '(';
    default:
      return !around.inAddress && isFlanking(own, at, text);
  }
}

/** Whether a run of these characters could open or close markup. */
function isFlanking(own: string, at: number, text: string): boolean {
  const { before, after, length } = runAround(at, text);
  if (isSpace(before) && isSpace(after)) return false;
  if (own === '*') return true;
  // We never open with `_`, so only a possible opening needs an escape.
  if (own === '_') return !isSpace(after) && (isSpace(before) || isPunctuation(before));
  if (length > 1 || [before, after].some((mark) => isDeleted(mark))) return true;
  return !isSpace(before) && (!isPunctuation(before) || !isLetter(after));
}

const isDeleted = (char: string): boolean => char === deleted[0] || char === deleted[1];

function runAround(at: number, text: string) {
  let [from, to] = [at, at];
  while (at - from < maxRun && text[from - 1] === text[at]) from--;
  while (to - at < maxRun && text[to + 1] === text[at]) to++;
  return { before: charBefore(text, from), after: charAt(text, to + 1), length: to - from + 1 };
}

/** The complete character at this position, or an empty string. */
function charAt(text: string, at: number): string {
  const code = text.codePointAt(at);
  return code === undefined ? '' : String.fromCodePoint(code);
}

/** The complete character that ends before this position, or an empty string. */
function charBefore(text: string, at: number): string {
  const isPair =
    at > 1 && /[\uDC00-\uDFFF]/.test(text[at - 1]!) && /[\uD800-\uDBFF]/.test(text[at - 2]!);
  return text.slice(Math.max(0, at - (isPair ? 2 : 1)), at);
}

const isSpace = (char: string): boolean => char === '' || /\s/.test(char);
const isPunctuation = (char: string): boolean => /[\p{P}\p{S}\uFDD0-\uFDEF]/u.test(char);
const isLetter = (char: string): boolean => !isSpace(char) && !isPunctuation(char);

function isLineStart(text: string, at: number): boolean {
  return at === 0 || text[at - 1] === '\n';
}

/** `[name]: …`, which a renderer would hide. */
function isDefinition(text: string, at: number): boolean {
  const label = text.slice(at, at + maxLabel);
  const close = label.indexOf(encodedChars.get(']')!);
  return close > 0 && label[close + 1] === ':';
}

/** URLs in the text stay unescaped, so that they can be copied. Positions are asked for in ascending order. */
function addressesOf(text: string): (at: number) => boolean {
  const found = text.matchAll(/(?:https?:\/\/|www\.)[^\s\uFDD5\uFDE0-\uFDEF]*/g);
  let address = found.next().value;
  return (at) => {
    while (address && address.index + address[0].length <= at) address = found.next().value;
    return address !== undefined && address.index <= at;
  };
}

/** Removing markup changes its neighbours, so this repeats until all remaining markup is valid. */
function withValidMarkup(line: string): string {
  let marked = line;
  for (let pass = 0; pass < maxPasses; pass++) {
    // `**a****b**` and `` `a``b` `` do not render as they look.
    const joined = marked
      .replace(/\uFDE1\uFDE0|\uFDE3\uFDE2|\uFDE5\uFDE4/g, '')
      .replace(/\uFDEB\uFDEA/g, `${code[1]} ${code[0]}`);
    const next = /[\uFDE0-\uFDE5]/.test(joined) ? withoutInvalidMarkup(joined) : joined;
    if (next === marked) break;
    marked = next;
  }
  return marked;
}

/**
 * Markup nested in the same markup has no effect. Markup that does not touch its text would render as stars.
 */
function withoutInvalidMarkup(line: string): string {
  const open: { char: string; at: number; isInvalid: boolean }[] = [];
  const invalid = new Set<number>();
  for (const { 0: char, index: at } of line.matchAll(/[\uFDE0-\uFDE5]/g)) {
    if (openers.has(char)) {
      const isInvalid = open.some((other) => other.char === char) || !isLeftFlanking(line, at);
      open.push({ char, at, isInvalid: isInvalid || isSplitRun(line, at) });
    } else {
      const opener = open.pop();
      if (!opener) invalid.add(at);
      else if (opener.isInvalid || !isRightFlanking(line, at) || isSplitRun(line, at))
        invalid.add(at).add(opener.at);
    }
  }
  for (const { at } of open) invalid.add(at);
  if (invalid.size === 0) return line;
  return line.replace(/[\uFDE0-\uFDE5]/g, (char, at: number) => (invalid.has(at) ? '' : char));
}

/** Closing stars next to opening stars: the weaker markup is removed. */
function isSplitRun(line: string, at: number): boolean {
  const [open, close] = emphasis;
  if (line[at] === open) return line[at - 1] === strong[1];
  return line[at] === close && line[at + 1] === strong[0];
}

function isLeftFlanking(line: string, at: number): boolean {
  const [before, after] = charsAroundRun(line, at);
  return !isSpace(after) && (isLetter(after) || isSpace(before) || isPunctuation(before));
}

function isRightFlanking(line: string, at: number): boolean {
  const [before, after] = charsAroundRun(line, at);
  return !isSpace(before) && (isLetter(before) || isSpace(after) || isPunctuation(after));
}

/** Adjacent stars are parsed as one run, and so are tildes. */
function charsAroundRun(line: string, at: number): [string, string] {
  const symbol = markupText.get(line[at]!)![0];
  const isSame = (char = '') => markupText.get(char)?.[0] === symbol;
  let [from, to] = [at, at];
  while (isSame(line[from - 1])) from--;
  while (isSame(line[to + 1])) to++;
  return [charBefore(line, from), charAt(line, to + 1)];
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
