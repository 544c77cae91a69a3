// Finds the process that listens on a TCP port, so that the "port in use" error can name it. Linux only (/proc).
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

interface PortHolder {
  pid: number;
  name: string;
}

const listenState = '0A';

export function portHolder(port: number): PortHolder | undefined {
  try {
    const inodes = new Set(['/proc/net/tcp', '/proc/net/tcp6'].flatMap((f) => listeners(f, port)));
    if (inodes.size === 0) return undefined;
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const pid = pids.find((candidate) => holds(candidate, inodes));
    return pid ? { pid: Number(pid), name: commandName(pid) } : undefined;
  } catch {
    return undefined;
  }
}

function listeners(file: string, port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return lines(file)
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[1]?.endsWith(`:${hex}`) && columns[3] === listenState)
    .map((columns) => `socket:[${columns[9]}]`);
}

function lines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function holds(pid: string, links: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return links.has(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        return false;
      }
    });
  } catch {
    return false;
  }
}

function commandName(pid: string): string {
  const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
  return argv.slice(0, 3).join(' ') || readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
}
