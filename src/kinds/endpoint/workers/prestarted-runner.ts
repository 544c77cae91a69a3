// A prestarted runner: a process that has loaded everything but a handler and knows no secret, so that the first job
// of an endpoint does not wait for Node to start. It exists only while an endpoint can use it and endpoints are in
// use. It exits with this server in any case, because its stdin closes.
import type { ChildProcess } from 'node:child_process';
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { randomId } from '../../../runtime/id.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { WorkerLogs } from './logs.ts';
import { startOf, startProcess } from './process.ts';
import { prestartLaunch, type Launch } from './recipe.ts';
import type { EndpointRow } from '../store/endpoints.ts';

interface RunnerPoolDeps {
  clock: Clock;
  logs: WorkerLogs;
  folder: string;
  home: string;
  secret(name: string): string | undefined;
}

export interface PrestartedRunner {
  name: string;
  child: ChildProcess;
  pid: number;
  start: string | undefined;
}

/** After this long without a job or a changed endpoint, freeing the memory matters more than a quick start. */
export const runnerIdleMs = 30 * 60_000;
/** The next runner starts after the previous one has finished its own start as a worker. */
const afterUseMs = 1000;
/** A runner that exits unexpectedly is not restarted immediately. */
const afterEndMs = 60_000;
/** Variables that Node or the loader read at process start. A prestarted runner cannot apply them. */
const startupNames = /^(NODE_|UV_|LD_|DYLD_|SSL_|OPENSSL_)/;

export class RunnerPool {
  private readonly deps: RunnerPoolDeps;
  private current: PrestartedRunner | undefined;
  private usedAt: number;
  private notBefore = 0;

  constructor(deps: RunnerPoolDeps) {
    this.deps = deps;
    this.usedAt = deps.clock.now();
    deps.logs.forgetAllPrestarted();
  }

  /** Records that endpoints are in use. */
  markUsed(): void {
    this.usedAt = this.deps.clock.now();
  }

  /** Called periodically: starts a runner if one is useful, and ends it if not. */
  adjust(endpoints: readonly EndpointRow[]): void {
    const now = this.deps.clock.now();
    const wanted = now - this.usedAt < runnerIdleMs && endpoints.some(isServable);
    if (!wanted) this.end();
    else if (!this.current && now >= this.notBefore) this.start();
  }

  /** Returns the runner, if it suits this endpoint. The caller must assign it work or end it. */
  take(endpoint: EndpointRow): PrestartedRunner | undefined {
    const runner = this.current;
    if (!runner || !isServable(endpoint)) return undefined;
    this.current = undefined;
    this.notBefore = this.deps.clock.now() + afterUseMs;
    return runner;
  }

  /** Turns the runner into a worker of an endpoint. */
  assign({ child }: PrestartedRunner, { env, cwd }: Launch): void {
    child.stdin!.end(JSON.stringify({ env, cwd }));
  }

  end(): void {
    const runner = this.current;
    this.current = undefined;
    if (!runner) return;
    runner.child.stdin!.end();
    this.deps.logs.forgetPrestarted(runner.name);
  }

  private start(): void {
    const { logs, clock } = this.deps;
    const name = randomId('s', 14);
    const logFd = logs.openPrestarted(name);
    const child = startProcess({ ...prestartLaunch(this.deps), logFd, stdin: 'pipe' });
    closeSync(logFd);
    const ended = () => {
      if (this.current?.child !== child) return;
      this.current = undefined;
      this.notBefore = clock.now() + afterEndMs;
      logs.forgetPrestarted(name);
    };
    child.once('error', ended);
    child.once('exit', ended);
    const { pid } = child;
    // The exit event reports a runner that is gone.
    child.stdin?.on('error', () => {});
    (child.stdin as Socket | null)?.unref();
    if (pid !== undefined) this.current = { name, child, pid, start: startOf(pid) };
  }
}

function isServable({ spec }: EndpointRow): boolean {
  const { recipe } = spec;
  if (!spec.spareRunner || !recipe || !('module' in recipe) || recipe.memoryMb) return false;
  const names = [...Object.keys(spec.env), ...spec.envFrom];
  return spec.maxWorkers > 0 && !names.some((name) => startupNames.test(name));
}
