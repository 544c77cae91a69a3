// Spawns one wrapper in a new session, with its files created and opened. Used by the server and by the launcher.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { LaunchFolder } from './folder.ts';

export interface SpawnRequest {
  /** The launch folder to create first. Absent if it already exists with content. */
  folder?: string;
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Absent if there is no input. */
  stdin?: { path: string; flags: string | number };
  out: string;
  /** Absent if stderr goes to the same file as stdout. */
  err?: string;
}

/** Throws system errors about the files. Errors about the program are emitted as the child's `error`. */
export function startChild(request: SpawnRequest): ChildProcess {
  const opened: number[] = [];
  const open = (path: string, flags: string | number) => {
    const fd = openSync(path, flags, 0o600);
    opened.push(fd);
    return fd;
  };
  try {
    if (request.folder !== undefined) new LaunchFolder(request.folder).create();
    const stdin = request.stdin ? open(request.stdin.path, request.stdin.flags) : 'ignore';
    const out = open(request.out, 'a');
    const err = request.err === undefined ? out : open(request.err, 'a');
    return spawn(request.command, request.args, {
      cwd: request.cwd,
      env: request.env,
      detached: true,
      stdio: [stdin, out, err],
      windowsHide: true,
    });
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}
