// The limits of what callers and workers may send as JSON: nesting, members of one object, length of a string, form of a
// number. Checked once where it enters, on the text where there is one, before anything is stored.
import { AppError } from '../errors.ts';

export interface InputLimits {
  /** Objects and arrays inside each other. */
  depthMax: number;
  /** Members of one object. */
  keysMax: number;
  /** UTF-16 units of one string or key. */
  stringCharsMax: number;
  /** Characters of one number. */
  numberCharsMax: number;
}

export const inputLimits: InputLimits = {
  depthMax: 500,
  keysMax: 100_000,
  stringCharsMax: 32 * 1024 * 1024,
  numberCharsMax: 1000,
};

/** A result may be one long string (a picture, a video); its size is the limit of the request that carries it. */
export const resultLimits: InputLimits = { ...inputLimits, stringCharsMax: Infinity };

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/** Throws invalidInput for JSON text that exceeds a limit. Text that is not JSON is left to the parser. */
export function checkText(text: string, limits: InputLimits): void {
  // Shorter text can exceed none of them.
  if (text.length <= Math.min(limits.depthMax, limits.numberCharsMax)) return;
  /** Members of each open object or array. */
  const members: number[] = [];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === quote) {
      const end = endOfString(text, i);
      if (end - i - 1 > limits.stringCharsMax) throw exceeds('stringCharsMax', limits);
      i = end;
    } else if (code === 0x5b || code === 0x7b) {
      if (members.push(0) > limits.depthMax) throw exceeds('depthMax', limits);
    } else if (code === 0x5d || code === 0x7d) members.pop();
    else if (code === colon) {
      if (++members[members.length - 1]! > limits.keysMax) throw exceeds('keysMax', limits);
    } else if (isDigit(code)) {
      const end = endOfNumber(text, i);
      if (end - i > limits.numberCharsMax) throw exceeds('numberCharsMax', limits);
      i = end - 1;
    }
  }
}

/** The same for a value that was parsed elsewhere. Bytes are not looked into. */
export function checkInput(value: unknown, limits: InputLimits = inputLimits): void {
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    const inner: unknown[] = [];
    let hasContainer = false;
    for (const one of level) {
      if (typeof one === 'string') checkString(one, limits);
      else if (typeof one === 'number' && !Number.isFinite(one)) throw notFinite();
      else if (isContainer(one)) {
        hasContainer = true;
        addParts(one, inner, limits);
      }
    }
    if (hasContainer && depth >= limits.depthMax) throw exceeds('depthMax', limits);
    level = inner;
  }
}

/** Whether objects and arrays nest deeper than this. */
export function isDeeperThan(value: unknown, depthMax: number): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= depthMax; depth++) {
    const containers = level.filter(isContainer);
    if (containers.length === 0) return false;
    level = containers.flatMap((one): unknown[] => Object.values(one));
  }
  return true;
}

/** How deep brackets nest; text inside strings does not count. */
export function nestingOf(text: string): number {
  // Most rows are short: they cannot nest deeply.
  if (text.length < shortChars) return 0;
  let open = 0;
  let deepest = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === quote) i = endOfString(text, i);
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++open);
    else if (code === 0x5d || code === 0x7d) open--;
  }
  return deepest;
}

const shortChars = 1000;

function addParts(container: object, inner: unknown[], limits: InputLimits): void {
  if (Array.isArray(container)) {
    for (const part of container) inner.push(part);
    return;
  }
  const keys = Object.keys(container);
  if (keys.length > limits.keysMax) throw exceeds('keysMax', limits);
  for (const key of keys) {
    checkString(key, limits);
    inner.push((container as Record<string, unknown>)[key]);
  }
}

const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);

function checkString(text: string, limits: InputLimits): void {
  if (text.length > limits.stringCharsMax) throw exceeds('stringCharsMax', limits);
}

function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === backslash) i++;
    else if (code === quote) return i;
  }
  return text.length;
}

function endOfNumber(text: string, start: number): number {
  let end = start + 1;
  while (end < text.length && isNumberPart(text.charCodeAt(end))) end++;
  return end;
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
/** Digits, `.`, `e`, `E`, `+` and `-`. */
const isNumberPart = (code: number): boolean =>
  isDigit(code) || code === 0x2e || (code | 0x20) === 0x65 || code === 0x2b || code === 0x2d;

const texts: Record<keyof InputLimits, (max: number) => string> = {
  depthMax: (max) => `The JSON is nested deeper than ${max} levels.`,
  keysMax: (max) => `An object in the JSON has more than ${max} keys.`,
  stringCharsMax: (max) => `A string in the JSON is longer than ${max} characters.`,
  numberCharsMax: (max) => `A number in the JSON is longer than ${max} characters.`,
};
const hints: Record<keyof InputLimits, string> = {
  depthMax: 'Flatten it, or pass it as a string.',
  keysMax: 'Use a list, or several objects.',
  stringCharsMax: 'Pass a URL or a file instead of the content.',
  numberCharsMax: 'Pass it as a string.',
};

function exceeds(limit: keyof InputLimits, limits: InputLimits): AppError {
  return new AppError('invalidInput', texts[limit](limits[limit]), {
    hint: hints[limit],
    data: { limit, max: limits[limit] },
  });
}

function notFinite(): AppError {
  return new AppError('invalidInput', 'A number is out of range.', {
    hint: 'Numbers are 64-bit floating point; send a larger one as a string.',
    data: { limit: 'number' },
  });
}
