// Rows that were looked up by their key since the last commit. Nobody else writes to the file, so they are still true, and
// whoever waits for a job asks for it again and again.
import type { Row } from '../store.ts';

const rowsMax = 256;
/** A larger row is worth a look at the file. */
const rowCharsMax = 32_768;

export class Answers {
  /** By statement, then by key. */
  private readonly rows = new Map<string, Map<string, Row>>();
  private count = 0;

  find(sql: string, key: string): Row | undefined {
    const row = this.rows.get(sql)?.get(key);
    // A row is its reader's to change.
    return row && { ...row };
  }

  keep(sql: string, key: string, row: Row): void {
    if (this.count >= rowsMax || !isSmall(row)) return;
    let byKey = this.rows.get(sql);
    if (!byKey) this.rows.set(sql, (byKey = new Map()));
    byKey.set(key, { ...row });
    this.count += 1;
  }

  /** Something is about to be written. */
  forget(): void {
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
  return chars <= rowCharsMax;
}
