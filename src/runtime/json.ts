// Lossless JSON: integers beyond 2^53 keep their digits. Text from outside is parsed under the input limits. Stored text
// is decoded without throwing.
import { isUtf8 } from 'node:buffer';
import { AppError } from '../errors.ts';
import { checkText, inputLimits, nestingDepth, type InputLimits } from './input-limits.ts';

/** The type library lacks JSON.rawJSON and the reviver's third argument. */
const exactJson = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
};

/** Parses text from outside. Throws SyntaxError for invalid JSON and invalidInput for an exceeded limit. */
export function parseJson(text: string, limits: InputLimits = inputLimits): unknown {
  checkText(text, limits);
  return parseExact(text, (source) => {
    throw new AppError('invalidInput', `The number ${source.slice(0, 40)} is out of range.`, {
      hint: 'Numbers are 64-bit floating point. Send larger ones as strings.',
      data: { limit: 'number' },
    });
  });
}

/** The text of a body from outside. Decoding would replace invalid bytes silently, so they are rejected. */
export function utf8Text(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  throw new AppError('invalidInput', 'The body is not valid UTF-8.', {
    hint: 'Send JSON in UTF-8, uncompressed. Encode binary data as base64.',
    data: { limit: 'encoding' },
  });
}

/** JSON.parse without rounding. The caller checks the input limits. Throws SyntaxError. */
export const parseLosslessJson = (text: string): unknown =>
  parseExact(text, (source) => exactJson.rawJSON(source));

/** Deeper JSON can be parsed but not serialized, because serializing is recursive. */
const maxStoredDepth = 2000;

/** Decodes stored text. Returns undefined if it is damaged or nested too deeply. */
export function decodeJson(text: unknown): { value: unknown } | undefined {
  if (typeof text !== 'string' || nestingDepth(text) > maxStoredDepth) return undefined;
  try {
    return { value: parseLosslessJson(text) };
  } catch {
    return undefined;
  }
}

/** Same as decodeJson, with a fallback value. */
export function decodeJsonOr<T>(text: unknown, fallback: T): T {
  const decoded = decodeJson(text);
  return decoded === undefined ? fallback : (decoded.value as T);
}

/** The same where only a list, or only an object with fields, is of use: the row may hold any other JSON. */
export function decodeListOr<T>(text: unknown, otherwise: T[]): T[] {
  const value = decodeJson(text)?.value;
  return Array.isArray(value) ? (value as T[]) : otherwise;
}

export function decodeRecordOr<T extends object | null>(text: unknown, otherwise: T): T {
  const value = decodeJson(text)?.value;
  return isRecord(value) ? (value as T) : otherwise;
}

function parseExact(text: string, onOverflow: (source: string) => unknown): unknown {
  // Only text that matches this can contain an integer that a double would round, or a number beyond the double range.
  if (!/\d{16}|[eE]\+?\d{3}/.test(text)) return JSON.parse(text);
  return exactJson.parse(text, (_key, value, { source }) => {
    if (typeof value !== 'number' || source === undefined) return value;
    if (isRounded(value, source)) return exactJson.rawJSON(source);
    return Number.isFinite(value) ? value : onOverflow(source);
  });
}

function isRounded(value: number, source: string): boolean {
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(value);
}

/** Number(), extended to raw JSON integers, which have no primitive value. */
export const numberOf = (value: unknown): number =>
  Number(exactJson.isRawJSON(value) ? JSON.stringify(value) : value);

/** String(), extended to raw JSON integers. */
export const textOf = (value: unknown): string =>
  exactJson.isRawJSON(value) ? JSON.stringify(value) : String(value);

/** A plain object with fields. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** For a stored value that may have any form. */
export const isAnything = (): boolean => true;

/** Serializes with sorted keys, so that equal values have equal text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isRecord(inner) && !exactJson.isRawJSON(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** Accepts NaN and Infinity as Python writes them, and replaces them with null. Returns undefined if it still is not JSON. */
export function parseLenientJson(
  text: string,
  limits: InputLimits = inputLimits,
  /** Called when NaN or Infinity was replaced by null. */
  replaced: () => void = () => {},
): unknown {
  try {
    return parseJson(text, limits);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const corrected = text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (token) =>
    token.startsWith('"') ? token : 'null',
  );
  try {
    const value = parseJson(corrected, limits);
    replaced();
    return value;
  } catch {
    return undefined;
  }
}
