// The `errand doctor` check for commands: whether this machine can run them in a terminal.
import { delimiter, join } from 'node:path';
import type { Finding, Machine } from '../../runtime/machine.ts';
import { pathFallback } from './environment.ts';
import { installHint, isNodePtyInstalled } from './process/terminal.ts';
import type { CommandSettings } from './settings.ts';

const name = 'terminal';

/** `hasNodePty`: whether the optional package is installed. */
export function checkTerminal(
  { terminal }: Pick<CommandSettings, 'terminal'>,
  machine: Machine,
  hasNodePty: () => boolean = isNodePtyInstalled,
): Finding {
  const folders = (machine.env.PATH ?? pathFallback).split(delimiter);
  // On macOS, script(1) is a different program.
  const script =
    terminal !== 'node-pty' &&
    machine.platform === 'linux' &&
    folders.some((folder) => machine.has(join(folder, 'script')));
  if (script) return { name, state: 'ok', text: 'available for jobs (script)' };
  if (terminal !== 'script' && hasNodePty())
    return { name, state: 'ok', text: 'available for jobs (node-pty)' };
  return { name, state: 'note', text: 'commands with tty are refused', hint: `${installHint}.` };
}
