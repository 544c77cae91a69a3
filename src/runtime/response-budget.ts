// Keeps a response within a JSON byte budget and reports what it omits. A list with a cursor is cut only here, between
// two items, by the operation that creates the cursor, so that the cursor continues exactly where the response ends.
import { z } from 'zod';

/** What a response omits, and how to get it. */
export const omitted: z.ZodType<Omitted> = z.object({
  items: z.number().optional().describe('Omitted list items'),
  bytes: z.number().optional().describe('Omitted bytes'),
  reason: z.string().describe('Why, and how to get the rest'),
});

export interface Omitted {
  items?: number | undefined;
  bytes?: number | undefined;
  reason: string;
}

interface Bounded {
  value: unknown;
  /** The JSON text, if it was computed and nothing was omitted. */
  json?: string | undefined;
  omitted?: Omitted;
}

interface FitResult<T> {
  shown: T[];
  /** Set if the budget (not the page size) ended the list, or if the only item was shortened. */
  omitted?: Omitted;
}

/** Reserved for the fields around a list. */
const envelopeBytes = 300;
const minStringBytes = 80;
const maxRounds = 14;
const maxPaths = 3;

/**
 * Returns the first items that fit, at least one, so that a cursor always advances. `rest` explains how to get the
 * others: by a cursor, or by narrowing the request.
 */
export function fitItems<T>(
  items: readonly T[],
  maxBytes: number | undefined,
  rest = 'continue with nextCursor',
): FitResult<T> {
  if (maxBytes === undefined) return { shown: [...items] };
  let room = maxBytes - envelopeBytes;
  const shown: T[] = [];
  for (const item of items) {
    room -= jsonBytes(item) + 1;
    if (room < 0) break;
    shown.push(item);
  }
  if (shown.length === items.length) return { shown };
  const first = shown.length === 0 ? bound(items[0], maxBytes - envelopeBytes) : undefined;
  if (first) shown.push(first.value as T);
  const left = items.length - shown.length;
  const reason = [first?.omitted?.reason, ...(left > 0 ? [`response limit: ${rest}`] : [])];
  return {
    shown,
    omitted: {
      ...(left > 0 ? { items: left } : {}),
      ...(first?.omitted?.bytes === undefined ? {} : { bytes: first.omitted.bytes }),
      reason: reason.filter(Boolean).join('; '),
    },
  };
}

/** The longest prefix whose JSON fits. Never splits a character and is never empty. */
export function fitText(text: string, maxBytes: number | undefined): string {
  if (maxBytes === undefined || jsonBytes(text) <= maxBytes) return text;
  let low = 1;
  let high = Math.min(text.length, maxBytes);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (jsonBytes(text.slice(0, middle)) <= maxBytes) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, withoutHalfCharacter(text, low));
}

function withoutHalfCharacter(text: string, end: number): number {
  const code = text.charCodeAt(end - 1);
  const isHalf = code >= 0xd800 && code <= 0xdbff && end < text.length;
  if (!isHalf) return end;
  return end === 1 ? 2 : end - 1;
}

/** Reads with smaller and smaller limits until the JSON fits, because escaping makes text longer than its bytes. */
export async function fitReading<T>(
  limit: number,
  maxBytes: number | undefined,
  read: (limit: number) => Promise<T>,
): Promise<T> {
  let current = maxBytes === undefined ? limit : Math.min(limit, maxBytes);
  for (let round = 0; ; round++) {
    const value = await read(current);
    const bytes = maxBytes === undefined ? 0 : jsonBytes(value);
    if (maxBytes === undefined || bytes <= maxBytes || round === maxRounds) return value;
    current = Math.max(1, Math.floor(current * Math.min(0.9, maxBytes / bytes)));
  }
}

/**
 * Shortens long strings and lists, largest first. Only for values without a cursor, because a cursor cannot reach what
 * it omits.
 */
export function bound(value: unknown, maxBytes: number): Bounded {
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined || Buffer.byteLength(json) <= maxBytes) return { value, json };
  let allowed = maxBytes / 2;
  for (let round = 0; round < maxRounds; round++) {
    const small = shrink(value, Math.max(allowed, minStringBytes));
    if (jsonBytes(small.value) <= maxBytes)
      return { value: small.value, omitted: summarize(small) };
    allowed /= 2;
  }
  return withoutLargestFields(value, maxBytes, Buffer.byteLength(json));
}

/** For an object of many small fields. Its smallest fields remain: ids, names and states. */
function withoutLargestFields(value: unknown, maxBytes: number, bytes: number): Bounded {
  const reason = (text: string) => `response limit: ${text}`;
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    return {
      value: null,
      omitted: { bytes, reason: reason(`${bytes} bytes that cannot be shortened`) },
    };
  const rest = new Map(Object.entries(value));
  const bySize = [...rest].toSorted(([, a], [, b]) => jsonBytes(b) - jsonBytes(a));
  const dropped: string[] = [];
  for (const [name] of bySize) {
    if (jsonBytes(Object.fromEntries(rest)) <= maxBytes) break;
    rest.delete(name);
    dropped.push(name);
  }
  const kept = Object.fromEntries(rest);
  const omittedBytes = bytes - jsonBytes(kept);
  return {
    value: kept,
    omitted: { bytes: omittedBytes, reason: reason(`${dropped.join(', ')} left out`) },
  };
}

interface ShrinkResult {
  value: unknown;
  items: number;
  bytes: number;
  paths: string[];
}

function summarize({ items, bytes, paths }: ShrinkResult): Omitted {
  const named = paths.slice(0, maxPaths).join(', ');
  const more = paths.length > maxPaths ? ` and ${paths.length - maxPaths} more` : '';
  return {
    ...(items > 0 ? { items } : {}),
    ...(bytes > 0 ? { bytes } : {}),
    reason: `response limit: ${named || 'value'}${more} shortened`,
  };
}

/** Cuts every string and list to about `maxPartBytes`. */
function shrink(value: unknown, maxPartBytes: number): ShrinkResult {
  const cut: ShrinkResult = { value, items: 0, bytes: 0, paths: [] };
  const walk = (part: unknown, path: string): unknown => {
    if (typeof part === 'string') return cutString(part, path);
    if (Array.isArray(part)) return cutList(part, path);
    if (part === null || typeof part !== 'object') return part;
    return Object.fromEntries(
      Object.entries(part).map(([key, inner]) => [key, walk(inner, path ? `${path}.${key}` : key)]),
    );
  };
  const cutString = (text: string, path: string): string => {
    const kept = fitText(text, maxPartBytes);
    if (kept.length === text.length) return text;
    cut.bytes += Buffer.byteLength(text) - Buffer.byteLength(kept);
    cut.paths.push(path);
    return kept;
  };
  const cutList = (list: unknown[], path: string): unknown[] => {
    const kept: unknown[] = [];
    let bytes = 0;
    for (const [i, item] of list.entries()) {
      const small = walk(item, `${path}[${i}]`);
      bytes += jsonBytes(small);
      if (bytes > maxPartBytes) break;
      kept.push(small);
    }
    if (kept.length < list.length) {
      cut.items += list.length - kept.length;
      cut.paths.push(path);
    }
    return kept;
  };
  cut.value = walk(value, '');
  return cut;
}

/** Cuts to at most `maxBytes` bytes of UTF-8 without splitting a character. */
export function cutText(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}
