// Ports of a ready check that another process opens for the job, such as a container proxy or a service manager. Such a port
// counts only if it was free when the command started or at some time since: otherwise an old server would make the job
// ready. Ports on which the job's own processes listen always count.
import { mkdirSync, writeFileSync } from 'node:fs';
import type { CommandInput } from './input.ts';
import { localPort } from './probe.ts';
import { textOf, type LaunchFolder } from './process/folder.ts';
import { portsInUse } from './process/observe.ts';

type ReadyCheck = CommandInput['ready'];

/** Records the ports that are in use before the payload starts. */
export function recordTakenPorts(folder: LaunchFolder, ready: ReadyCheck): void {
  const wanted = wantedPorts(ready);
  if (wanted.length === 0 || process.platform !== 'linux') return;
  const listened = portsInUse();
  mkdirSync(folder.path, { recursive: true, mode: 0o700 });
  write(
    folder,
    wanted.filter((port) => listened.has(port)),
  );
}

/** Ports of the ready check that have been in use continuously since before the command started. */
export function takenPorts(folder: LaunchFolder, ready: ReadyCheck): number[] {
  if (wantedPorts(ready).length === 0) return [];
  return (textOf(folder.taken) ?? '').split(' ').map(Number).filter(Boolean);
}

/** Ports of the ready check that are in use now and were free before. */
export function newlyOpenedPorts(folder: LaunchFolder, ready: ReadyCheck): number[] {
  const wanted = wantedPorts(ready);
  if (wanted.length === 0 || textOf(folder.taken) === undefined) return [];
  const listened = portsInUse();
  const taken = takenPorts(folder, ready);
  const still = taken.filter((port) => listened.has(port));
  if (still.length < taken.length) write(folder, still);
  return wanted.filter((port) => listened.has(port) && !still.includes(port));
}

function wantedPorts(ready: ReadyCheck): number[] {
  const ports = [ready?.port, ready?.http === undefined ? undefined : localPort(ready.http)];
  return [...new Set(ports.filter((port) => port !== undefined))];
}

const write = (folder: LaunchFolder, ports: readonly number[]): void =>
  writeFileSync(folder.taken, ports.join(' '), { mode: 0o600 });
