// Health of an endpoint: job and worker counts as RunPod reports them, and the reason why a job still waits.
import { retryScope } from '../../jobs/intents.ts';
import type { Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { WorkerRegistry } from './workers/registry.ts';
import type { RemoteClient } from './remote/client.ts';
import { remoteOf, type RemoteStore } from './store/remote-jobs.ts';
import type { Remote } from './spec.ts';
import type { EndpointRow } from './store/endpoints.ts';
import { stateFile } from './workers/folders.ts';
import { isSilent, type Worker } from './workers/worker.ts';

type WorkerStatus = 'RUNNING' | 'IDLE' | 'INITIALIZING' | 'THROTTLED' | 'UNHEALTHY';

export interface Health {
  jobs: {
    completed: number;
    failed: number;
    inProgress: number;
    inQueue: number;
    retried: number;
  };
  workers: {
    idle: number;
    initializing: number;
    ready: number;
    running: number;
    throttled: number;
    unhealthy: number;
  };
}

/** What the supervisor knows about an endpoint whose workers do not start. */
export interface StartTrouble {
  /** Consecutive failed starts. */
  failures: number;
  /** Why there are no workers, if the reason is not a failed start. */
  reason?: string;
  lastEnd?: string;
  lastWorkerId?: string;
  nextStartAt?: number;
  logTail?: string[];
}

interface HealthDeps {
  jobs: Jobs;
  registry: WorkerRegistry;
  clock: Clock;
  trouble(endpoint: EndpointRow): StartTrouble;
  paused(endpointId: string): Promise<{ paused: boolean }>;
  remoteJobs: Pick<RemoteStore, 'waitingThere' | 'find'>;
  remote: Pick<RemoteClient, 'call' | 'hasKey' | 'trouble'>;
}

const remoteCacheMs = 5000;
/** RunPod's package pauses for up to 5 s between two polls. */
const silentMs = 6000;

export class HealthService {
  private readonly deps: HealthDeps;
  private readonly remotes = new Map<string, { at: number; workers: Record<string, number> }>();

  constructor(deps: HealthDeps) {
    this.deps = deps;
  }

  async health(endpoint: EndpointRow): Promise<Health> {
    const { jobs, registry } = this.deps;
    const counts = await jobs.store.counters(`queue:endpoint:${endpoint.id}`);
    const marks = await jobs.store.counters(retryScope('endpoint', endpoint.id));
    const workers = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 };
    for (const worker of registry.ofEndpoint(endpoint.id)) {
      const status = this.statusOf(worker, endpoint);
      workers[status.toLowerCase() as keyof typeof workers] += 1;
      if (status === 'IDLE' || status === 'RUNNING') workers.ready += 1;
    }
    // These jobs count as running here, but wait in the queue of the remote.
    const { remoteJobs } = this.deps;
    const waiting = endpoint.spec.remote ? await remoteJobs.waitingThere(endpoint.id) : 0;
    if (endpoint.spec.remote) Object.assign(workers, await this.remoteWorkers(endpoint));
    const { failures, reason } = this.deps.trouble(endpoint);
    if ((failures > 0 || reason !== undefined) && workers.ready === 0)
      workers.unhealthy = Math.max(workers.unhealthy, 1);
    return {
      jobs: {
        completed: counts.completed ?? 0,
        failed: (counts.failed ?? 0) + (counts.timed_out ?? 0),
        inProgress: Math.max((counts.running ?? 0) + (counts.input_required ?? 0) - waiting, 0),
        inQueue: (counts.queued ?? 0) + waiting,
        retried: marks.retried ?? 0,
      },
      workers,
    };
  }

  /** Workers of a remote endpoint belong to the remote. Without a response, none are shown. */
  private async remoteWorkers(endpoint: EndpointRow): Promise<Record<string, number>> {
    const { remote } = this.deps;
    const now = this.deps.clock.now();
    const known = this.remotes.get(endpoint.id);
    if (known && now - known.at < remoteCacheMs) return known.workers;
    const result = await remote.call(endpoint.spec.remote!, { method: 'GET', path: '/health' });
    const workers = result.type === 'ok' ? (result.body.workers as Record<string, number>) : {};
    this.remotes.set(endpoint.id, { at: now, workers });
    return workers;
  }

  statusOf(worker: Worker, endpoint: EndpointRow): WorkerStatus {
    const { clock } = this.deps;
    if (worker.unhealthy !== undefined) return 'UNHEALTHY';
    if (worker.running.size > 0) return 'RUNNING';
    if (worker.state !== 'starting') return 'IDLE';
    const late = clock.now() - worker.createdAt > endpoint.spec.startTimeoutMs;
    return late || this.deps.trouble(endpoint).failures > 1 ? 'UNHEALTHY' : 'INITIALIZING';
  }

  /** Explains why a job on a remote waits or makes no progress. Undefined if nothing is wrong. */
  async remoteDiagnosis(endpoint: EndpointRow, job: Job): Promise<string | undefined> {
    const row = await this.deps.remoteJobs.find(job.attemptId);
    const remote = row && remoteOf(row, endpoint.spec.remote);
    const waits = remote && job.stage === 'remoteQueue';
    const where = waits ? `The job waits in the queue of ${remote.baseUrl}.` : undefined;
    return this.remoteTrouble(remote) ?? where;
  }

  private remoteTrouble(remote: Remote | undefined): string | undefined {
    const reason = remote && this.deps.remote.trouble(remote);
    if (reason === undefined) return undefined;
    return `The last call to ${remote!.baseUrl} failed (${reason}). It will be retried.`;
  }

  /** Explains why the workers of an endpoint do not start. Undefined if nothing is wrong. */
  async troubleText(endpoint: EndpointRow): Promise<string | undefined> {
    if (endpoint.spec.remote) return this.remoteTrouble(endpoint.spec.remote);
    const found = this.deps.trouble(endpoint);
    if (found.reason === undefined && found.failures === 0) return undefined;
    return this.noneReady(endpoint, found, []);
  }

  /** Explains why a queued job waits, for callers without access to this machine. */
  async diagnosis(endpoint: EndpointRow, job: Job): Promise<string> {
    const { registry, trouble, paused, clock } = this.deps;
    if ((await paused(endpoint.id)).paused) return 'The queue of this endpoint is paused.';
    const { remote } = endpoint.spec;
    if (remote && !this.deps.remote.hasKey(remote))
      return `The job is for ${remote.baseUrl}, but the variable ${remote.keyEnv} with its key is not set on this server.`;
    if (remote)
      return (
        this.remoteTrouble(endpoint.spec.remote) ?? `The job will be sent to ${remote.baseUrl}.`
      );
    const found = trouble(endpoint);
    const workers = registry.ofEndpoint(endpoint.id);
    const ready = workers.filter(({ state }) => state === 'ready');
    if (ready.length === 0) return this.noneReady(endpoint, found, workers);
    if (ready.every(({ running }) => running.size > 0)) {
      const { inQueue } = (await this.health(endpoint)).jobs;
      return `${count(ready.length, 'worker')} busy with other jobs; ${count(inQueue, 'job')} waiting.`;
    }
    const silent = ready.filter(
      (worker) => isSilent(worker) && clock.now() - worker.askedAt >= silentMs,
    );
    if (silent.length > 0) return silentText(endpoint, silent[0]!, clock.now());
    if (job.lost > 0) {
      return 'The worker that ran this job was lost. The job waits for a different worker.';
    }
    return `${count(ready.length, 'worker')} ready. The job should start in a moment.`;
  }

  private noneReady(endpoint: EndpointRow, found: StartTrouble, workers: Worker[]): string {
    const { clock } = this.deps;
    if (found.reason) return found.reason;
    if (found.failures > 0) {
      const next =
        found.nextStartAt === undefined
          ? ''
          : ` The next attempt is in ${Math.max(0, Math.ceil((found.nextStartAt - clock.now()) / 1000))} s.`;
      const log = found.logTail?.length ? ` Its last lines: ${found.logTail.join(' | ')}` : '';
      const who = found.lastWorkerId ? ` (read_worker_log ${found.lastWorkerId})` : '';
      return `The workers keep dying: ${count(found.failures, 'start')} failed in a row. Last failure: ${found.lastEnd ?? 'unknown reason'}${who}.${next}${log}`;
    }
    if (workers.some(({ state }) => state === 'starting')) {
      const oldest = Math.min(...workers.map(({ createdAt }) => createdAt));
      const sinceS = Math.round((clock.now() - oldest) / 1000);
      return `A worker has been starting for ${sinceS} s and has not polled for work yet.`;
    }
    if (!endpoint.spec.recipe) {
      return 'No worker has connected. This endpoint has no recipe: start a RunPod worker with a worker key against this server, see docs/endpoint.md.';
    }
    if (endpoint.spec.maxWorkers === 0)
      return 'maxWorkers of this endpoint is 0, so no worker is started.';
    return 'A worker is about to be started.';
  }
}

function silentText({ spec }: EndpointRow, worker: Worker, now: number): string {
  const seconds = Math.round((now - worker.askedAt) / 1000);
  const { recipe } = spec;
  const cwd = recipe && 'cwd' in recipe ? recipe.cwd : undefined;
  const hint =
    cwd === undefined
      ? ''
      : ` RunPod's package 1.7.11 to 1.10.0 counts jobs of other workers in ${cwd}/${stateFile} as its own: remove cwd from the recipe so that every worker gets its own folder.`;
  return `Worker ${worker.id} is idle but has not polled for work for ${seconds} s. It is replaced after ${spec.askTimeoutMs / 1000} s (askTimeoutMs).${hint}`;
}

function count(n: number, noun: string): string {
  if (noun === 'start') return `${n} start${n === 1 ? '' : 's'}`;
  return `${n} ${noun}${n === 1 ? ' is' : 's are'}`;
}
