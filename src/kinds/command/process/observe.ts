// Reads facts about a running attempt from the kernel (Linux): whether one of its processes is blocked reading the job's
// input, which ports it listens on, CPU time and memory. If the kernel does not reveal something, the result is null,
// never a guess based on the output.
import { readdirSync, readlinkSync } from 'node:fs';
import { arch } from 'node:os';
import { byName } from '../../../runtime/by-name.ts';
import { procText } from './proc.ts';
import type { ProcessRow } from './tree.ts';

interface Observation {
  processes: number;
  cpuMs: number;
  memoryBytes: number;
  /** Sum of the peak memory of each process that runs now. */
  memoryPeakBytes: number;
  ports: number[];
  waitingForInput: boolean | null;
}

/** System call number of read(2). Other architectures get null. */
const readCall: Record<string, string> = byName({
  x64: '0',
  arm64: '63',
  riscv64: '63',
  ppc64: '3',
});
/** USER_HZ is 100 on every Linux that Node runs on. */
const msPerTick = 10;

export function observe(rows: readonly ProcessRow[], inputPath: string | undefined): Observation {
  const usage = rows.map(({ pid }) => usageOf(pid));
  const sum = (field: 'cpuMs' | 'memoryBytes' | 'memoryPeakBytes') =>
    usage.reduce((total, one) => total + one[field], 0);
  return {
    processes: rows.length,
    cpuMs: sum('cpuMs'),
    memoryBytes: sum('memoryBytes'),
    memoryPeakBytes: sum('memoryPeakBytes'),
    ports: portsOf(rows),
    waitingForInput: waitingForInput(rows, inputPath),
  };
}

export function memoryPeak(rows: readonly ProcessRow[]): number {
  return rows.reduce((total, { pid }) => {
    const peak = /^VmHWM:\s+(\d+)/m.exec(procText(`/proc/${pid}/status`) ?? '')?.[1];
    return total + Number(peak ?? 0) * 1024;
  }, 0);
}

/**
 * True if a thread is inside read(2) on the job's input pipe or on a terminal. If the path is undefined, the job has
 * no input and cannot wait for it. Null if some process cannot be inspected and none was seen waiting.
 */
export function waitingForInput(
  rows: readonly ProcessRow[],
  inputPath: string | undefined,
): boolean | null {
  if (inputPath === undefined) return false;
  if (process.platform !== 'linux') return null;
  const call = readCall[arch()];
  let blind = false;
  for (const { pid } of rows) {
    for (const thread of names(`/proc/${pid}/task`)) {
      const syscall = text(`/proc/${pid}/task/${thread}/syscall`);
      if (syscall === undefined || call === undefined) {
        // Without permission to read the system call, one wait channel is still certain: the terminal's own.
        if (text(`/proc/${pid}/task/${thread}/wchan`) === 'n_tty_read') return true;
        blind = true;
        continue;
      }
      const [number, fd] = syscall.split(' ');
      if (number !== call || fd === undefined) continue;
      const target = link(`/proc/${pid}/fd/${Number(fd)}`);
      if (target === inputPath || target?.startsWith('/dev/pts/') || target === '/dev/tty')
        return true;
    }
  }
  return blind ? null : false;
}

/** TCP ports on which any of these processes listens. */
export function portsOf(rows: readonly ProcessRow[]): number[] {
  if (process.platform !== 'linux' || rows.length === 0) return [];
  const byInode = listeners();
  const ports = new Set<number>();
  for (const { pid } of rows) {
    for (const fd of names(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(link(`/proc/${pid}/fd/${fd}`) ?? '')?.[1];
      const port = inode === undefined ? undefined : byInode.get(inode);
      if (port !== undefined) ports.add(port);
    }
  }
  return [...ports].toSorted((a, b) => a - b);
}

/** TCP ports on which any process of this machine listens. */
export const portsInUse = (): Set<number> => new Set(listeners().values());

/** Listening ports by socket inode. */
function listeners(): Map<string, number> {
  const byInode = new Map<string, number>();
  for (const table of ['tcp', 'tcp6']) {
    for (const line of (text(`/proc/net/${table}`) ?? '').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[3] === '0A') byInode.set(fields[9]!, parseInt(fields[1]!.split(':')[1]!, 16));
    }
  }
  return byInode;
}

/** Numbers of the signals that a process handles. */
export function handledSignals(pid: number): Set<number> {
  const mask = /^SigCgt:\s*([0-9a-f]+)/m.exec(text(`/proc/${pid}/status`) ?? '')?.[1];
  const handled = new Set<number>();
  if (!mask) return handled;
  const bits = BigInt(`0x${mask}`);
  for (let n = 1; n <= 64; n++) if ((bits >> BigInt(n - 1)) & 1n) handled.add(n);
  return handled;
}

function usageOf(pid: number) {
  const status = text(`/proc/${pid}/status`) ?? '';
  const stat = text(`/proc/${pid}/stat`) ?? '';
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = [11, 12, 13, 14].reduce((sum, i) => sum + (Number(fields[i]) || 0), 0);
  const kib = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { cpuMs: ticks * msPerTick, memoryBytes: kib('VmRSS'), memoryPeakBytes: kib('VmHWM') };
}

const text = (path: string): string | undefined => procText(path)?.trim();

function link(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function names(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
