// Adapts the shared SQL to PostgreSQL: `?` becomes `$n`, 64-bit integers become numbers, and each statement gets a name
// under which the server caches its plan.
import { createHash } from 'node:crypto';

interface Prepared {
  name: string;
  text: string;
}

/** This many statements are named per connection. Further ones are sent unnamed. */
const maxNamed = 1000;
const prepared = new Map<string, Prepared | { text: string }>();

export function prepare(sql: string): Prepared | { text: string } {
  let query = prepared.get(sql);
  if (!query) {
    const text = numberPlaceholders(sql);
    const name = createHash('sha1').update(text).digest('base64url');
    query = prepared.size < maxNamed ? { name, text } : { text };
    if (prepared.size < maxNamed) prepared.set(sql, query);
  }
  return query;
}

/** Every `?` outside quotes and comments is a placeholder. */
export function numberPlaceholders(sql: string): string {
  let n = 0;
  return sql.replaceAll(/'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\?/g, (token) =>
    token === '?' ? `$${(n += 1)}` : token,
  );
}

const int8 = 20;
const numeric = 1700;

/** All our counts, sums, times and cursors fit in the 53 bits of a double. */
export const isInteger = (oid: number): boolean => oid === int8 || oid === numeric;

export const returnsRows = (sql: string): boolean =>
  /\bRETURNING\b|^\s*(?:SELECT|WITH)\b/i.test(sql);
