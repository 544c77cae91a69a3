// The launcher: a small process that spawns wrappers for a server which is too large to fork often. Orders come as lines on
// stdin, answers go as lines to stdout. It ends with its stdin; the wrappers are sessions of their own and go on.
import { createInterface } from 'node:readline';
import { startChild, type Order } from './start.ts';

export type LauncherAnswer =
  | { ready: true }
  | { id: number; pid: number }
  | { id: number; ended: true }
  | { id: number; failed: string; where: 'files' | 'program' };

const say = (answer: LauncherAnswer): void =>
  void process.stdout.write(`${JSON.stringify(answer)}\n`);

function start({ id, order }: { id: number; order: Order }): void {
  const failed = (error: unknown, where: 'files' | 'program') => {
    const { code, message } = error as NodeJS.ErrnoException;
    say({ id, failed: code ?? message, where });
  };
  try {
    const child = startChild(order);
    child.once('error', (error) => failed(error, 'program'));
    if (child.pid === undefined) return;
    child.once('exit', () => say({ id, ended: true }));
    say({ id, pid: child.pid });
  } catch (error) {
    failed(error, 'files');
  }
}

process.stdout.on('error', () => process.exit(0));
createInterface({ input: process.stdin })
  .on('line', (line) => start(JSON.parse(line) as { id: number; order: Order }))
  .on('close', () => process.exit(0));
say({ ready: true });
