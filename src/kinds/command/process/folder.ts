// The files of one launch: where they are and what they contain. A voided launch is followed by a new launch with its own
// folder, so a late wrapper can never claim the new one.
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  writeSync,
} from 'node:fs';
import { constants as osConstants } from 'node:os';
import { join } from 'node:path';
import { exitRecordBytes } from './wrapper.ts';
import { startTicks, type Identity } from '../../../runtime/process-identity.ts';

export interface ExitRecord {
  /** Null if a signal ended it. */
  exitCode: number | null;
  signal: string | null;
  cpuUserMs: number;
  cpuSystemMs: number;
  /** When the record was completed, according to the file time. */
  at: number;
}

type Claim =
  | { state: 'none' }
  | { state: 'void' }
  /** Claimed, but the identity is not written yet. */
  | { state: 'unreadable' }
  | { state: 'claimed'; identity: Identity; at: number };

export class LaunchFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  get claim(): string {
    return join(this.path, 'claim');
  }
  get exit(): string {
    return join(this.path, 'exit');
  }
  get out(): string {
    return join(this.path, 'out');
  }
  /** Only for jobs with split streams. */
  get err(): string {
    return join(this.path, 'err');
  }
  get stdin(): string {
    return join(this.path, 'stdin');
  }
  get holder(): string {
    return join(this.path, 'holder');
  }
  /** Why the server or the guard ended it (timeout, outputLimit, cancel). Written before the first signal. */
  get endReason(): string {
    return join(this.path, 'ending');
  }
  /** Exists if a SIGINT was sent through Errand: the wrapper's shell prints no message for that signal. */
  get interrupted(): string {
    return join(this.path, 'interrupted');
  }
  /** Size of a resized terminal, as JSON. */
  get size(): string {
    return join(this.path, 'size');
  }
  /** Ports of the ready check that were in use before the payload started. */
  get taken(): string {
    return join(this.path, 'taken');
  }
  /** Offset of the first byte that a ring still contains. */
  get dropped(): string {
    return join(this.path, 'dropped');
  }

  create(): void {
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    const fd = openSync(this.exit, 'wx', 0o600);
    try {
      writeSync(fd, Buffer.alloc(exitRecordBytes, ' '));
    } finally {
      closeSync(fd);
    }
  }

  readClaim(): Claim {
    const text = textOf(this.claim);
    if (text === undefined) return { state: 'none' };
    if (text.startsWith('void')) return { state: 'void' };
    const [pid, bootId, stat, end] = text.split('\n');
    if (end !== 'end') return { state: 'unreadable' };
    const identity = { pid: Number(pid), bootId: bootId ?? '', start: startTicks(stat ?? '') };
    return { state: 'claimed', identity, at: statSync(this.claim).mtimeMs };
  }

  /** Returns true if this call created the claim: the payload will never start. */
  voidClaim(): boolean {
    try {
      mkdirSync(this.path, { recursive: true, mode: 0o700 });
      const fd = openSync(this.claim, 'wx', 0o600);
      writeSync(fd, 'void\n');
      closeSync(fd);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  }

  readExit(): ExitRecord | undefined {
    const text = textOf(this.exit);
    if (text === undefined) return undefined;
    const record = parseExit(text, () => statSync(this.exit).mtimeMs);
    const byInterrupt = record?.exitCode === interruptCode && existsSync(this.interrupted);
    return byInterrupt ? { ...record, exitCode: null, signal: 'SIGINT' } : record;
  }
}

/** Launch folders are named `<attempt>.<launch>` in the job folder. Returns the newest launch of the attempt, if any. */
export function launchFolder(jobFolder: string, attempt: number): LaunchFolder | undefined {
  const number = lastLaunch(jobFolder, attempt);
  return number === 0 ? undefined : new LaunchFolder(join(jobFolder, `${attempt}.${number}`));
}

export function nextLaunchFolder(jobFolder: string, attempt: number): LaunchFolder {
  const number = lastLaunch(jobFolder, attempt) + 1;
  return new LaunchFolder(join(jobFolder, `${attempt}.${number}`));
}

function lastLaunch(jobFolder: string, attempt: number): number {
  if (!existsSync(jobFolder)) return 0;
  let last = 0;
  for (const name of readdirSync(jobFolder)) {
    const [a, n] = name.split('.');
    if (Number(a) === attempt) last = Math.max(last, Number(n) || 0);
  }
  return last;
}

/** How a shell reports SIGINT, and how programs that handle it exit. */
const interruptCode = 128 + osConstants.signals.SIGINT;

/** Some numbers have two names. The first one is the common one. */
const signalNames = new Map(
  Object.entries(osConstants.signals)
    .map(([name, number]) => [number, name] as const)
    .toReversed(),
);

/**
 * The shell reports 128 + n both for a signal and for `exit 128+n`, but prints a message only for a signal. It prints none
 * for SIGINT and SIGPIPE, so 130 and 141 remain exit codes, except for a SIGINT that was sent through Errand (see readExit).
 */
export function parseExit(text: string, at: () => number): ExitRecord | undefined {
  const match = /^([\s\S]*?)\ncode (\d+)\n([^\n]*)\n([^\n]*)\nend\n/.exec(text);
  if (!match) return undefined;
  const code = Number(match[2]);
  const signal = match[1]!.trim() && code > 128 ? (signalNames.get(code - 128) ?? null) : null;
  const [user, system] = match[4]!.split(' ').map(cpuMs);
  return {
    exitCode: signal ? null : code,
    signal,
    cpuUserMs: user ?? 0,
    cpuSystemMs: system ?? 0,
    at: at(),
  };
}

/** `1m2.345s` */
function cpuMs(text: string): number {
  const match = /^(\d+)m([\d.]+)s$/.exec(text);
  return match ? Math.round((Number(match[1]) * 60 + Number(match[2])) * 1000) : 0;
}

export function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}
