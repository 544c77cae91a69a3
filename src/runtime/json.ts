// JSON that loses nothing on its way through: integers beyond 2^53 keep their digits. Text from outside is parsed under
// the input limits; text that the store holds is decoded without ever throwing.
import { AppError } from '../errors.ts';
import { checkText, inputLimits, nestingOf, type InputLimits } from './input-limits.ts';

/** JSON.rawJSON and the reviver's third argument are newer than the type library. */
const exactJson = JSON as unknown as {
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
};

/** For text from outside. Throws SyntaxError for what is not JSON, and invalidInput for what exceeds a limit. */
export function parseJson(text: string, limits: InputLimits = inputLimits): unknown {
  checkText(text, limits);
  return parseExact(text, (source) => {
    throw new AppError('invalidInput', `The number ${source.slice(0, 40)} is out of range.`, {
      hint: 'Numbers are 64-bit floating point; send a larger one as a string.',
      data: { limit: 'number' },
    });
  });
}

/** Deeper JSON could be parsed but not written again: writing is recursive. */
const storedDepthMax = 2000;

/** For text of the store. Undefined: it cannot be decoded, because it is damaged or nested too deeply. */
export function decodeJson(text: unknown): { value: unknown } | undefined {
  if (typeof text !== 'string' || nestingOf(text) > storedDepthMax) return undefined;
  try {
    return { value: parseExact(text, (source) => exactJson.rawJSON(source)) };
  } catch {
    return undefined;
  }
}

/** The same where a value that cannot be decoded is replaced by another one. */
export function decodeJsonOr<T>(text: unknown, otherwise: T): T {
  const decoded = decodeJson(text);
  return decoded === undefined ? otherwise : (decoded.value as T);
}

function parseExact(text: string, onOverflow: (source: string) => unknown): unknown {
  // Only such a run of digits can be an integer that a number would round, or a number beyond every double.
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

/** What Number() gives, also for an integer that kept its digits, which has no primitive value. */
export const numberOf = (value: unknown): number =>
  Number(exactJson.isRawJSON(value) ? JSON.stringify(value) : value);

/** The same of String(). */
export const textOf = (value: unknown): string =>
  exactJson.isRawJSON(value) ? JSON.stringify(value) : String(value);

/** An object with fields, as `{…}` is written. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The same text for the same value, in whatever order its fields came. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isRecord(inner) && !exactJson.isRawJSON(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** Python writes NaN and Infinity bare: outside of strings they become null. Undefined: not JSON even so. */
export function parseLenientJson(text: string, limits: InputLimits = inputLimits): unknown {
  try {
    return parseJson(text, limits);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const corrected = text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (token) =>
    token.startsWith('"') ? token : 'null',
  );
  try {
    return parseJson(corrected, limits);
  } catch {
    return undefined;
  }
}
