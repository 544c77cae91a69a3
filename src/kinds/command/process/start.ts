// The one spawn of a wrapper: a new session, its files made and opened for it. Done by the server, or by the launcher.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { LaunchFolder } from './folder.ts';

export interface Order {
  /** The launch's folder, to be made first; absent: it is there already, with something in it. */
  folder?: string;
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Absent: there is no input. */
  stdin?: { path: string; flags: string | number };
  out: string;
  /** Absent: it goes where the output goes. */
  err?: string;
}

/** Throws what the system says about the files; what it says about the program comes as the child's `error`. */
export function startChild(order: Order): ChildProcess {
  const opened: number[] = [];
  const open = (path: string, flags: string | number) => {
    const fd = openSync(path, flags, 0o600);
    opened.push(fd);
    return fd;
  };
  try {
    if (order.folder !== undefined) new LaunchFolder(order.folder).create();
    const stdin = order.stdin ? open(order.stdin.path, order.stdin.flags) : 'ignore';
    const out = open(order.out, 'a');
    const err = order.err === undefined ? out : open(order.err, 'a');
    return spawn(order.command, order.args, {
      cwd: order.cwd,
      env: order.env,
      detached: true,
      stdio: [stdin, out, err],
      windowsHide: true,
    });
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}
