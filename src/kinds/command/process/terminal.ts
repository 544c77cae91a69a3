// Terminals without native code in the server: a helper program per job owns the PTY, so the job keeps its terminal
// when the server dies. script(1) of util-linux is the cheap helper; a small Node program with the optional
// @lydell/node-pty is the other.
import { execFile } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { AppError } from '../../../errors.ts';
import { quoted, type TerminalSize } from './wrapper.ts';

export type TerminalMethod = 'script' | 'node-pty';

const run = promisify(execFile);
const found = new Map<string, Promise<TerminalMethod>>();

/** Which helper this machine has; a clear refusal when none. */
export function terminalMethod(wish: TerminalMethod | 'auto'): Promise<TerminalMethod> {
  let method = found.get(wish);
  if (!method) found.set(wish, (method = findMethod(wish)));
  return method;
}

export function terminalCommand(method: TerminalMethod, script: string, size: TerminalSize) {
  if (method === 'script') {
    const line = `exec /bin/sh ${quoted(script)}`;
    return { command: 'script', args: ['-qefc', line, '/dev/null'] };
  }
  const shim = fileURLToPath(
    new URL(`./terminal-shim${extname(import.meta.filename)}`, import.meta.url),
  );
  const args = [shim, script, String(size.cols), String(size.rows)];
  return { command: process.execPath, args };
}

/** The kernel tells the programs in it (SIGWINCH). `pid` is any process of the job that has the terminal open. */
export async function resizeTerminal(pid: number, size: TerminalSize): Promise<void> {
  const device = await terminalOf(pid);
  if (!device) throw new AppError('wrongState', 'The job has no terminal any more.');
  const flag = process.platform === 'linux' ? '-F' : '-f';
  await run('stty', [flag, device, 'rows', String(size.rows), 'cols', String(size.cols)]);
}

export async function terminalOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    try {
      const path = readlinkSync(`/proc/${pid}/fd/0`);
      return path.startsWith('/dev/pts/') ? path : undefined;
    } catch {
      return undefined;
    }
  }
  const { stdout } = await run('ps', ['-o', 'tty=', '-p', String(pid)]);
  return stdout.trim().startsWith('tty') ? `/dev/${stdout.trim()}` : undefined;
}

async function findMethod(wish: TerminalMethod | 'auto'): Promise<TerminalMethod> {
  if (wish !== 'node-pty' && (await hasScript())) return 'script';
  if (wish !== 'script' && hasNodePty()) return 'node-pty';
  throw new AppError('unsupported', 'This machine has no way to give a command a terminal.', {
    hint: 'Install util-linux (script) or `npm i @lydell/node-pty` beside errand, or run it without tty.',
  });
}

/** Only util-linux has -e and -c; the BSD one of macOS takes other words. */
async function hasScript(): Promise<boolean> {
  try {
    return (await run('script', ['--version'])).stdout.includes('util-linux');
  } catch {
    return false;
  }
}

function hasNodePty(): boolean {
  try {
    createRequire(import.meta.url).resolve('@lydell/node-pty');
    return true;
  } catch {
    return false;
  }
}
