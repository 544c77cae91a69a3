// JSON that loses nothing on its way through: integers beyond 2^53 keep their digits, and nesting has a limit, because
// writing what is nested too deep would overflow the stack.
import { AppError } from '../errors.ts';

/** JSON.rawJSON and the reviver's third argument are newer than the type library. */
const exactJson = JSON as unknown as {
  rawJSON(text: string): unknown;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
};

const jsonDepthMax = 500;

/** Throws SyntaxError for what is not JSON, and invalidInput for what is nested too deep. */
export function parseJson(text: string): unknown {
  if (depth(text) > jsonDepthMax) {
    throw new AppError('invalidInput', `The JSON is nested deeper than ${jsonDepthMax} levels.`, {
      hint: 'Flatten it, or pass it as a string.',
    });
  }
  // Only such a run of digits can be an integer that a number would round.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return exactJson.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && isRounded(value, source)
      ? exactJson.rawJSON(source)
      : value,
  );
}

function isRounded(value: number, source: string): boolean {
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(value);
}

/** How deep brackets nest; text inside strings does not count. */
function depth(text: string): number {
  if (text.length < 2 * jsonDepthMax) return 0;
  let open = 0;
  let deepest = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++open);
    else if (code === 0x5d || code === 0x7d) open--;
  }
  return deepest;
}

function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x5c) i++;
    else if (code === 0x22) return i;
  }
  return text.length;
}

/** An object with fields, as `{…}` is written. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The same text for the same value, in whatever order its fields came. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isRecord(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** Python writes NaN and Infinity bare: outside of strings they become null. Undefined: not JSON even so. */
export function parseLenientJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const mended = text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (token) =>
    token.startsWith('"') ? token : 'null',
  );
  try {
    return parseJson(mended);
  } catch {
    return undefined;
  }
}
