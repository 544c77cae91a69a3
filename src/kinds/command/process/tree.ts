// Finds the processes of an attempt: members of its process group, descendants, and every process with the attempt's mark in
// its environment (children that left group, session and parent). To end an attempt, it also finds processes that print into
// its files (children that cleared their environment).
// On macOS the mark cannot be read: a process that left group, session and parent is not found.
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { nextTurn } from '../../../runtime/clock.ts';
import { startTicks, type Identity } from '../../../runtime/process-identity.ts';
import { procText } from './proc.ts';

export interface ProcessRow {
  pid: number;
  ppid: number;
  pgid: number;
  session: number;
  start: string;
  state: string;
}

/** Environment variable of every payload: a process that has it belongs to that attempt. */
export const markName = 'ERRAND_ATTEMPT';

/** Yields to the event loop after this many processes. */
const rowsPerTurn = 150;

export interface Tree {
  /** Never signalled, and neither are its parents: the wrapper must write the exit record. */
  wrapper: Identity;
  mark: string;
  /** The attempt folder. If set, processes that print into its files belong to the attempt. */
  folder?: string;
  /** The wrapper exited, so its group id may have been reused. */
  groupGone?: boolean;
}

/** All processes at one moment, with indexes that concurrent callers share. */
export class Snapshot {
  readonly rows: readonly ProcessRow[];
  private readonly byPid: Map<number, ProcessRow>;
  private readonly groups: Map<number, ProcessRow[]>;
  private readonly children: Map<number, ProcessRow[]>;
  private marks: Map<string, ProcessRow[]> | undefined;

  constructor(rows: readonly ProcessRow[]) {
    this.rows = rows.filter((row) => row.state !== 'Z' && row.state !== 'X');
    this.byPid = new Map(this.rows.map((row) => [row.pid, row]));
    this.groups = Map.groupBy(this.rows, (row) => row.pgid);
    this.children = Map.groupBy(this.rows, (row) => row.ppid);
  }

  /** Group members and descendants, without marks. Reads no files. */
  relatives(wrapper: Identity): ProcessRow[] {
    return this.collect(wrapper, []);
  }

  /** Every process of the attempt except the wrapper and its parents. */
  members({ wrapper, mark, folder, groupGone = false }: Tree): ProcessRow[] {
    this.marks ??= this.readMarks();
    const marked = this.marks.get(mark) ?? [];
    if (folder === undefined) return this.collect(wrapper, marked, groupGone);
    const unmarked = this.rows.filter((row) => knownMarks.get(row.pid)?.mark === undefined);
    const printing = unmarked.filter((row) => prints(row.pid, folder));
    return this.collect(wrapper, [...marked, ...printing], groupGone);
  }

  private collect(
    wrapper: Identity,
    marked: readonly ProcessRow[],
    groupGone = false,
  ): ProcessRow[] {
    // Group ids can be reused: only processes that are not older than the wrapper can be its members.
    const numbered = groupGone ? [] : (this.groups.get(wrapper.pid) ?? []);
    const group = numbered.filter((row) => notOlder(row, wrapper));
    const lives = this.byPid.get(wrapper.pid)?.start === wrapper.start;
    const open = [
      ...group,
      ...marked.filter((row) => notOlder(row, wrapper)),
      ...(lives ? (this.children.get(wrapper.pid) ?? []) : []),
    ];
    const excluded = this.protectedPids(wrapper);
    const members = new Map<number, ProcessRow>();
    for (let row = open.pop(); row; row = open.pop()) {
      if (members.has(row.pid) || excluded.has(row.pid)) continue;
      members.set(row.pid, row);
      open.push(...(this.children.get(row.pid) ?? []));
    }
    return [...members.values()];
  }

  private protectedPids(wrapper: Identity): Set<number> {
    const excluded = new Set([wrapper.pid, process.pid]);
    const self = this.byPid.get(wrapper.pid);
    if (self?.start !== wrapper.start) return excluded;
    for (let row = this.byPid.get(self.ppid); row && row.pid > 1; row = this.byPid.get(row.ppid)) {
      if (excluded.has(row.pid)) break;
      excluded.add(row.pid);
    }
    return excluded;
  }

  /**
   * The environment of a process rarely changes, so it is read once per process. During an exec it is briefly empty; then it
   * is read again.
   */
  private readMarks(): Map<string, ProcessRow[]> {
    const marks = new Map<string, ProcessRow[]>();
    for (const row of this.rows) {
      const known = knownMarks.get(row.pid);
      const mark = known?.start === row.start ? known.mark : readMark(row);
      if (mark === undefined) continue;
      const holders = marks.get(mark);
      if (holders) holders.push(row);
      else marks.set(mark, [row]);
    }
    for (const pid of knownMarks.keys()) if (!this.byPid.has(pid)) knownMarks.delete(pid);
    return marks;
  }
}

const knownMarks = new Map<number, { start: string; mark: string | undefined }>();

/** An exec completes within a few reads. */
const environLooks = 5;
/** Parent pid of kernel threads, which never have an environment. */
const kernelThreads = 2;

function readMark({ pid, ppid, start }: ProcessRow): string | undefined {
  for (let look = 0; look < environLooks; look++) {
    const environ = environOf(pid);
    if (environ === '' && ppid !== kernelThreads) continue;
    const mark = markIn(environ);
    knownMarks.set(pid, { start, mark });
    return mark;
  }
  return undefined;
}

let running: Promise<Snapshot> | undefined;
let next: Promise<Snapshot> | undefined;

/** Takes a snapshot that starts after this call. Concurrent callers share the next one. */
export function snapshot(): Promise<Snapshot> {
  if (!running) {
    running = processTable()
      .then((rows) => new Snapshot(rows))
      .finally(() => (running = undefined));
    return running;
  }
  next ??= running
    .catch(() => {})
    .then(() => {
      next = undefined;
      return snapshot();
    });
  return next;
}

export async function treeMembers(tree: Tree): Promise<ProcessRow[]> {
  return (await snapshot()).members(tree);
}

export const identityOf = (row: ProcessRow, bootId: string): Identity => ({
  pid: row.pid,
  start: row.start,
  bootId,
});

/** True if this process group has any member left. One system call, no scan. */
export function groupExists(pgid: number): boolean {
  try {
    process.kill(-pgid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Finds processes by mark alone, for a claim whose owner could not be read. */
export async function markHolders(mark: string): Promise<ProcessRow[]> {
  const { rows } = await snapshot();
  return rows.filter((row) => markIn(environOf(row.pid)) === mark);
}

async function processTable(): Promise<ProcessRow[]> {
  if (process.platform !== 'linux') return tableFromPs();
  const rows: ProcessRow[] = [];
  let n = 0;
  for (const name of readdirSync('/proc')) {
    if (!isNumber(name)) continue;
    if (++n % rowsPerTurn === 0) await nextTurn();
    const row = rowOf(name);
    if (row) rows.push(row);
  }
  return rows;
}

function notOlder(row: ProcessRow, wrapper: Identity): boolean {
  if (process.platform !== 'linux') return true;
  return Number(row.start) >= Number(wrapper.start);
}

/** Undefined if the process has exited or belongs to another user. */
function environOf(pid: number): string | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return undefined;
  }
}

function markIn(environ = ''): string | undefined {
  const at = `\0${environ}`.indexOf(`\0${markName}=`);
  if (at < 0) return undefined;
  const from = at + markName.length + 1;
  return environ.slice(from, environ.indexOf('\0', from));
}

/** True if stdout or stderr of the process is a file in this folder. */
function prints(pid: number, folder: string): boolean {
  if (process.platform !== 'linux') return false;
  return [1, 2].some((fd) => {
    try {
      return dirname(readlinkSync(`/proc/${pid}/fd/${fd}`)) === folder;
    } catch {
      return false;
    }
  });
}

function rowOf(name: string): ProcessRow | undefined {
  const stat = procText(`/proc/${name}/stat`);
  if (stat === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    pid: Number(name),
    state: fields[0]!,
    ppid: Number(fields[1]),
    pgid: Number(fields[2]),
    session: Number(fields[3]),
    start: startTicks(stat),
  };
}

async function tableFromPs(): Promise<ProcessRow[]> {
  const args = ['-axo', 'pid=,ppid=,pgid=,state=,lstart='];
  const { stdout } = await promisify(execFile)('ps', args, { maxBuffer: 16 * 2 ** 20 });
  return stdout.split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S)\S*\s+(.*)$/.exec(line);
    if (!match) return [];
    const [, pid, ppid, pgid, state, start] = match;
    return {
      pid: Number(pid),
      ppid: Number(ppid),
      pgid: Number(pgid),
      session: 0,
      state: state!,
      start: start!.trim(),
    };
  });
}

function isNumber(name: string): boolean {
  const first = name.charCodeAt(0);
  return first >= 48 && first <= 57;
}
