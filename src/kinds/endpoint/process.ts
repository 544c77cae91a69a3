// Processes of workers: started apart from this server, so that they outlive it; known by number and start time, because
// a number alone is soon somebody else's; ended with everything they started.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessStart {
  command: readonly string[];
  cwd: string;
  env: Record<string, string>;
  /** Open file for both outputs. */
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

/** When the process of this number was started; undefined when there is none. */
export function startOf(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux')
      return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim();
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : `${bootId()}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

export function isAlive(pid: number, start: string | null): boolean {
  const now = startOf(pid);
  return now !== undefined && (start === null || now === start);
}

/** The whole group, as a worker may have started others. */
export function signalGroup(pid: number, start: string | null, signal: NodeJS.Signals): void {
  // The leader may be gone while others of its group live; a reused number is never signalled.
  const now = startOf(pid);
  if (pid <= 1 || (now !== undefined && start !== null && now !== start)) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // already gone
  }
}

/** A process that was started right before this server was killed: found by the worker id in its environment. */
export function findWorkerProcess(workerId: string): number | undefined {
  // Children inherit the environment, and may lead groups of their own: the worker is the leader that was first.
  const leaders = markedProcesses(workerId).filter(({ pid, group }) => pid === group);
  return leaders.toSorted((a, b) => a.startedAt - b.startedAt)[0]?.pid;
}

/** Commands per job run in groups of their own: those of a worker that is gone would run on. */
export function endCommands(workerId: string): void {
  // One may start another in the meantime.
  for (let round = 0; round < 3; round++) {
    const left = markedProcesses(workerId).filter(({ hasJob }) => hasJob);
    if (left.length === 0) return;
    for (const { pid } of left) kill(pid);
  }
}

interface Marked {
  pid: number;
  group: number;
  startedAt: number;
  hasJob: boolean;
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
      const hasJob = environment.includes('ERRAND_JOB_ID=');
      const [group, startedAt] = [Number(fields[2]), Number(fields[19])];
      found.push({ pid: Number(name), group, startedAt, hasJob });
    } catch {
      // gone meanwhile, or somebody else's
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

let boot: string | undefined;
function bootId(): string {
  boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return boot;
}
