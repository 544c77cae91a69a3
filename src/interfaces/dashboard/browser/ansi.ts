// Splits printed text into pieces with colours. Output is hostile: nothing here produces HTML, other escape sequences are
// dropped, and links are kept only if they lead to http or https.
export interface Look {
  color?: string;
  background?: string;
  isBold?: boolean;
  isDim?: boolean;
  isItalic?: boolean;
  isUnderlined?: boolean;
  isInverse?: boolean;
  isStruck?: boolean;
  href?: string;
}

export interface Piece extends Look {
  text: string;
}

/** Readable on the dark background of the output, in the order of the escape codes. */
const palette = [
  '#767b84', '#ff8478', '#5cc493', '#d9b85a', '#76b0ff', '#d79bf2', '#5ec8d8', '#d8d9dc',
  '#8b9098', '#ff9d93', '#78d9a9', '#ecd07a', '#97c3ff', '#e3b6f7', '#83dbe8', '#ffffff',
]; // prettier-ignore

/** Backgrounds are darker, so that ordinary text on them is readable. */
const backgrounds = [
  '#2b2e33', '#a8322a', '#1d6b45', '#7a5f14', '#205da8', '#7c4296', '#136673', '#c9cbcf',
]; // prettier-ignore

/** A line is cut here: nobody reads further, and the browser would stall. */
const maxLineChars = 20_000;

const escape =
  // eslint-disable-next-line no-control-regex
  /\x1b\[([0-9;:]*)m|\x1b\]8;[^;\x07\x1b]*;([^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]/g;

/** `look` carries over from one line to the next and is changed. */
export function parseLine(line: string, look: Look): Piece[] {
  // A carriage return starts the line again: only its last state stays on a terminal.
  const visible = line.replace(/\r+$/, '');
  const text = visible.slice(visible.lastIndexOf('\r') + 1);
  const pieces: Piece[] = [];
  let at = 0;
  let room = maxLineChars;
  const push = (end: number) => {
    if (end <= at || room <= 0) return;
    const part = text.slice(at, Math.min(end, at + room));
    room -= part.length;
    pieces.push({ ...look, text: part });
  };
  for (const found of text.matchAll(escape)) {
    push(found.index);
    at = found.index + found[0].length;
    if (found[1] !== undefined) applyCodes(look, found[1]);
    else if (found[2] !== undefined) setLink(look, found[2]);
  }
  push(text.length);
  if (room <= 0) pieces.push({ text: ' … line cut', isDim: true });
  return pieces;
}

function setLink(look: Look, address: string): void {
  if (/^https?:\/\//i.test(address) && URL.canParse(address)) look.href = address;
  else delete look.href;
}

function applyCodes(look: Look, text: string): void {
  const codes = text.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 38 || code === 48) {
      const { color, used } = extendedColor(codes.slice(i + 1));
      set(look, code === 38 ? 'color' : 'background', color);
      i += used;
    } else applyCode(look, code);
  }
}

const flags: Readonly<Record<number, keyof Look>> = {
  1: 'isBold',
  2: 'isDim',
  3: 'isItalic',
  4: 'isUnderlined',
  7: 'isInverse',
  9: 'isStruck',
};
const endedBy: Readonly<Record<number, (keyof Look)[]>> = {
  22: ['isBold', 'isDim'],
  23: ['isItalic'],
  24: ['isUnderlined'],
  27: ['isInverse'],
  29: ['isStruck'],
  39: ['color'],
  49: ['background'],
};

function applyCode(look: Look, code: number): void {
  if (code === 0) {
    const { href } = look;
    for (const key of Object.keys(look)) delete look[key as keyof Look];
    if (href !== undefined) look.href = href;
  } else if (flags[code]) Object.assign(look, { [flags[code]]: true });
  else if (endedBy[code]) for (const key of endedBy[code]) delete look[key];
  else if (code >= 30 && code <= 37) set(look, 'color', palette[code - 30]);
  else if (code >= 90 && code <= 97) set(look, 'color', palette[code - 82]);
  else if (code >= 40 && code <= 47) set(look, 'background', backgrounds[code - 40]);
  else if (code >= 100 && code <= 107) set(look, 'background', palette[code - 92]);
}

function set(look: Look, key: 'color' | 'background', color: string | undefined): void {
  if (color === undefined) delete look[key];
  else look[key] = color;
}

/** `5;n` is one of 256 colours, `2;r;g;b` any colour. */
function extendedColor(codes: number[]): { color: string | undefined; used: number } {
  const byte = (n: number | undefined) => Math.min(255, Math.max(0, Math.trunc(n ?? 0) || 0));
  if (codes[0] === 2)
    return { color: `rgb(${byte(codes[1])} ${byte(codes[2])} ${byte(codes[3])})`, used: 4 };
  if (codes[0] === 5) return { color: indexedColor(byte(codes[1])), used: 2 };
  return { color: undefined, used: 0 };
}

function indexedColor(n: number): string {
  if (n < 16) return palette[n]!;
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const level = (part: number) => (part === 0 ? 0 : 55 + part * 40);
  const cube = n - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

const darkInk = '#111215';
const lightInk = '#f2f2f0';
/** Text colours that a program did not choose for the background they are on. */
const neutral = new Set<string | undefined>([undefined, palette[0], palette[7], palette[15]]);

/** The colours to show: neutral text on a background is dark or light, whichever has more contrast. */
export function colorsOf(piece: Piece): { color?: string; background?: string } {
  const { color, background } = piece.isInverse
    ? { color: piece.background ?? darkInk, background: piece.color ?? palette[7]! }
    : piece;
  if (background === undefined) return color === undefined ? {} : { color };
  const isNeutral = neutral.has(color) || color === darkInk;
  const shown = isNeutral ? (isBright(background) ? darkInk : lightInk) : color!;
  return { color: shown, background };
}

function isBright(color: string): boolean {
  const [r = 0, g = 0, b = 0] = color.startsWith('#')
    ? [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16))
    : (color.match(/\d+/g) ?? []).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 120;
}
