// Starts a payload: a new session, output directly to files opened for appending, and the attempt's mark in its
// environment. Output never passes through this process.
import { execFile } from 'node:child_process';
import { constants, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AppError } from '../../../errors.ts';
import type { LaunchFolder } from './folder.ts';
import { helperEnvironment } from './helper-environment.ts';
import { localStarter, type Launched, type Starter } from './launcher.ts';
import type { SpawnRequest } from './start.ts';
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

/** The shell that runs the wrapper. The payload's shell is a setting. */
const wrapperShell = '/bin/sh';

export async function launch(spec: LaunchSpec, starter: Starter = localStarter): Promise<Launched> {
  checkCwd(spec.cwd);
  const { folder, cwd } = spec;
  // The process that spawns also creates the folder: in a burst that is the launcher, so the server does not wait for the disk.
  const isFolderEmpty = spec.stdin === 'none' && !spec.terminal;
  if (!isFolderEmpty) folder.create();
  const { command, args, input } = await programOf(spec);
  const request: SpawnRequest = {
    ...(isFolderEmpty ? { folder: folder.path } : {}),
    command,
    args,
    cwd,
    env: { ...environmentOf(spec), [markName]: spec.attemptId },
    ...(input ? { stdin: input } : {}),
    out: folder.out,
    ...(spec.streams === 'split' ? { err: folder.err } : {}),
  };
  try {
    return await starter.start(request, folder);
  } finally {
    // The payload has the file open, so its copy on disk is no longer needed.
    if (typeof spec.stdin === 'object' && !spec.terminal) rmSync(folder.stdin, { force: true });
  }
}

function environmentOf({ env, terminal }: LaunchSpec): Record<string, string> {
  return terminal?.helper.method === 'node-pty' ? helperEnvironment(env) : env;
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
    // Opened for reading and writing, it never blocks and never ends. In a terminal, ctrl-d ends the input.
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
  throw new AppError(
    'cwdMissing',
    `The working directory ${cwd} does not exist or is not accessible.`,
    {
      hint: 'Set `cwd` to the absolute path of an existing folder.',
      cause,
    },
  );
}
