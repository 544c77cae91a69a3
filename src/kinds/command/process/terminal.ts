// Terminals without native code in the server: a helper program per job owns the PTY, so the job keeps its terminal if the
// server dies. The preferred helper is script(1) from util-linux; the alternative is a small Node program with the optional
// package @lydell/node-pty.
import { execFile } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { AppError } from '../../../errors.ts';
import { shellQuote } from '../../../runtime/shell.ts';
import { findProgram } from './program.ts';
import type { TerminalSize } from './wrapper.ts';

export interface TerminalHelper {
  method: TerminalMethod;
  /** Absolute path, because the job's PATH may not contain it. */
  program: string;
}

type TerminalMethod = 'script' | 'node-pty';

interface TerminalOptions {
  method: TerminalMethod | 'auto';
  /** PATH of the server. */
  path: string;
  /** Whether the optional package is installed. */
  hasNodePty?: () => boolean;
}

/** How to get a helper. */
export const installHint =
  'Install util-linux (script) or run `npm i @lydell/node-pty` next to errand';

const run = promisify(execFile);

/** Finds the terminal helper of this machine once. Throws if there is none. */
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
    const { method, path, hasNodePty = isNodePtyInstalled } = this.options;
    const script = method === 'node-pty' ? undefined : await scriptIn(path);
    if (script !== undefined) return { method: 'script', program: script };
    if (method !== 'script' && hasNodePty())
      return { method: 'node-pty', program: process.execPath };
    throw new AppError(
      'unsupported',
      'This machine has no helper program to run a command in a terminal.',
      {
        hint: `${installHint}, or run it without tty.`,
      },
    );
  }
}

export function terminalCommand(helper: TerminalHelper, script: string, size: TerminalSize) {
  const { method, program } = helper;
  if (method === 'script') {
    const line = `exec /bin/sh ${shellQuote(script)}`;
    return { command: program, args: ['-qefc', line, '/dev/null'] };
  }
  const shim = fileURLToPath(
    new URL(`./terminal-shim${extname(import.meta.filename)}`, import.meta.url),
  );
  return { command: program, args: [shim, script, String(size.cols), String(size.rows)] };
}

/** The kernel notifies the programs in the terminal (SIGWINCH). `pid`: any process of the job that has the terminal open. */
export async function resizeTerminal(pid: number, size: TerminalSize): Promise<void> {
  const device = await terminalOf(pid);
  if (!device) throw new AppError('wrongState', 'The job no longer has a terminal.');
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

/** Only the util-linux version has -e and -c. The BSD version on macOS has different options. */
async function scriptIn(path: string): Promise<string | undefined> {
  const program = findProgram('script', path);
  if (program === undefined) return undefined;
  try {
    return (await run(program, ['--version'])).stdout.includes('util-linux') ? program : undefined;
  } catch {
    return undefined;
  }
}

export function isNodePtyInstalled(): boolean {
  try {
    createRequire(import.meta.url).resolve('@lydell/node-pty');
    return true;
  } catch {
    return false;
  }
}
