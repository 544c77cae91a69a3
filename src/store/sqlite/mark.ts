// The home's record of its ledger, in a small file next to the database: which ledger it is and how many commits it has.
// A database that is missing, foreign, or behind this number is not the one the home worked with.
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

export interface LedgerMark {
  /** The id of the ledger; `anyLedger` while a restore or a copy replaces the database. */
  ledger: string;
  commits: number;
}

/** Accepts any Errand database, but not a missing or an empty one. */
export const anyLedger = '*';

const form = /^errand ledger\n(\*|[0-9a-f]{32}) *\n(\d{16})\n$/;
const idChars = 32;
const numberChars = 16;
const head = 'errand ledger\n';
/** Where the number is: it is overwritten in place, by one short write. */
const numberAt = head.length + idChars + 1;

/** Undefined: no such file. Throws for a file with other content. */
export function readMark(path: string): LedgerMark | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const [, ledger, commits] = form.exec(text) ?? [];
  if (ledger === undefined) throw new Error('it has an unknown form');
  return { ledger, commits: Number(commits) };
}

/** Complete on disk before it is in place. */
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

/** Follows the commits of an open store. Written after each COMMIT, so the database is never behind it. */
export class CommitMark {
  private file: number | undefined;

  constructor(path: string, mark: LedgerMark) {
    writeMark(path, mark);
    this.file = openSync(path, 'r+');
  }

  write(commits: number): void {
    if (this.file === undefined) return;
    try {
      writeSync(this.file, digits(commits), numberAt);
    } catch {
      // The commit is durable. A number that is too low only weakens the next check.
    }
  }

  close(): void {
    if (this.file !== undefined) closeSync(this.file);
    this.file = undefined;
  }
}

const digits = (n: number): string => String(n).padStart(numberChars, '0');
