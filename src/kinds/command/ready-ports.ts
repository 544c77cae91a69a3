// Ports of a ready check that somebody else opens for the job: the proxy of a container, a service manager. Such a port
// counts only if nobody listened on it when the command began, or at some time since: else a server of yesterday would
// make it ready. A port the job's own processes listen on needs none of this.
import { mkdirSync, writeFileSync } from 'node:fs';
import type { CommandInput } from './input.ts';
import { localPort } from './probe.ts';
import { textOf, type LaunchFolder } from './process/folder.ts';
import { listenedPorts } from './process/observe.ts';

type ReadyCheck = CommandInput['ready'];

/** Before the payload starts. */
export function noteTaken(folder: LaunchFolder, ready: ReadyCheck): void {
  const wanted = wantedPorts(ready);
  if (wanted.length === 0 || process.platform !== 'linux') return;
  const listened = listenedPorts();
  mkdirSync(folder.path, { recursive: true, mode: 0o700 });
  write(
    folder,
    wanted.filter((port) => listened.has(port)),
  );
}

/** Of the ready check, those that were taken when the command began and were not free since. */
export function takenPorts(folder: LaunchFolder, ready: ReadyCheck): number[] {
  if (wantedPorts(ready).length === 0) return [];
  return (textOf(folder.taken) ?? '').split(' ').map(Number).filter(Boolean);
}

/** Of the ready check, those that anybody listens on now and that were free before. */
export function openedSince(folder: LaunchFolder, ready: ReadyCheck): number[] {
  const wanted = wantedPorts(ready);
  if (wanted.length === 0 || textOf(folder.taken) === undefined) return [];
  const listened = listenedPorts();
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
