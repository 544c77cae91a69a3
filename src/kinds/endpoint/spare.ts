// One runner started ahead: a process that has loaded everything but a handler and knows no secret, so that the first job
// of an endpoint does not wait for Node to start. It is kept only while there is an endpoint it could serve and somebody
// uses endpoints, and it ends with this server whatever ends it: its stdin closes.
import type { ChildProcess } from 'node:child_process';
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { randomId } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { WorkerLogs } from './logs.ts';
import { startOf, startProcess } from './process.ts';
import { spareLaunch, type Launch } from './recipe.ts';
import type { EndpointRow } from './store.ts';

export interface SpareNeeds {
  clock: Clock;
  logs: WorkerLogs;
  folder: string;
  home: string;
  secret(name: string): string | undefined;
}

export interface Spare {
  name: string;
  child: ChildProcess;
  pid: number;
  start: string | undefined;
}

/** Without a job or a change of an endpoint for so long, memory is worth more than a quick start. */
export const spareIdleMs = 30 * 60_000;
/** The next one waits until the worker that was made of the last is through with its own start. */
const afterUseMs = 1000;
/** One that ends by itself is not started again and again. */
const afterEndMs = 60_000;
/** Read by Node or the loader when a process starts: a spare has started without them. */
const startupNames = /^(NODE_|UV_|LD_|DYLD_|SSL_|OPENSSL_)/;

export class SpareRunner {
  private readonly needs: SpareNeeds;
  private present: Spare | undefined;
  private usedAt: number;
  private notBefore = 0;

  constructor(needs: SpareNeeds) {
    this.needs = needs;
    this.usedAt = needs.clock.now();
    needs.logs.forgetSpares();
  }

  /** Endpoints are in use. */
  touch(): void {
    this.usedAt = this.needs.clock.now();
  }

  /** Called again and again: has one when it is of use, none when it is not. */
  keep(endpoints: readonly EndpointRow[]): void {
    const now = this.needs.clock.now();
    const wanted = now - this.usedAt < spareIdleMs && endpoints.some(isServable);
    if (!wanted) this.end();
    else if (!this.present && now >= this.notBefore) this.begin();
  }

  /** The spare, if there is one for this endpoint. Whoever takes it must give it work or end it. */
  take(endpoint: EndpointRow): Spare | undefined {
    const spare = this.present;
    if (!spare || !isServable(endpoint)) return undefined;
    this.present = undefined;
    this.notBefore = this.needs.clock.now() + afterUseMs;
    return spare;
  }

  /** From now on it is a worker of an endpoint like every other. */
  give({ child }: Spare, { env, cwd }: Launch): void {
    child.stdin!.end(JSON.stringify({ env, cwd }));
  }

  end(): void {
    const spare = this.present;
    this.present = undefined;
    if (!spare) return;
    spare.child.stdin!.end();
    this.needs.logs.forgetSpare(spare.name);
  }

  private begin(): void {
    const { logs, clock } = this.needs;
    const name = randomId('s', 14);
    const logFd = logs.openSpare(name);
    const child = startProcess({ ...spareLaunch(this.needs), logFd, stdin: 'pipe' });
    closeSync(logFd);
    const ended = () => {
      if (this.present?.child !== child) return;
      this.present = undefined;
      this.notBefore = clock.now() + afterEndMs;
      logs.forgetSpare(name);
    };
    child.once('error', ended);
    child.once('exit', ended);
    const { pid } = child;
    // A reader that is gone is seen by its exit.
    child.stdin?.on('error', () => {});
    (child.stdin as Socket | null)?.unref();
    if (pid !== undefined) this.present = { name, child, pid, start: startOf(pid) };
  }
}

function isServable({ spec }: EndpointRow): boolean {
  const { recipe } = spec;
  if (!spec.spareRunner || !recipe || !('module' in recipe) || recipe.memoryMb) return false;
  const names = [...Object.keys(spec.env), ...spec.envFrom];
  return spec.workersMax > 0 && !names.some((name) => startupNames.test(name));
}
