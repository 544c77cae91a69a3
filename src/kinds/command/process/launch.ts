// Starting a payload: a new session, output straight to files opened for appending, the attempt's mark in its
// environment. Nothing of the output ever passes through this process.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { closeSync, constants, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AppError } from '../../../errors.ts';
import type { LaunchFolder } from './folder.ts';
import { terminalCommand, type TerminalMethod } from './terminal.ts';
import { markName } from './tree.ts';
import { wrapperArgs, wrapperFile, type TerminalSize } from './wrapper.ts';

export interface LaunchSpec {
  folder: LaunchFolder;
  argv: readonly string[];
  cwd: string;
  env: Record<string, string>;
  attemptId: string;
  stdin: 'none' | 'open' | { text: string };
  streams: 'merged' | 'split';
  terminal?: { size: TerminalSize; method: TerminalMethod };
}

export interface Launched {
  /** Resolves when the wrapper is gone (it was our child). */
  ended: Promise<void>;
  pid: number;
}

/** The shell of the wrapper itself; the payload's shell is a setting. */
const wrapperShell = '/bin/sh';

export async function launch(spec: LaunchSpec): Promise<Launched> {
  checkCwd(spec.cwd);
  spec.folder.create();
  const { command, args, input } = await programOf(spec);
  const opened: number[] = [];
  const open = (path: string, flags: string | number) => {
    const fd = openSync(path, flags, 0o600);
    opened.push(fd);
    return fd;
  };
  try {
    const stdin = input === undefined ? 'ignore' : open(input.path, input.flags);
    const out = open(spec.folder.out, 'a');
    const err = spec.streams === 'split' ? open(spec.folder.err, 'a') : out;
    const child = spawn(command, args, {
      cwd: spec.cwd,
      env: { ...spec.env, [markName]: spec.attemptId },
      detached: true,
      stdio: [stdin, out, err],
      windowsHide: true,
    });
    const ended = whenEnded(child);
    child.unref();
    if (child.pid === undefined) {
      await ended;
      throw new AppError('cannotStart', 'The command could not be started.');
    }
    return { ended, pid: child.pid };
  } finally {
    for (const fd of opened) closeSync(fd);
    // The text went with its open file; a copy on disk would only outlive its use.
    if (typeof spec.stdin === 'object' && !spec.terminal)
      rmSync(spec.folder.stdin, { force: true });
  }
}

interface Program {
  command: string;
  args: string[];
  input: { path: string; flags: string | number } | undefined;
}

async function programOf(spec: LaunchSpec): Promise<Program> {
  const { folder, argv, stdin, terminal } = spec;
  if (terminal) {
    await makeFifo(folder.stdin);
    const script = join(folder.path, 'run.sh');
    writeFileSync(script, wrapperFile(folder.path, argv, terminal.size), { mode: 0o600 });
    const { command, args } = terminalCommand(terminal.method, script, terminal.size);
    // Opened for both directions it never blocks and never ends: the terminal's ctrl-d is the end of input.
    return { command, args, input: { path: folder.stdin, flags: constants.O_RDWR } };
  }
  if (stdin === 'open') {
    await makeFifo(folder.stdin);
    return {
      command: wrapperShell,
      args: wrapperArgs(folder.path, 'open', argv),
      input: undefined,
    };
  }
  if (stdin !== 'none') writeFileSync(folder.stdin, stdin.text, { mode: 0o600 });
  return {
    command: wrapperShell,
    args: wrapperArgs(folder.path, 'none', argv),
    input: stdin === 'none' ? undefined : { path: folder.stdin, flags: 'r' },
  };
}

async function makeFifo(path: string): Promise<void> {
  await promisify(execFile)('mkfifo', ['-m', '600', path]);
}

function checkCwd(cwd: string): void {
  let folder = false;
  let cause: unknown;
  try {
    folder = statSync(cwd).isDirectory();
  } catch (error) {
    cause = error;
  }
  if (folder) return;
  throw new AppError('cwdMissing', `The working directory ${cwd} is not a folder one can enter.`, {
    hint: 'Give `cwd` as an absolute path of an existing folder.',
    cause,
  });
}

function whenEnded(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('exit', () => resolve());
    child.once('error', (cause: NodeJS.ErrnoException) => {
      const why =
        cause.code === 'EACCES'
          ? 'no permission to enter its working directory'
          : cause.code === 'EAGAIN' || cause.code === 'ENOMEM'
            ? 'the system has no room for another process'
            : (cause.code ?? cause.message);
      reject(
        new AppError('cannotStart', `The command could not be started: ${why}.`, {
          hint: 'Nothing ran. Fix the cause, then retry_job.',
          cause,
        }),
      );
    });
  });
}
