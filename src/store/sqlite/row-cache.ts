// Caches rows that were looked up by key since the last commit. Only this process writes to the file, so they are
// current. Callers that wait for a job read its row repeatedly.
import type { Row } from '../store.ts';

const maxRows = 256;
/** Larger rows are read from the file again. */
const maxRowChars = 32_768;

export class RowCache {
  /** By statement, then by key. */
  private readonly rows = new Map<string, Map<string, Row>>();
  private count = 0;

  find(sql: string, key: string): Row | undefined {
    const row = this.rows.get(sql)?.get(key);
    // Callers may modify the row they get.
    return row && { ...row };
  }

  add(sql: string, key: string, row: Row): void {
    if (this.count >= maxRows || !isSmall(row)) return;
    let byKey = this.rows.get(sql);
    if (!byKey) this.rows.set(sql, (byKey = new Map()));
    byKey.set(key, { ...row });
    this.count += 1;
  }

  /** Call before any write. */
  clear(): void {
    if (this.count === 0) return;
    this.rows.clear();
    this.count = 0;
  }
}

function isSmall(row: Row): boolean {
  let chars = 0;
  for (const value of Object.values(row)) {
    if (typeof value === 'string') chars += value.length;
    else if (value instanceof Uint8Array) return false;
  }
  return chars <= maxRowChars;
}
