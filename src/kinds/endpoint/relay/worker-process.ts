// The worker of a relay: a child in the relay's process group, so that both can be killed together. On Linux the
// kernel kills it with the relay, because an orphaned worker would poll a closed port without a pause.
import { spawn, type ChildProcess } from 'node:child_process';

const withDeathSignal = `setpriv --pdeathsig KILL true 2>/dev/null && exec setpriv --pdeathsig KILL "$@"
exec "$@"`;

export function startWorker(options: {
  command: readonly string[];
  cwd: string;
  env: Record<string, string>;
}): ChildProcess {
  const { command, cwd, env } = options;
  const onLinux = process.platform === 'linux';
  const [file, ...args] = onLinux ? ['/bin/sh', '-c', withDeathSignal, 'sh', ...command] : command;
  return spawn(file!, args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'] });
}
