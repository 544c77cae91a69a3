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
import { quoted } from '../../../runtime/shell.ts';
import { findProgram } from './program.ts';
import type { TerminalSize } from './wrapper.ts';

export interface TerminalHelper {
  method: TerminalMethod;
  /** Absolute: the job's own PATH may not have it. */
  program: string;
}

export type TerminalMethod = 'script' | 'node-pty';

export interface TerminalOptions {
  wish: TerminalMethod | 'auto';
  /** Of the server. */
  path: string;
  /** Whether the optional package is installed. */
  hasNodePty?: () => boolean;
}

/** What to do where there is neither helper. */
export const terminalCure = 'Install util-linux (script) or `npm i @lydell/node-pty` beside errand';

const run = promisify(execFile);

/** Which helper this machine has; looked for once, a clear refusal when there is none. */
export class Terminals {
  private readonly options: TerminalOptions;
  private found: TerminalHelper | undefined;

  constructor(options: TerminalOptions) {
    this.options = options;
  }

  async helper(): Promise<TerminalHelper> {
    this.found ??= await this.find();
    return this.found;
  }

  private async find(): Promise<TerminalHelper> {
    const { wish, path, hasNodePty = nodePtyIsHere } = this.options;
    const script = wish === 'node-pty' ? undefined : await scriptIn(path);
    if (script !== undefined) return { method: 'script', program: script };
    if (wish !== 'script' && hasNodePty()) return { method: 'node-pty', program: process.execPath };
    throw new AppError('unsupported', 'This machine has no way to give a command a terminal.', {
      hint: `${terminalCure}, or run it without tty.`,
    });
  }
}

export function terminalCommand(helper: TerminalHelper, script: string, size: TerminalSize) {
  const { method, program } = helper;
  if (method === 'script') {
    const line = `exec /bin/sh ${quoted(script)}`;
    return { command: program, args: ['-qefc', line, '/dev/null'] };
  }
  const shim = fileURLToPath(
    new URL(`./terminal-shim${extname(import.meta.filename)}`, import.meta.url),
  );
  return { command: program, args: [shim, script, String(size.cols), String(size.rows)] };
}

/** The kernel tells the programs in it (SIGWINCH). `pid` is any process of the job that has the terminal open. */
export async function resizeTerminal(pid: number, size: TerminalSize): Promise<void> {
  const device = await terminalOf(pid);
  if (!device) throw new AppError('wrongState', 'The job has no terminal any more.');
  const flag = process.platform === 'linux' ? '-F' : '-f';
  await run('stty', [flag, device, 'rows', String(size.rows), 'cols', String(size.cols)]);
}

async function terminalOf(pid: number): Promise<string | undefined> {
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

/** Only util-linux has -e and -c; the BSD one of macOS takes other words. */
async function scriptIn(path: string): Promise<string | undefined> {
  const program = findProgram('script', path);
  if (program === undefined) return undefined;
  try {
    return (await run(program, ['--version'])).stdout.includes('util-linux') ? program : undefined;
  } catch {
    return undefined;
  }
}

export function nodePtyIsHere(): boolean {
  try {
    createRequire(import.meta.url).resolve('@lydell/node-pty');
    return true;
  } catch {
    return false;
  }
}
