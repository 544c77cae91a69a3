// Starting a payload: a new session, output straight to files opened for appending, the attempt's mark in its
// environment. Nothing of the output ever passes through this process.
import { execFile } from 'node:child_process';
import { constants, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AppError } from '../../../errors.ts';
import type { LaunchFolder } from './folder.ts';
import { here, type Launched, type Starter } from './launcher.ts';
import type { Order } from './start.ts';
import { terminalCommand, type TerminalHelper } from './terminal.ts';
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
  terminal?: { size: TerminalSize; helper: TerminalHelper };
}

/** The shell of the wrapper itself; the payload's shell is a setting. */
const wrapperShell = '/bin/sh';

export async function launch(spec: LaunchSpec, starter: Starter = here): Promise<Launched> {
  checkCwd(spec.cwd);
  const { folder, cwd } = spec;
  // Whoever spawns makes the folder: in a burst that is the launcher, and the server waits for no disk.
  const empty = spec.stdin === 'none' && !spec.terminal;
  if (!empty) folder.create();
  const { command, args, input } = await programOf(spec);
  const order: Order = {
    ...(empty ? { folder: folder.path } : {}),
    command,
    args,
    cwd,
    env: { ...spec.env, [markName]: spec.attemptId },
    ...(input ? { stdin: input } : {}),
    out: folder.out,
    ...(spec.streams === 'split' ? { err: folder.err } : {}),
  };
  try {
    return await starter.start(order, folder);
  } finally {
    // The text went with its open file; a copy on disk would only outlive its use.
    if (typeof spec.stdin === 'object' && !spec.terminal) rmSync(folder.stdin, { force: true });
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
    const { command, args } = terminalCommand(terminal.helper, script, terminal.size);
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
