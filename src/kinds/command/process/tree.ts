// Which processes belong to an attempt: members of its process group, descendants by parent, and everything that
// carries the attempt's mark in its environment (children that left group, session and parent).
// On macOS there is no mark to read: a process that left all three is not found.
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { startTicks, type Identity } from './identity.ts';

export interface ProcessRow {
  pid: number;
  ppid: number;
  pgid: number;
  session: number;
  start: string;
  state: string;
}

/** In the environment of every payload: who holds it belongs to that attempt. */
export const markName = 'ERRAND_ATTEMPT';

/** The event loop gets a turn after so many processes. */
const rowsPerTurn = 150;

export async function processTable(): Promise<ProcessRow[]> {
  if (process.platform !== 'linux') return tableFromPs();
  const rows: ProcessRow[] = [];
  let n = 0;
  for (const name of readdirSync('/proc')) {
    if (!isNumber(name)) continue;
    if (++n % rowsPerTurn === 0) await turn();
    const row = rowOf(name);
    if (row) rows.push(row);
  }
  return rows;
}

export interface Tree {
  /** The wrapper, its parents and what only helps it: never signalled before the record is written. */
  wrapper: Identity;
  mark: string;
}

/** Every living process of the attempt except the wrapper and the programs above it. */
export async function treeMembers(tree: Tree, table?: ProcessRow[]): Promise<ProcessRow[]> {
  const rows = (table ?? (await processTable())).filter((row) => row.state !== 'Z');
  const byPid = new Map(rows.map((row) => [row.pid, row]));
  const kept = protectedPids(tree.wrapper, byPid);
  const members = new Map<number, ProcessRow>();
  const wrapperLives = byPid.get(tree.wrapper.pid)?.start === tree.wrapper.start;
  for (const row of rows) {
    // A group number can be reused like any other: only what is not older than the wrapper can be its member.
    if (row.pgid === tree.wrapper.pid && notOlder(row, tree.wrapper)) members.set(row.pid, row);
  }
  let n = 0;
  for (const row of rows) {
    if (members.has(row.pid) || !notOlder(row, tree.wrapper)) continue;
    if (++n % rowsPerTurn === 0) await turn();
    if (hasMark(row.pid, tree.mark)) members.set(row.pid, row);
  }
  addDescendants(rows, members, wrapperLives ? tree.wrapper.pid : undefined);
  for (const pid of kept) members.delete(pid);
  return [...members.values()];
}

export const identityOf = (row: ProcessRow, bootId: string): Identity => ({
  pid: row.pid,
  start: row.start,
  bootId,
});

/** True when a process group with this number has any member left: one system call, no scan. */
export function groupExists(pgid: number): boolean {
  try {
    process.kill(-pgid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Processes of this attempt by their mark alone, for a claim whose owner could not be read. */
export async function markHolders(mark: string): Promise<ProcessRow[]> {
  const rows = await processTable();
  return rows.filter((row) => row.state !== 'Z' && hasMark(row.pid, mark));
}

function protectedPids(wrapper: Identity, byPid: Map<number, ProcessRow>): Set<number> {
  const kept = new Set([wrapper.pid, process.pid]);
  const self = byPid.get(wrapper.pid);
  if (self?.start !== wrapper.start) return kept;
  for (let row = byPid.get(self.ppid); row && row.pid > 1; row = byPid.get(row.ppid)) {
    if (kept.has(row.pid)) break;
    kept.add(row.pid);
  }
  return kept;
}

function addDescendants(
  rows: ProcessRow[],
  members: Map<number, ProcessRow>,
  wrapperPid: number | undefined,
): void {
  const children = Map.groupBy(rows, (row) => row.ppid);
  const open = [...members.keys()];
  if (wrapperPid !== undefined) open.push(wrapperPid);
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    for (const child of children.get(pid) ?? []) {
      if (members.has(child.pid)) continue;
      members.set(child.pid, child);
      open.push(child.pid);
    }
  }
}

function notOlder(row: ProcessRow, wrapper: Identity): boolean {
  if (process.platform !== 'linux') return true;
  return Number(row.start) >= Number(wrapper.start);
}

function hasMark(pid: number, mark: string): boolean {
  if (process.platform !== 'linux') return false;
  try {
    const environ = readFileSync(`/proc/${pid}/environ`, 'latin1');
    const at = environ.indexOf(`${markName}=${mark}\0`);
    return at === 0 || (at > 0 && environ[at - 1] === '\0');
  } catch {
    return false;
  }
}

function rowOf(name: string): ProcessRow | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${name}/stat`, 'latin1');
  } catch {
    return undefined;
  }
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

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
