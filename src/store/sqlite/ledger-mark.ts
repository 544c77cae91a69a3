// The home's record of its ledger, in a small file next to the database: the ledger id and its number of commits. It
// detects a database that is missing, foreign, or older than the one the home last used.
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

export interface LedgerMark {
  /** The ledger id, or `anyLedger` while a restore or a copy replaces the database. */
  ledger: string;
  commits: number;
}

/** Matches every Errand database, but not a missing or an empty one. */
export const anyLedger = '*';

const format = /^errand ledger\n(\*|[0-9a-f]{32}) *\n(\d{16})\n$/;
const idChars = 32;
const numberChars = 16;
const head = 'errand ledger\n';
/** Offset of the commit count, which is overwritten in place by one short write. */
const numberOffset = head.length + idChars + 1;

/** Returns undefined if the file does not exist. Throws if its content is invalid. */
export function readMark(path: string): LedgerMark | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const [, ledger, commits] = format.exec(text) ?? [];
  if (ledger === undefined) throw new Error('its content has an unknown format');
  return { ledger, commits: Number(commits) };
}

/** Replaces the file atomically; the new content is on disk before the rename. */
export function writeMark(path: string, { ledger, commits }: LedgerMark): void {
  const next = `${path}.new`;
  const file = openSync(next, 'w', 0o600);
  try {
    writeSync(file, `${head}${ledger.padEnd(idChars)}\n${digits(commits)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(next, path);
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Records each commit of an open store after its COMMIT, so the database is never behind the record. */
export class CommitMark {
  private file: number | undefined;

  constructor(path: string, mark: LedgerMark) {
    writeMark(path, mark);
    this.file = openSync(path, 'r+');
  }

  write(commits: number): void {
    if (this.file === undefined) return;
    try {
      writeSync(this.file, digits(commits), numberOffset);
    } catch {
      // The commit itself is durable. A lower number only weakens the next check.
    }
  }

  close(): void {
    if (this.file !== undefined) closeSync(this.file);
    this.file = undefined;
  }
}

const digits = (n: number): string => String(n).padStart(numberChars, '0');
