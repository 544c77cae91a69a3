// What a page says stays text, what we mark stays a mark. Characters of the page that Markdown would obey, and our own
// marks, travel as noncharacters until a line is whole; only then is known who stands beside whom, and each is written
// bare, with a backslash, or (a mark that would not be read as one) not at all.

/** Of the page. */
const obeyed = '*_~[]<&\\`';
const twinOf = new Map(
  Array.from(obeyed, (char, i) => [char, String.fromCharCode(0xfdd0 + i)] as const),
);
const charOf = new Map([...twinOf].map(([char, twin]) => [twin, char]));

/** Ours, in pairs. */
export const strong = ['\uFDE0', '\uFDE1'] as const;
export const emphasis = ['\uFDE2', '\uFDE3'] as const;
export const deleted = ['\uFDE4', '\uFDE5'] as const;
const [image, link, target, end] = ['\uFDE6', '\uFDE7', '\uFDE8', '\uFDE9'] as const;
/** The ends of a code span: nothing is written for them. */
const code = ['\uFDEA', '\uFDEB'] as const;
const signs = new Map<string, string>([
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

/** A row of stars is a line, and made to cost time it is longer. */
const runMax = 20;
const passesMax = 10;
/** A longer one defines nothing. */
const labelMax = 1000;

/** Text of the page, for a line that is being made. */
export function literal(text: string): string {
  return text.replace(/[*_~[\]<&\\`]/g, (char) => twinOf.get(char)!);
}

export function linkTo(url: string, text: string): string {
  return `${link}${text.replace(/\s*\n\s*/g, ' ')}${target}${destination(url)}${end}`;
}

export function pictureAt(url: string, alt: string): string {
  return `${image}${literal(alt)}${target}${destination(url)}${end}`;
}

export function codeIn(span: string): string {
  return `${code[0]}${span}${code[1]}`;
}

export function hasLink(text: string): boolean {
  return text.includes(link);
}

export function without(text: string, [open, close]: readonly [string, string]): string {
  return text.replaceAll(open, '').replaceAll(close, '');
}

/** A finished line as Markdown, for a place where nothing can begin but text (a heading, a cell). */
export function written(line: string): string {
  if (!/[\uFDD0-\uFDEF]/.test(line)) return line;
  const chars = Array.from(withTrueMarks(line));
  const addresses = addressPlaces(chars);
  let inLink = false;
  let text = '';
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i]!;
    if (char === link || char === image) inLink = true;
    else if (char === target) inLink = false;
    const own = charOf.get(char);
    const inAddress = addresses.has(i);
    if (own !== undefined)
      text += isObeyed(own, i, chars, { inLink, inAddress }) ? `\\${own}` : own;
    // Before a link it would make a picture of it.
    else if (char === '!' && chars[i + 1] === link) text += '\\!';
    else text += signs.get(char) ?? char;
  }
  return text;
}

/** Finished lines as a paragraph: text that would open a block by accident (heading, quote, list, rule) stays text. */
export function paragraphOf(lines: string): string {
  return written(lines)
    .replace(
      /^(?:#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|~{3}|=+ *$|[|: ]*-[-|: ]*$|([_*])(?: *\1){2,} *$)/gm,
      (match) => `\\${match}`,
    )
    .replace(/^(\d{1,9})(?=[.)](?:\s|$))/gm, '$1\\');
}

interface Around {
  inLink: boolean;
  inAddress: boolean;
}

function isObeyed(own: string, at: number, chars: readonly string[], around: Around): boolean {
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

/** Whether a run of these could open or close something. */
function isFlanking(own: string, at: number, chars: readonly string[]): boolean {
  const { before, after, length } = runAround(at, chars);
  if (isSpace(before) && isSpace(after)) return false;
  if (own === '*') return true;
  // We never open with `_`, so only what could open needs care.
  if (own === '_') return !isSpace(after) && (isSpace(before) || isPunctuation(before));
  if (length > 1 || [before, after].some((mark) => isDeleted(mark))) return true;
  return !isSpace(before) && (!isPunctuation(before) || !isLetter(after));
}

const isDeleted = (char: string): boolean => char === deleted[0] || char === deleted[1];

function runAround(at: number, chars: readonly string[]) {
  let [from, to] = [at, at];
  while (at - from < runMax && chars[from - 1] === chars[at]) from--;
  while (to - at < runMax && chars[to + 1] === chars[at]) to++;
  return { before: chars[from - 1] ?? '', after: chars[to + 1] ?? '', length: to - from + 1 };
}

const isSpace = (char: string): boolean => char === '' || /\s/.test(char);
const isPunctuation = (char: string): boolean => /[\p{P}\p{S}\uFDD0-\uFDEF]/u.test(char);
const isLetter = (char: string): boolean => !isSpace(char) && !isPunctuation(char);

function isLineStart(chars: readonly string[], at: number): boolean {
  return at === 0 || chars[at - 1] === '\n';
}

/** `[name]: …`, which would vanish. */
function isDefinition(chars: readonly string[], at: number): boolean {
  const label = chars.slice(at, at + labelMax);
  const close = label.indexOf(twinOf.get(']')!);
  return close > 0 && label[close + 1] === ':';
}

/** Addresses in the text stay as they can be copied. */
function addressPlaces(chars: readonly string[]): Set<number> {
  const places = new Set<number>();
  const text = chars.map((char) => (char.length === 1 ? char : 'x')).join('');
  for (const { 0: address, index } of text.matchAll(
    /(?:https?:\/\/|www\.)[^\s\uFDD5\uFDE0-\uFDEF]*/g,
  )) {
    for (let i = 0; i < address.length; i++) places.add(index + i);
  }
  return places;
}

/** Each mark that is taken out has new neighbours, so they are looked at again until all hold. */
function withTrueMarks(line: string): string {
  let marked = line;
  for (let pass = 0; pass < passesMax; pass++) {
    // `**a****b**` and `` `a``b` `` are not what they look like.
    const joined = marked
      .replace(/\uFDE1\uFDE0|\uFDE3\uFDE2|\uFDE5\uFDE4/g, '')
      .replace(/\uFDEB\uFDEA/g, `${code[1]} ${code[0]}`);
    const next = withoutVainMarks(joined);
    if (next === marked) break;
    marked = next;
  }
  return marked;
}

/** A mark inside its own kind says nothing; one that does not lean on its text would be shown as stars. */
function withoutVainMarks(line: string): string {
  const chars = Array.from(line);
  const open: { char: string; at: number; isVain: boolean }[] = [];
  const vain = new Set<number>();
  chars.forEach((char, at) => {
    if (closerOf.has(char)) {
      const isVain = open.some((other) => other.char === char) || !leansRight(chars, at);
      open.push({ char, at, isVain: isVain || isTorn(chars, at) });
    } else if (openers.has(char)) {
      const opener = open.pop();
      if (!opener) vain.add(at);
      else if (opener.isVain || !leansLeft(chars, at) || isTorn(chars, at))
        vain.add(at).add(opener.at);
    }
  });
  for (const { at } of open) vain.add(at);
  return vain.size === 0 ? line : chars.filter((_, at) => !vain.has(at)).join('');
}

/** Stars that end something and stars that begin something, side by side: the weaker mark gives way. */
function isTorn(chars: readonly string[], at: number): boolean {
  const [open, close] = emphasis;
  if (chars[at] === open) return chars[at - 1] === strong[1];
  return chars[at] === close && chars[at + 1] === strong[0];
}

function leansRight(chars: readonly string[], at: number): boolean {
  const [before, after] = beyondMarks(chars, at);
  return !isSpace(after) && (isLetter(after) || isSpace(before) || isPunctuation(before));
}

function leansLeft(chars: readonly string[], at: number): boolean {
  const [before, after] = beyondMarks(chars, at);
  return !isSpace(before) && (isLetter(before) || isSpace(after) || isPunctuation(after));
}

/** Stars side by side are read as one run, and so are tildes. */
function beyondMarks(chars: readonly string[], at: number): [string, string] {
  const sign = signs.get(chars[at]!)![0];
  const isSame = (char = '') => signs.get(char)?.[0] === sign;
  let [from, to] = [at, at];
  while (isSame(chars[from - 1])) from--;
  while (isSame(chars[to + 1])) to++;
  return [chars[from - 1] ?? '', chars[to + 1] ?? ''];
}

function destination(url: string): string {
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
