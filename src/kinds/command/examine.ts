// What `errand doctor` says about commands: whether this machine can give them a terminal.
import { delimiter, join } from 'node:path';
import type { Finding, Machine } from '../../runtime/machine.ts';
import { pathFallback } from './environment.ts';
import { nodePtyIsHere, terminalCure } from './process/terminal.ts';
import type { CommandSettings } from './settings.ts';

const name = 'terminal';

/** `hasNodePty`: whether the optional package is installed. */
export function examineTerminal(
  { terminal }: Pick<CommandSettings, 'terminal'>,
  machine: Machine,
  hasNodePty: () => boolean = nodePtyIsHere,
): Finding {
  const folders = (machine.env.PATH ?? pathFallback).split(delimiter);
  // The script(1) of macOS is another program.
  const script =
    terminal !== 'node-pty' &&
    machine.platform === 'linux' &&
    folders.some((folder) => machine.has(join(folder, 'script')));
  if (script) return { name, state: 'ok', text: 'jobs can have one (script)' };
  if (terminal !== 'script' && hasNodePty())
    return { name, state: 'ok', text: 'jobs can have one (node-pty)' };
  return { name, state: 'note', text: 'commands with tty are refused', hint: `${terminalCure}.` };
}
