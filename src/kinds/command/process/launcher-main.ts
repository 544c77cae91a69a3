// The launcher: a small process that spawns wrappers for a server that is too large to fork often. It reads requests as
// lines from stdin, writes results as lines to stdout, and exits when stdin ends. Wrappers run in their own sessions.
import { createInterface } from 'node:readline';
import { startChild, type SpawnRequest } from './start.ts';

export type LauncherMessage =
  | { ready: true }
  | { id: number; pid: number }
  | { id: number; ended: true }
  | { id: number; failed: string; where: 'files' | 'program' };

const send = (message: LauncherMessage): void =>
  void process.stdout.write(`${JSON.stringify(message)}\n`);

function start({ id, request }: { id: number; request: SpawnRequest }): void {
  const failed = (error: unknown, where: 'files' | 'program') => {
    const { code, message } = error as NodeJS.ErrnoException;
    send({ id, failed: code ?? message, where });
  };
  try {
    const child = startChild(request);
    child.once('error', (error) => failed(error, 'program'));
    if (child.pid === undefined) return;
    child.once('exit', () => send({ id, ended: true }));
    send({ id, pid: child.pid });
  } catch (error) {
    failed(error, 'files');
  }
}

process.stdout.on('error', () => process.exit(0));
createInterface({ input: process.stdin })
  .on('line', (line) => start(JSON.parse(line) as { id: number; request: SpawnRequest }))
  .on('close', () => process.exit(0));
send({ ready: true });
