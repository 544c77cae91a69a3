// Worker processes. They are detached so that they outlive this server, identified by pid and start time because pids
// are reused, and killed together with everything they started.
import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import * as identity from '../../../runtime/process-identity.ts';

interface ProcessStart {
  command: readonly string[];
  cwd: string;
  env: Record<string, string>;
  /** Open file for stdout and stderr. */
  logFd: number;
  stdin?: 'ignore' | 'pipe';
}

export function startProcess(start: ProcessStart): ChildProcess {
  const [file, ...args] = start.command;
  const child = spawn(file!, args, {
    cwd: start.cwd,
    env: start.env,
    detached: true,
    stdio: [start.stdin ?? 'ignore', start.logFd, start.logFd],
  });
  child.unref();
  return child;
}

/** Returns when the process with this pid was started; undefined if it does not exist. */
export function startOf(pid: number): string | undefined {
  const start = identity.startOf(pid);
  if (start === undefined || process.platform !== 'linux') return start;
  return `${identity.bootId()}/${start}`;
}

export function isAlive(pid: number, start: string | null): boolean {
  const now = startOf(pid);
  return now !== undefined && (start === null || now === start);
}

/** Signals the whole group, because a worker may have started further processes. */
export function signalGroup(pid: number, start: string | null, signal: NodeJS.Signals): void {
  // The leader may be gone while other processes of its group live. A reused pid is never signalled.
  const now = startOf(pid);
  if (now !== undefined && start !== null && now !== start) return;
  identity.signalGroup(pid, signal);
}

/** Signals this process alone, because it forwards the signal itself. */
export function signalOne(pid: number, start: string | null, signal: NodeJS.Signals): void {
  if (pid <= 1 || !isAlive(pid, start)) return;
  try {
    process.kill(pid, signal);
  } catch {
    // already gone
  }
}

/** Finds a process that was started right before this server was killed, by the worker id in its environment. */
export function findWorkerProcess(workerId: string): number | undefined {
  // Children inherit the environment and may lead other groups. The worker is the leader that started first.
  const leaders = markedProcesses(workerId).filter(({ pid, group }) => pid === group);
  return leaders.toSorted((a, b) => a.startedAt - b.startedAt)[0]?.pid;
}

/**
 * Processes that a dead worker started in other groups (commands per job, a worker without its relay) would keep
 * running.
 */
export function killByWorkerId(workerId: string): void {
  // A process may start another one in the meantime.
  for (let round = 0; round < 3; round++) {
    const left = markedProcesses(workerId);
    if (left.length === 0) return;
    for (const { pid } of left) kill(pid);
  }
}

interface Marked {
  pid: number;
  group: number;
  startedAt: number;
}

function markedProcesses(workerId: string): Marked[] {
  if (process.platform !== 'linux') return [];
  const mark = `ERRAND_WORKER_ID=${workerId}\0`;
  const found: Marked[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const environment = readFileSync(`/proc/${name}/environ`, 'latin1');
      if (!environment.includes(mark)) continue;
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const [group, startedAt] = [Number(fields[2]), Number(fields[19])];
      found.push({ pid: Number(name), group, startedAt });
    } catch {
      // gone in the meantime, or owned by another user
    }
  }
  return found;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // already gone
  }
}
