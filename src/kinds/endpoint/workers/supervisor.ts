// Keeps the right number of worker processes for every endpoint with a recipe: starts, replaces and stops them, and
// after a restart adopts running workers and kills the others.
import type { Jobs } from '../../../jobs/jobs.ts';
import type { Log } from '../../../runtime/log.ts';
import { Loop, type Service } from '../../../runtime/service.ts';
import type { Address } from './address.ts';
import { readQueueState } from '../jobs/queue-state.ts';
import type { Endpoints } from '../endpoints.ts';
import { Engines } from './engine.ts';
import type { StartTrouble } from '../health.ts';
import { Launcher, type LauncherDeps, type ManagedWorker } from './launcher.ts';
import {
  killByWorkerId,
  findWorkerProcess,
  isAlive,
  signalGroup,
  signalOne,
  startOf,
} from './process.ts';
import { readOutbox, type Post } from '../relay/outbox.ts';
import { workersWanted, type Load } from './scaling.ts';
import { RunnerPool } from './prestarted-runner.ts';
import { StartHistory } from './start-history.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import { isSilent, type Worker } from './worker.ts';

interface SupervisorDeps extends Omit<
  LauncherDeps,
  'engines' | 'runners' | 'onStarted' | 'handleExit'
> {
  jobs: Jobs;
  endpoints: Endpoints;
  log: Log;
  address: Pick<Address, 'open' | 'isUnchanged'>;
  /** Handles a post that a worker sent while the server was away. */
  recover(worker: Worker, post: Post): Promise<void>;
}

const tickMs = 500;
/** A worker that lived this long does not count as a failed start. */
const provenMs = 60_000;
/** Rows and logs of ended workers are kept for this long. */
const endedKeepMs = 7 * 86_400_000;
const externalSilentMs = 90_000;

export class Supervisor implements Service {
  readonly name = 'endpoint workers';
  private readonly deps: SupervisorDeps;
  private readonly processes = new Map<string, ManagedWorker>();
  readonly starts: StartHistory;
  private readonly engines: Engines;
  private readonly runners: RunnerPool;
  private readonly launcher: Launcher;
  private readonly loop: Loop;
  private readonly unsubscribe: (() => void)[] = [];
  private forgotAt = 0;
  private startedAt = 0;
  /** Logs of a deleted endpoint must be removed. */
  private hasOldLogs = true;
  /** There are no endpoints and no workers. */
  private quiet = false;
  private stopped = false;

  constructor(deps: SupervisorDeps) {
    this.deps = deps;
    const { clock, log } = deps;
    this.starts = new StartHistory(deps);
    this.engines = new Engines(clock, deps.secret);
    this.runners = new RunnerPool(deps);
    this.launcher = new Launcher({
      ...deps,
      engines: this.engines,
      runners: this.runners,
      onStarted: (entry) => this.processes.set(entry.worker.id, entry),
      handleExit: (entry, reason, code, signal) => this.handleExit(entry, reason, code, signal),
    });
    this.loop = new Loop({
      name: 'endpoint workers',
      everyMs: tickMs,
      isQuiet: () => this.quiet,
      clock,
      log,
      run: () => this.tick(),
    });
  }

  async start(): Promise<void> {
    const { jobs, endpoints, registry } = this.deps;
    this.startedAt = this.deps.clock.now();
    await this.adopt();
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) this.markUsed();
      }),
      endpoints.onChange(() => {
        this.hasOldLogs = true;
        this.markUsed();
      }),
      registry.onChange((worker) => {
        if (worker.state === 'draining' && worker.running.size === 0) this.loop.wake();
      }),
    );
    await this.loop.start();
  }

  /** Stops idle workers. Busy ones continue, and the next server adopts them. */
  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    for (const off of this.unsubscribe.splice(0)) off();
    await this.loop.stop();
    this.runners.end();
    for (const entry of this.processes.values()) {
      if (entry.worker.running.size > 0 || entry.pid === undefined) continue;
      await this.deps.registry.setState(entry.worker, 'draining');
      terminate(entry);
    }
  }

  /** Stops a worker after its current jobs. */
  retire(worker: Worker, reason: string, failure = false): void {
    const entry = this.processes.get(worker.id);
    if (!entry || entry.ending) return;
    entry.ending = { reason, since: this.deps.clock.now(), killed: false, failure };
    this.deps.logs.note(worker.endpointId, worker.id, `stop worker: ${reason}`);
    void this.deps.registry
      .setState(worker, 'draining')
      .then(() => this.loop.wake())
      .catch((error: unknown) => this.deps.log.warn('failed to drain a worker', { error }));
  }

  trouble(endpoint: EndpointRow): StartTrouble {
    return this.starts.trouble(endpoint.id, this.engines.missingReason(endpoint));
  }

  /** Workers must be kept or stopped even without jobs. */
  async busy(): Promise<boolean> {
    const rows = await this.deps.endpoints.list();
    return rows.some(({ spec }) => spec.recipe !== undefined && spec.minWorkers > 0);
  }

  private markUsed(): void {
    this.runners.markUsed();
    this.loop.wake();
  }

  private async tick(): Promise<void> {
    const rows = await this.deps.endpoints.list();
    const isUsed =
      rows.length > 0 || this.processes.size > 0 || this.deps.registry.workers.size > 0;
    this.quiet = !isUsed && !this.hasOldLogs;
    const known = new Set(rows.map(({ id }) => id));
    for (const row of rows) await this.keep(row);
    for (const entry of this.processes.values())
      if (!known.has(entry.worker.endpointId))
        this.retire(entry.worker, 'the endpoint was deleted');
    for (const entry of [...this.processes.values()]) await this.watch(entry);
    await this.watchExternal(rows);
    this.runners.adjust(rows);
    this.forgetLogs(known);
    await this.forgetOld();
  }

  /** One endpoint: replaces outdated workers, stops idle ones, starts missing ones. */
  private async keep(endpoint: EndpointRow): Promise<void> {
    const { clock, jobs } = this.deps;
    const mine = [...this.processes.values()].filter(
      ({ worker }) => worker.endpointId === endpoint.id,
    );
    const { spec } = endpoint;
    for (const { worker, ending } of mine) {
      if (ending) continue;
      if (worker.version !== endpoint.version || !spec.recipe)
        this.retire(worker, `it runs version ${worker.version} instead of ${endpoint.version}`);
    }
    const live = mine.filter(({ ending }) => !ending);
    if (!spec.recipe) return;
    const load = await this.load(endpoint, live);
    const wanted = workersWanted(spec, load);
    const idle = live.filter(
      ({ worker }) =>
        worker.state === 'ready' &&
        worker.running.size === 0 &&
        clock.now() - worker.idleSince >= spec.idleTimeoutMs,
    );
    let surplus = live.length - Math.max(spec.minWorkers, load.queued > 0 ? 1 : 0);
    for (const { worker } of idle) {
      if (surplus <= 0 || (load.queued > 0 && live.length <= wanted)) break;
      this.retire(worker, `idle for ${spec.idleTimeoutMs} ms`);
      surplus -= 1;
    }
    for (const { worker } of live.slice(0, Math.max(0, live.length - spec.maxWorkers)))
      this.retire(worker, 'there are more workers than maxWorkers');
    const start = this.starts.of(endpoint.id);
    if (live.length >= wanted || clock.now() < start.nextStartAt || !jobs.acceptsWork()) return;
    if ('image' in spec.recipe) await this.engines.check();
    if (this.engines.missingReason(endpoint) !== undefined) return;
    for (let i = live.length; i < wanted; i++) {
      start.startedAt = clock.now();
      await this.launcher.launch(endpoint);
    }
  }

  private async load(endpoint: EndpointRow, live: ManagedWorker[]): Promise<Load> {
    const { clock } = this.deps;
    const { head, queued, running } = await readQueueState(this.deps, endpoint);
    if (head?.again) await this.replaceLostHolder(head.id, endpoint, live);
    if (head) this.replaceSilent(endpoint, live);
    const normal = head !== undefined && !head.low;
    return {
      queued: normal ? queued : 0,
      running,
      oldestWaitMs: normal ? clock.now() - head.since : 0,
      workers: live.length,
      starting: live.filter(({ worker }) => worker.state === 'starting').length,
      sinceStartMs: clock.now() - this.starts.of(endpoint.id).startedAt,
    };
  }

  /** A lost job never returns to the worker that lost it. If there is no other worker, an idle one is replaced. */
  private async replaceLostHolder(
    jobId: string,
    endpoint: EndpointRow,
    live: ManagedWorker[],
  ): Promise<void> {
    if (live.length < endpoint.spec.maxWorkers) return;
    const lost = new Set(await this.deps.store.lostHolders(jobId));
    if (live.some(({ worker }) => !lost.has(worker.id))) return;
    const idle = live.find(({ worker, ending }) => !ending && worker.running.size === 0);
    if (idle) this.retire(idle.worker, `it lost job ${jobId}, which must go to another worker`);
  }

  /** RunPod's package 1.7.11 to 1.10.0 may consider itself busy: it counts the jobs in a file in its folder. */
  private replaceSilent({ spec }: EndpointRow, live: ManagedWorker[]): void {
    const now = this.deps.clock.now();
    for (const { worker } of live) {
      const silentMs = now - Math.max(worker.askedAt, this.startedAt);
      if (!isSilent(worker) || silentMs < spec.askTimeoutMs) continue;
      this.retire(worker, `it is idle but has not polled for work for ${silentMs} ms`);
    }
  }

  /** The process has exited: its jobs are lost, its key is revoked, and repeated failures delay the next start. */
  private async handleExit(
    entry: ManagedWorker,
    reason: string,
    exitCode: number | null = null,
    exitSignal: string | null = null,
  ): Promise<void> {
    const { registry, access, logs, clock, log, folders } = this.deps;
    const { worker } = entry;
    if (!this.processes.delete(worker.id)) return;
    const why = entry.ending ? `${entry.ending.reason} (${reason})` : reason;
    const lived = clock.now() - worker.createdAt;
    if (!this.stopped && (entry.ending ? entry.ending.failure : lived < provenMs))
      this.starts.failed(worker, why);
    try {
      logs.tick(worker.endpointId, worker.id);
      logs.note(worker.endpointId, worker.id, `worker ended: ${why}`);
      // Processes that it left behind are killed.
      if (entry.pid !== undefined) signalGroup(entry.pid, entry.start ?? null, 'SIGKILL');
      killByWorkerId(worker.id);
      if (worker.origin === 'container') void this.engines.removeContainer(worker.id);
      await this.recover(worker);
      await registry.end(worker, { reason: why, exitCode, exitSignal });
      folders.forget(worker.id);
      if (entry.keyId) await access.revoke(entry.keyId);
    } catch (error) {
      if (!this.stopped) log.error('failed to store the end of a worker', { error });
    }
    this.loop.wake();
  }

  /** Applies posts that the relay stored and could not deliver. Those jobs are done and do not run again. */
  private async recover(worker: Worker): Promise<void> {
    const { folders, recover } = this.deps;
    const folder = folders.findRelay(worker.id);
    for (const post of folder ? readOutbox(folder) : []) await recover(worker, post);
  }

  /** Checks one process: it may have exited, be late, or fail to stop. */
  private async watch(entry: ManagedWorker): Promise<void> {
    const { clock, logs, registry, endpoints } = this.deps;
    const { worker } = entry;
    if (!entry.isRelayed) logs.tick(worker.endpointId, worker.id);
    if (entry.adopted && entry.pid !== undefined && !isAlive(entry.pid, entry.start ?? null))
      return this.handleExit(entry, 'its process is gone');
    const endpoint = await endpoints.find(worker.endpointId);
    const stopMs = endpoint?.spec.stopMs ?? 0;
    const now = clock.now();
    if (entry.ending) return this.finish(entry, stopMs, now);
    if (!endpoint) return;
    const stuck = [...worker.stopping].find(([, since]) => now - since >= stopMs);
    if (stuck) return this.retire(worker, `it did not stop job ${stuck[0]}`);
    if (worker.state === 'starting' && now - worker.createdAt >= endpoint.spec.startTimeoutMs)
      return this.retire(worker, 'it did not poll for work in time', true);
    // Our runner always reports the end of a job, so its jobs live as long as its process.
    if (isRunner(endpoint) && worker.running.size > 0 && entry.pid !== undefined)
      await registry.extend(worker, endpoint, new Map(worker.running));
  }

  private async finish(entry: ManagedWorker, stopMs: number, now: number): Promise<void> {
    const { worker, ending, pid } = entry;
    if (!ending || pid === undefined) return;
    const overdue = now - ending.since >= stopMs;
    const stuck = [...worker.stopping.values()].some((since) => now - since >= stopMs);
    const endpoint = await this.deps.endpoints.find(worker.endpointId);
    // Running jobs may continue until their own time limit, except a job that does not stop.
    if (worker.running.size > 0 && endpoint) return;
    if (!ending.killed) {
      ending.killed = true;
      ending.since = now;
      if (stuck) signalGroup(pid, entry.start ?? null, 'SIGKILL');
      else terminate(entry);
    } else if (overdue) {
      signalGroup(pid, entry.start ?? null, 'SIGKILL');
    }
  }

  private async watchExternal(rows: readonly EndpointRow[]): Promise<void> {
    const { registry, clock, store } = this.deps;
    const leases = new Map(rows.map(({ id, spec }) => [id, spec.leaseMs]));
    for (const worker of registry.workers.values()) {
      if (worker.origin !== 'external' || worker.seenAt === null) continue;
      const silentMs = clock.now() - worker.seenAt;
      if (silentMs <= Math.max(externalSilentMs, 2 * (leases.get(worker.endpointId) ?? 0)))
        continue;
      // It may be connected to another node, which stores its last contact.
      const { seenAt = null, endedAt = null } = (await store.worker(worker)) ?? {};
      if (endedAt === null && seenAt !== null && seenAt > worker.seenAt) worker.seenAt = seenAt;
      else await registry.end(worker, { reason: `silent for ${Math.round(silentMs / 1000)} s` });
    }
  }

  private async adopt(): Promise<void> {
    const { store, registry, node, address, folders } = this.deps;
    const rows = await store.liveWorkers();
    const left = rows.filter((row) => row.origin !== 'external' && row.node === node);
    const isRelayed = (id: string) => folders.findRelay(id) !== undefined;
    // A relay finds the server wherever it listens.
    const reach = left.every(({ id }) => isRelayed(id)) || (await address.isUnchanged());
    folders.forgetOthers(new Set(left.map(({ id }) => id)));
    for (const row of left) {
      const worker = registry.find(row.endpointId, row.id) ?? registry.add(row);
      const pid = row.pid ?? findWorkerProcess(row.id);
      const start = row.processStart ?? (pid === undefined ? undefined : startOf(pid));
      const entry: ManagedWorker = {
        worker,
        pid,
        start,
        keyId: row.keyId,
        isRelayed: isRelayed(row.id),
        adopted: true,
      };
      this.processes.set(row.id, entry);
      if (pid === undefined || !isAlive(pid, row.processStart))
        await this.handleExit(entry, 'it exited while the server was away');
      else if (!reach && !entry.isRelayed) await this.abandon(entry);
      else if (row.state === 'draining')
        this.retire(worker, 'it was being stopped when the server exited');
    }
  }

  /** The worker polls an address that no longer works, so its jobs go to other workers immediately. */
  private abandon(entry: ManagedWorker): Promise<void> {
    const reason = 'the address of the server has changed';
    entry.ending = { reason, since: this.deps.clock.now(), killed: true, failure: false };
    return this.handleExit(entry, 'killed');
  }

  private forgetLogs(known: ReadonlySet<string>): void {
    if (!this.hasOldLogs) return;
    const live = [...this.processes.values()].map(({ worker }) => worker.endpointId);
    const isLater = this.deps.logs.forgetDeleted(new Set([...known, ...live]));
    this.hasOldLogs = isLater || live.some((id) => !known.has(id));
  }

  private async forgetOld(): Promise<void> {
    const { store, logs, clock } = this.deps;
    if (clock.now() - this.forgotAt < 60_000) return;
    this.forgotAt = clock.now();
    const old = await store.oldWorkers(clock.now() - endedKeepMs, 200);
    if (old.length === 0) return;
    for (const { endpointId, id } of old) logs.forget(endpointId, id);
    await store.store.commit(store.forgetWorkers(old));
  }
}

/** A relay forwards the signal to its worker and ends its open polls. */
function terminate({ pid, start, isRelayed }: ManagedWorker): void {
  if (pid === undefined) return;
  if (isRelayed) signalOne(pid, start ?? null, 'SIGTERM');
  else signalGroup(pid, start ?? null, 'SIGTERM');
}

const isRunner = ({ spec }: EndpointRow): boolean =>
  spec.recipe !== undefined && ('module' in spec.recipe || 'perJob' in spec.recipe);
