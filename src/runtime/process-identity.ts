// Process identity: pid, start time and boot id. A busy machine reuses a pid within minutes, so the identity is compared
// before every signal.
import { execFileSync, type StdioOptions } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface Identity {
  pid: number;
  /** Linux: start time in ticks since boot. macOS: the start date as ps prints it. */
  start: string;
  bootId: string;
}

let boot: string | undefined;

export function bootId(): string {
  boot ??= readBootId();
  return boot;
}

/** Start time of this pid, or undefined if no such process exists. A zombie does not count. */
export function startOf(pid: number): string | undefined {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      return /\) [ZX] /.test(stat) ? undefined : startTicks(stat);
    } catch {
      return undefined;
    }
  }
  try {
    const stdio: StdioOptions = ['ignore', 'pipe', 'ignore'];
    return (
      execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
        encoding: 'utf8',
        stdio,
      }).trim() || undefined
    );
  } catch {
    return undefined;
  }
}

export function isAlive(identity: Identity): boolean {
  if (identity.bootId !== bootId()) return false;
  return startOf(identity.pid) === identity.start;
}

/** Sends a signal only if the pid still belongs to the same process. Returns whether it was sent. */
export function signalProcess(identity: Identity, signal: NodeJS.Signals): boolean {
  if (identity.pid <= 1 || !isAlive(identity)) return false;
  try {
    process.kill(identity.pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Signals every process of a group. Returns false if the group does not exist any more. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): boolean {
  if (groupId <= 1) return false;
  try {
    process.kill(-groupId, signal);
    return true;
  } catch {
    return false;
  }
}

/** Field 22 of /proc/<pid>/stat. The process name in parentheses may itself contain parentheses. On macOS, the text is the start. */
export function startTicks(stat: string): string {
  const close = stat.lastIndexOf(')');
  if (close < 0) return stat.trim();
  return stat.slice(close + 2).split(' ')[19] ?? '';
}

function readBootId(): string {
  if (process.platform === 'linux')
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  try {
    return execFileSync('sysctl', ['-n', 'kern.boottime'], { encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}
