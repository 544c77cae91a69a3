// Limits for JSON from callers and workers: nesting depth, object size, string length and number length. Checked once on
// entry, on the text if possible, before anything is stored.
import { AppError } from '../errors.ts';

export interface InputLimits {
  /** Nesting depth of objects and arrays. */
  maxDepth: number;
  /** Members per object. */
  maxKeys: number;
  /** UTF-16 code units per string or key. */
  maxStringChars: number;
  /** Characters per number. */
  maxNumberChars: number;
}

export const inputLimits: InputLimits = {
  maxDepth: 500,
  maxKeys: 100_000,
  maxStringChars: 32 * 1024 * 1024,
  maxNumberChars: 1000,
};

/** A result may be one long string (an image, a video). The request size limits it. */
export const resultLimits: InputLimits = { ...inputLimits, maxStringChars: Infinity };

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/** Throws invalidInput if the JSON text exceeds a limit. Leaves invalid JSON to the parser. */
export function checkText(text: string, limits: InputLimits): void {
  // Shorter text cannot exceed any limit.
  if (text.length <= Math.min(limits.maxDepth, limits.maxNumberChars)) return;
  /** Member count of each open object or array. */
  const members: number[] = [];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === quote) {
      const end = endOfString(text, i);
      if (end - i - 1 > limits.maxStringChars) throw limitError('maxStringChars', limits);
      i = end;
    } else if (code === 0x5b || code === 0x7b) {
      if (members.push(0) > limits.maxDepth) throw limitError('maxDepth', limits);
    } else if (code === 0x5d || code === 0x7d) members.pop();
    else if (code === colon) {
      if (++members[members.length - 1]! > limits.maxKeys) throw limitError('maxKeys', limits);
    } else if (isDigit(code)) {
      const end = endOfNumber(text, i);
      if (end - i > limits.maxNumberChars) throw limitError('maxNumberChars', limits);
      i = end - 1;
    }
  }
}

/** Same as checkText for a parsed value. Does not inspect typed arrays. */
export function checkInput(value: unknown, limits: InputLimits = inputLimits): void {
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    const inner: unknown[] = [];
    let hasContainer = false;
    for (const one of level) {
      if (typeof one === 'string') checkString(one, limits);
      else if (typeof one === 'number' && !Number.isFinite(one)) throw rangeError();
      else if (rawNumbers.isRawJSON(one)) checkRawNumber(JSON.stringify(one), limits);
      else if (isContainer(one)) {
        hasContainer = true;
        addChildren(one, inner, limits);
      }
    }
    if (hasContainer && depth >= limits.maxDepth) throw limitError('maxDepth', limits);
    level = inner;
  }
}

/** Whether objects and arrays are nested deeper than `maxDepth`. */
export function isDeeperThan(value: unknown, maxDepth: number): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= maxDepth; depth++) {
    const containers = level.filter(isContainer);
    if (containers.length === 0) return false;
    level = containers.flatMap((one): unknown[] => Object.values(one));
  }
  return true;
}

/** Nesting depth of brackets outside strings. */
export function nestingDepth(text: string): number {
  // Short text cannot be nested deeply.
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

function addChildren(container: object, inner: unknown[], limits: InputLimits): void {
  if (Array.isArray(container)) {
    for (const part of container) inner.push(part);
    return;
  }
  const keys = Object.keys(container);
  if (keys.length > limits.maxKeys) throw limitError('maxKeys', limits);
  for (const key of keys) {
    checkString(key, limits);
    inner.push((container as Record<string, unknown>)[key]);
  }
}

const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);

/** The type library lacks it. A raw number keeps the digits that a double would round. */
const rawNumbers = JSON as unknown as { isRawJSON(value: unknown): boolean };

function checkRawNumber(text: string, limits: InputLimits): void {
  if (text.length > limits.maxNumberChars) throw limitError('maxNumberChars', limits);
  if (!/^-?\d+$/.test(text) && !Number.isFinite(Number(text))) throw rangeError();
}

function checkString(text: string, limits: InputLimits): void {
  if (text.length > limits.maxStringChars) throw limitError('maxStringChars', limits);
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
  maxDepth: (max) => `The JSON is nested deeper than ${max} levels.`,
  maxKeys: (max) => `An object in the JSON has more than ${max} keys.`,
  maxStringChars: (max) => `A string in the JSON is longer than ${max} characters.`,
  maxNumberChars: (max) => `A number in the JSON is longer than ${max} characters.`,
};
const hints: Record<keyof InputLimits, string> = {
  maxDepth: 'Flatten it, or pass it as a string.',
  maxKeys: 'Use a list, or several objects.',
  maxStringChars: 'Pass a URL or a file instead of the content.',
  maxNumberChars: 'Pass it as a string.',
};

function limitError(limit: keyof InputLimits, limits: InputLimits): AppError {
  return new AppError('invalidInput', texts[limit](limits[limit]), {
    hint: hints[limit],
    data: { limit, max: limits[limit] },
  });
}

function rangeError(): AppError {
  return new AppError('invalidInput', 'A number is out of range.', {
    hint: 'Numbers are 64-bit floating point. Send larger ones as strings.',
    data: { limit: 'number' },
  });
}
