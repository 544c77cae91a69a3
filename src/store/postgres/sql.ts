// The common SQL as PostgreSQL takes it: `?` becomes `$n`, 64-bit integers come back as numbers, and each text gets a
// name under which the server keeps its plan.
import { createHash } from 'node:crypto';

export interface Prepared {
  name: string;
  text: string;
}

/** So many different texts are kept by name per connection; what comes after them is sent whole each time. */
const namedMax = 1000;
const prepared = new Map<string, Prepared | { text: string }>();

export function prepare(sql: string): Prepared | { text: string } {
  let query = prepared.get(sql);
  if (!query) {
    const text = numbered(sql);
    const name = createHash('sha1').update(text).digest('base64url');
    query = prepared.size < namedMax ? { name, text } : { text };
    if (prepared.size < namedMax) prepared.set(sql, query);
  }
  return query;
}

/** Every `?` outside quotes and comments is a placeholder. */
export function numbered(sql: string): string {
  let n = 0;
  return sql.replaceAll(/'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\?/g, (token) =>
    token === '?' ? `$${(n += 1)}` : token,
  );
}

const int8 = 20;
const numeric = 1700;

/** Counts, sums, times and cursors of ours all fit in a double's 53 bits. */
export const isInteger = (oid: number): boolean => oid === int8 || oid === numeric;

export const returnsRows = (sql: string): boolean =>
  /\bRETURNING\b|^\s*(?:SELECT|WITH)\b/i.test(sql);
