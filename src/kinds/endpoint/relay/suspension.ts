// Suspends a worker that waits for a job while the server is away. Workers of RunPod's package 1.7.1 to 1.8.2 never
// sleep: an idle one uses a whole core.
import { execFile, execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { Container } from './task.ts';

/** A process may start another one while its group is read. */
const maxRounds = 3;
const engineTimeoutMs = 10_000;

export class Suspension {
  private readonly container: Container | undefined;
  private readonly env: Record<string, string>;
  private suspended = false;

  constructor({
    container,
    env,
  }: {
    container?: Container | undefined;
    env: Record<string, string>;
  }) {
    this.container = container;
    this.env = env;
  }

  get isSuspended(): boolean {
    return this.suspended;
  }

  async suspend(): Promise<void> {
    this.suspended = true;
    if (this.container) return this.callEngine('pause', this.container);
    for (let round = 0; round < maxRounds; round++) {
      const awake = groupMembers().filter(({ isStopped }) => !isStopped);
      if (awake.length === 0) return;
      for (const { pid } of awake) signal(pid, 'SIGSTOP');
    }
  }

  async resume(): Promise<void> {
    if (!this.suspended) return;
    this.suspended = false;
    if (this.container) return this.callEngine('unpause', this.container);
    for (const { pid } of groupMembers()) signal(pid, 'SIGCONT');
  }

  /** Not every engine can pause containers. Then the worker keeps running. */
  private callEngine(verb: string, { engine, name }: Container): Promise<void> {
    const options = { env: this.env, timeout: engineTimeoutMs };
    return new Promise((resolve) => void execFile(engine, [verb, name], options, () => resolve()));
  }
}

interface Member {
  pid: number;
  isStopped: boolean;
}

/** The processes of the relay's own group, without the relay. */
function groupMembers(): Member[] {
  return processes()
    .filter(({ pid, group }) => group === process.pid && pid !== process.pid)
    .map(({ pid, state }) => ({ pid, isStopped: /^[TZX]/.test(state) }));
}

function processes(): { pid: number; group: number; state: string }[] {
  if (process.platform !== 'linux') {
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,pgid=,state='], { encoding: 'utf8' });
    return lines
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .map(([pid, group, state]) => ({ pid: Number(pid), group: Number(group), state: state! }));
  }
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? readProcess(name) : []));
}

function readProcess(name: string): { pid: number; group: number; state: string }[] {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
    const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [{ pid: Number(name), group: Number(group), state: state! }];
  } catch {
    return []; // it exited in the meantime
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it exited in the meantime
  }
}
