// Keeps an answer within a number of bytes: long strings are cut and long lists shortened, largest first, and what
// was left out is named. Operations have budgets of their own; this is the last fence before a model's context.

export interface Bounded {
  value: unknown;
  /** Its JSON, where it had to be made anyway and nothing was left out. */
  json?: string | undefined;
  /** `path: what was left out`; empty when nothing was. */
  left: string[];
}

const stringBytesMin = 200;
const roundsMax = 12;

export function bound(value: unknown, bytesMax: number): Bounded {
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined || Buffer.byteLength(json) <= bytesMax) return { value, json, left: [] };
  let allowed = bytesMax / 2;
  let bounded: Bounded = { value, left: [] };
  for (let round = 0; round < roundsMax; round++) {
    bounded = shrink(value, Math.max(allowed, stringBytesMin));
    if (bytesOf(bounded.value) <= bytesMax) return bounded;
    allowed /= 2;
  }
  return { value: null, left: ['everything: it could not be shortened'] };
}

/** Cuts every string and list to about this many bytes. */
function shrink(value: unknown, partBytesMax: number): Bounded {
  const left: string[] = [];
  const walk = (part: unknown, path: string): unknown => {
    if (typeof part === 'string') return cutString(part, path);
    if (Array.isArray(part)) return cutList(part, path);
    if (part === null || typeof part !== 'object') return part;
    return Object.fromEntries(
      Object.entries(part).map(([key, inner]) => [key, walk(inner, path ? `${path}.${key}` : key)]),
    );
  };
  const cutString = (text: string, path: string): string => {
    const bytes = Buffer.byteLength(text);
    if (bytes <= partBytesMax) return text;
    const kept = cutText(text, partBytesMax);
    left.push(`${path}: ${bytes - Buffer.byteLength(kept)} of ${bytes} bytes`);
    return kept;
  };
  const cutList = (list: unknown[], path: string): unknown[] => {
    const kept: unknown[] = [];
    let bytes = 0;
    for (const [i, item] of list.entries()) {
      const small = walk(item, `${path}[${i}]`);
      bytes += bytesOf(small);
      if (bytes > partBytesMax) break;
      kept.push(small);
    }
    if (kept.length < list.length)
      left.push(`${path}: ${list.length - kept.length} of ${list.length} items`);
    return kept;
  };
  return { value: walk(value, ''), left };
}

/** At most this many bytes of UTF-8, never half a character. */
export function cutText(text: string, bytesMax: number): string {
  if (Buffer.byteLength(text) <= bytesMax) return text;
  const bytes = Buffer.from(text);
  let end = bytesMax;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}
