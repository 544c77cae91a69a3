// How an endpoint is: counts of jobs and workers as RunPod shows them, and in plain words why a job still waits.
import { retryScope } from '../../jobs/intents.ts';
import type { Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { WorkerHub } from './hub.ts';
import type { RemoteClient } from './remote/client.ts';
import { remoteOf, type RemoteStore } from './remote/store.ts';
import type { Remote } from './spec.ts';
import type { EndpointRow } from './store.ts';
import type { Worker } from './worker.ts';

export type WorkerStatus = 'RUNNING' | 'IDLE' | 'INITIALIZING' | 'THROTTLED' | 'UNHEALTHY';

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

/** What the supervisor knows about an endpoint whose workers do not come up. */
export interface Trouble {
  /** Starts that failed in a row. */
  failures: number;
  /** Why there are no workers at all, when it is not a failed start. */
  reason?: string;
  lastEnd?: string;
  lastWorkerId?: string;
  nextStartAt?: number;
  logTail?: string[];
}

export interface HealthNeeds {
  jobs: Jobs;
  hub: WorkerHub;
  clock: Clock;
  trouble(endpoint: EndpointRow): Trouble;
  paused(endpointId: string): Promise<{ paused: boolean }>;
  remoteJobs: Pick<RemoteStore, 'waitingThere' | 'find'>;
  remote: Pick<RemoteClient, 'call' | 'hasKey' | 'trouble'>;
}

const remoteCacheMs = 5000;

export class HealthDesk {
  private readonly needs: HealthNeeds;
  private readonly remotes = new Map<string, { at: number; workers: Record<string, number> }>();

  constructor(needs: HealthNeeds) {
    this.needs = needs;
  }

  async health(endpoint: EndpointRow): Promise<Health> {
    const { jobs, hub } = this.needs;
    const counts = await jobs.store.counters(`queue:endpoint:${endpoint.id}`);
    const marks = await jobs.store.counters(retryScope('endpoint', endpoint.id));
    const workers = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 };
    for (const worker of hub.of(endpoint.id)) {
      const status = this.statusOf(worker, endpoint);
      workers[status.toLowerCase() as keyof typeof workers] += 1;
      if (status === 'IDLE' || status === 'RUNNING') workers.ready += 1;
    }
    // Those run here only in name: they wait there.
    const { remoteJobs } = this.needs;
    const waiting = endpoint.spec.remote ? await remoteJobs.waitingThere(endpoint.id) : 0;
    if (endpoint.spec.remote) Object.assign(workers, await this.remoteWorkers(endpoint));
    const { failures } = this.needs.trouble(endpoint);
    if (failures > 0 && workers.ready === 0) workers.unhealthy = Math.max(workers.unhealthy, 1);
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

  /** The workers of a remote endpoint are the remote's; without an answer there are none to show. */
  private async remoteWorkers(endpoint: EndpointRow): Promise<Record<string, number>> {
    const { remote } = this.needs;
    const now = this.needs.clock.now();
    const known = this.remotes.get(endpoint.id);
    if (known && now - known.at < remoteCacheMs) return known.workers;
    const answer = await remote.call(endpoint.spec.remote!, { method: 'GET', path: '/health' });
    const workers = answer.type === 'ok' ? (answer.body.workers as Record<string, number>) : {};
    this.remotes.set(endpoint.id, { at: now, workers });
    return workers;
  }

  statusOf(worker: Worker, endpoint: EndpointRow): WorkerStatus {
    const { clock } = this.needs;
    if (worker.unhealthy !== undefined) return 'UNHEALTHY';
    if (worker.running.size > 0) return 'RUNNING';
    if (worker.state !== 'starting') return 'IDLE';
    const late = clock.now() - worker.createdAt > endpoint.spec.startTimeoutMs;
    return late || this.needs.trouble(endpoint).failures > 1 ? 'UNHEALTHY' : 'INITIALIZING';
  }

  /** Why a job that was given to a remote waits, or why nothing is heard of it; undefined while all is well. */
  async diagnosisThere(endpoint: EndpointRow, job: Job): Promise<string | undefined> {
    const row = await this.needs.remoteJobs.find(job.attemptId);
    const remote = row && remoteOf(row, endpoint.spec.remote);
    const waits = remote && job.stage === 'remoteQueue';
    const where = waits ? `It waits in the queue of ${remote.baseUrl}.` : undefined;
    return this.remoteTrouble(remote) ?? where;
  }

  private remoteTrouble(remote: Remote | undefined): string | undefined {
    const reason = remote && this.needs.remote.trouble(remote);
    if (reason === undefined) return undefined;
    return `The last call to ${remote!.baseUrl} came to nothing (${reason}); it is tried again.`;
  }

  /** Why the workers of an endpoint do not come up; undefined while all is well. */
  async troubleText(endpoint: EndpointRow): Promise<string | undefined> {
    if (endpoint.spec.remote) return this.remoteTrouble(endpoint.spec.remote);
    const found = this.needs.trouble(endpoint);
    if (found.reason === undefined && found.failures === 0) return undefined;
    return this.noneReady(endpoint, found, []);
  }

  /** Why a queued job waits, for somebody who cannot look at this machine. */
  async diagnosis(endpoint: EndpointRow, job: Job): Promise<string> {
    const { hub, trouble, paused } = this.needs;
    if ((await paused(endpoint.id)).paused) return 'The queue of this endpoint is paused.';
    const { remote } = endpoint.spec;
    if (remote && !this.needs.remote.hasKey(remote))
      return `It is for ${remote.baseUrl}, but the variable ${remote.keyEnv} with its key is not set on this server.`;
    if (remote)
      return this.remoteTrouble(endpoint.spec.remote) ?? `It is to be sent to ${remote.baseUrl}.`;
    const found = trouble(endpoint);
    const workers = hub.of(endpoint.id);
    const ready = workers.filter(({ state }) => state === 'ready');
    if (ready.length === 0) return this.noneReady(endpoint, found, workers);
    if (ready.every(({ running }) => running.size > 0)) {
      const { inQueue } = (await this.health(endpoint)).jobs;
      return `${count(ready.length, 'worker')} busy with other jobs; ${count(inQueue, 'job')} waiting.`;
    }
    if (job.attempt > 1) {
      return 'It was handed out before and its worker was lost: it waits for another worker than that.';
    }
    return `${count(ready.length, 'worker')} ready; it should start in a moment.`;
  }

  private noneReady(endpoint: EndpointRow, found: Trouble, workers: Worker[]): string {
    const { clock } = this.needs;
    if (found.reason) return found.reason;
    if (found.failures > 0) {
      const next =
        found.nextStartAt === undefined
          ? ''
          : ` The next start is in ${Math.max(0, Math.ceil((found.nextStartAt - clock.now()) / 1000))} s.`;
      const log = found.logTail?.length ? ` Its last lines: ${found.logTail.join(' | ')}` : '';
      const who = found.lastWorkerId ? ` (read_worker_log ${found.lastWorkerId})` : '';
      return `Its workers keep dying: ${count(found.failures, 'start')} failed in a row, the last one: ${found.lastEnd ?? 'no reason known'}${who}.${next}${log}`;
    }
    if (workers.some(({ state }) => state === 'starting')) {
      const oldest = Math.min(...workers.map(({ createdAt }) => createdAt));
      const sinceS = Math.round((clock.now() - oldest) / 1000);
      return `A worker has been starting for ${sinceS} s and has not asked for work yet.`;
    }
    if (!endpoint.spec.recipe) {
      return 'No worker has come. This endpoint has no recipe: start a RunPod worker with a worker key against this server, as docs/endpoint.md shows.';
    }
    if (endpoint.spec.workersMax === 0) return 'workersMax of this endpoint is 0.';
    return 'A worker is about to be started.';
  }
}

function count(n: number, noun: string): string {
  if (noun === 'start') return `${n} start${n === 1 ? '' : 's'}`;
  return `${n} ${noun}${n === 1 ? ' is' : 's are'}`;
}
