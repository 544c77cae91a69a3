// Keeps the right number of worker processes for every endpoint with a recipe: starts, replaces, stops, and after a
// restart of this server takes over those that live and ends the rest. Also the clock of running jobs.
import { closeSync } from 'node:fs';
import { execFile } from 'node:child_process';
import type { Access } from '../../access/access.ts';
import { randomId } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import { queueKey } from '../../jobs/decide.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import type { Endpoints } from './endpoints.ts';
import type { Trouble } from './health.ts';
import type { Worker, WorkerHub } from './hub.ts';
import { isLowPriority } from './intake.ts';
import type { WorkerLogs } from './logs.ts';
import { findWorkerProcess, isAlive, signalGroup, startOf, startProcess } from './process.ts';
import { containerName, findEngine, launchOf, type Engine, type LaunchNeeds } from './recipe.ts';
import { startDelayMs, workersWanted } from './scaling.ts';
import type { EndpointRow, EndpointStore, WorkerRow } from './store.ts';

export interface SupervisorNeeds {
  jobs: Jobs;
  hub: WorkerHub;
  endpoints: Endpoints;
  store: EndpointStore;
  logs: WorkerLogs;
  access: Access;
  clock: Clock;
  log: Log;
  node: string;
  folder: string;
  home: string;
  secret(name: string): string | undefined;
  openBaseUrl(): Promise<string>;
}

/** A process of ours. */
interface Own {
  worker: Worker;
  pid: number | undefined;
  start: string | undefined;
  keyId: string | null;
  /** Not started by this run of the server: its end is seen by looking, not by an event. */
  adopted: boolean;
  /** Why it is to end; undefined while it should live. */
  ending?: { reason: string; since: number; killed: boolean; failure: boolean };
}

/** The job that is next. */
interface Head {
  id: string;
  /** It was handed out before. */
  again: boolean;
  low: boolean;
  since: number;
}

interface State {
  failures: number;
  lastEnd?: string;
  lastWorkerId?: string;
  nextStartAt: number;
  startedAt: number;
}

const tickMs = 500;
/** A worker that lived so long was no failed start, whatever it died of. */
const provenMs = 60_000;
const engineCheckMs = 30_000;
/** Rows and logs of ended workers are kept for so long. */
const endedKeepMs = 7 * 86_400_000;
const externalSilentMs = 90_000;

export class Supervisor implements Service {
  readonly name = 'endpoint workers';
  private readonly needs: SupervisorNeeds;
  private readonly own = new Map<string, Own>();
  private readonly states = new Map<string, State>();
  private readonly loop: Loop;
  private readonly unsubscribe: (() => void)[] = [];
  private engine: { found: Engine; at: number } | undefined;
  private forgotAt = 0;
  private stopped = false;

  constructor(needs: SupervisorNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.loop = new Loop({
      name: 'endpoint workers',
      everyMs: tickMs,
      clock,
      log,
      run: () => this.tick(),
    });
  }

  async start(): Promise<void> {
    const { jobs, endpoints, hub } = this.needs;
    await this.adopt();
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) this.loop.wake();
      }),
      endpoints.onChange(() => this.loop.wake()),
      hub.onChange((worker) => {
        if (worker.state === 'draining' && worker.running.size === 0) this.loop.wake();
      }),
    );
    await this.loop.start();
  }

  /** Idle workers end with the server; busy ones go on and are taken over by the next. */
  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    for (const off of this.unsubscribe.splice(0)) off();
    await this.loop.stop();
    for (const own of this.own.values()) {
      if (own.worker.running.size > 0 || own.pid === undefined) continue;
      await this.needs.hub.setState(own.worker, 'draining');
      signalGroup(own.pid, own.start ?? null, 'SIGTERM');
    }
  }

  /** Ends a worker after what it runs now. */
  retire(worker: Worker, reason: string, failure = false): void {
    const own = this.own.get(worker.id);
    if (!own || own.ending) return;
    own.ending = { reason, since: this.needs.clock.now(), killed: false, failure };
    this.needs.logs.note(worker.endpointId, worker.id, `stop worker: ${reason}`);
    void this.needs.hub
      .setState(worker, 'draining')
      .then(() => this.loop.wake())
      .catch((error: unknown) => this.needs.log.warn('a worker could not be drained', { error }));
  }

  /** A job was done: whatever failed before, workers of this endpoint work. */
  proven(endpointId: string): void {
    const state = this.states.get(endpointId);
    if (state) state.failures = 0;
  }

  trouble(endpoint: EndpointRow): Trouble {
    const state = this.state(endpoint.id);
    const reason = this.missingReason(endpoint);
    const tail = state.failures > 0 && state.lastWorkerId ? this.tail(endpoint.id, state) : [];
    return {
      failures: state.failures,
      ...(reason === undefined ? {} : { reason }),
      ...(state.lastEnd === undefined ? {} : { lastEnd: state.lastEnd }),
      ...(state.lastWorkerId === undefined ? {} : { lastWorkerId: state.lastWorkerId }),
      ...(state.failures > 0 ? { nextStartAt: state.nextStartAt, logTail: tail } : {}),
    };
  }

  /** Something is due without a job: workers to keep, workers to end. */
  async busy(): Promise<boolean> {
    const rows = await this.needs.endpoints.list();
    return rows.some(({ spec }) => spec.recipe !== undefined && spec.workersMin > 0);
  }

  private async tick(): Promise<void> {
    const rows = await this.needs.endpoints.list();
    const known = new Set(rows.map(({ id }) => id));
    for (const row of rows) await this.keep(row);
    for (const own of this.own.values())
      if (!known.has(own.worker.endpointId)) this.retire(own.worker, 'its endpoint was deleted');
    for (const own of [...this.own.values()]) await this.watch(own);
    await this.watchExternal(rows);
    await this.forgetOld();
  }

  /** One endpoint: replace what is outdated, stop what is idle, start what is missing. */
  private async keep(endpoint: EndpointRow): Promise<void> {
    const { clock } = this.needs;
    const mine = [...this.own.values()].filter(({ worker }) => worker.endpointId === endpoint.id);
    const { spec } = endpoint;
    for (const { worker, ending } of mine) {
      if (ending) continue;
      if (worker.version !== endpoint.version || !spec.recipe)
        this.retire(worker, `it is of version ${worker.version}, now it is ${endpoint.version}`);
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
    let surplus = live.length - Math.max(spec.workersMin, load.queued > 0 ? 1 : 0);
    for (const { worker } of idle) {
      if (surplus <= 0 || (load.queued > 0 && live.length <= wanted)) break;
      this.retire(worker, `idle for ${spec.idleTimeoutMs} ms`);
      surplus -= 1;
    }
    for (const { worker } of live.slice(0, Math.max(0, live.length - spec.workersMax)))
      this.retire(worker, 'there are more workers than workersMax');
    const state = this.state(endpoint.id);
    if (live.length >= wanted || clock.now() < state.nextStartAt) return;
    if ((await this.blocked(endpoint)) !== undefined) return;
    for (let i = live.length; i < wanted; i++) await this.launch(endpoint, state);
  }

  private async load(endpoint: EndpointRow, live: Own[]) {
    const { jobs, clock } = this.needs;
    const counts = await jobs.store.counters(`queue:endpoint:${endpoint.id}`);
    const head = (counts.queued ?? 0) > 0 ? await this.head(endpoint) : undefined;
    if (head?.again) await this.makeRoom(head.id, endpoint, live);
    const normal = head !== undefined && !head.low;
    return {
      queued: normal ? (counts.queued ?? 0) : 0,
      running: counts.running ?? 0,
      oldestWaitMs: normal ? clock.now() - head.since : 0,
      workers: live.length,
      starting: live.filter(({ worker }) => worker.state === 'starting').length,
      sinceStartMs: clock.now() - this.state(endpoint.id).startedAt,
    };
  }

  /** Looks at the first waiting job without taking it. */
  private async head(endpoint: EndpointRow): Promise<Head | undefined> {
    const { jobs, clock } = this.needs;
    let head: Head | undefined;
    await jobs.claim({
      queues: [{ name: queueKey('endpoint', endpoint.id) }],
      limit: 1,
      lookahead: 0,
      holder: 'nobody',
      node: null,
      leaseMs: 0,
      accept: (job) => {
        head = {
          id: job.id,
          again: job.attempt > 1,
          low: isLowPriority(job),
          since: Math.min(job.runAt, clock.now()),
        };
        return false;
      },
    });
    return head;
  }

  /** A job whose attempt was lost never goes to that worker again: when there is no other, an idle one is replaced. */
  private async makeRoom(jobId: string, endpoint: EndpointRow, live: Own[]): Promise<void> {
    if (live.length < endpoint.spec.workersMax) return;
    const lost = new Set(await this.needs.store.lostHolders(jobId));
    if (live.some(({ worker }) => !lost.has(worker.id))) return;
    const idle = live.find(({ worker, ending }) => !ending && worker.running.size === 0);
    if (idle) this.retire(idle.worker, `it lost job ${jobId}, which must go to another worker`);
  }

  private async launch(endpoint: EndpointRow, state: State): Promise<void> {
    const { store, access, clock, hub, logs, node } = this.needs;
    const now = clock.now();
    const id = randomId('w', 14);
    const key = access.plan({
      owner: endpoint.owner,
      name: `worker ${id}`,
      scopes: ['worker'],
      kinds: ['endpoint'],
      queues: [endpoint.id],
      subject: `endpoint:${endpoint.id}`,
    });
    const row: WorkerRow = {
      id,
      endpointId: endpoint.id,
      node,
      version: endpoint.version,
      origin: 'image' in endpoint.spec.recipe! ? 'container' : 'process',
      pid: null,
      processStart: null,
      keyId: key.row.id,
      state: 'starting',
      reason: null,
      createdAt: now,
      readyAt: null,
      seenAt: null,
      endedAt: null,
      exitCode: null,
      exitSignal: null,
    };
    // The row is there before the process can ask for work: after a kill it is found and adopted or ended.
    await store.store.commit([...key.steps, ...store.insertWorker(row)]);
    state.startedAt = now;
    const worker = hub.add(row);
    const own: Own = { worker, pid: undefined, start: undefined, keyId: row.keyId, adopted: false };
    this.own.set(id, own);
    logs.note(endpoint.id, id, `start worker of version ${endpoint.version}`);
    await this.spawn(endpoint, own, key.key);
  }

  private async spawn(endpoint: EndpointRow, own: Own, key: string): Promise<void> {
    const { store, logs } = this.needs;
    const { worker } = own;
    const logFd = logs.open(endpoint.id, worker.id);
    try {
      const launch = launchOf(endpoint, { id: worker.id, key }, await this.launchNeeds());
      const child = startProcess({ ...launch, logFd });
      child.once(
        'error',
        (error) => void this.gone(own, `it could not be started: ${error.message}`),
      );
      child.once(
        'exit',
        (code, signal) => void this.gone(own, exitText(code, signal), code, signal),
      );
      if (child.pid === undefined) return;
      own.pid = child.pid;
      own.start = startOf(child.pid);
      await store.store.commit(store.workerProcess(worker, child.pid, own.start));
    } catch (error) {
      await this.gone(own, `it could not be started: ${(error as Error).message}`);
    } finally {
      closeSync(logFd);
    }
  }

  private async launchNeeds(): Promise<LaunchNeeds> {
    const { secret, openBaseUrl, folder, home } = this.needs;
    const found = this.engine?.found;
    const engine = found && 'command' in found ? found.command : undefined;
    const baseUrl = await openBaseUrl();
    return { secret, baseUrl, cacheFolder: `${folder}/compiled`, home, engine };
  }

  /** The process is no more: what it held is lost now, its key ends, and a series of such ends slows the next start. */
  private async gone(
    own: Own,
    reason: string,
    exitCode: number | null = null,
    exitSignal: string | null = null,
  ): Promise<void> {
    const { hub, access, logs, clock, log } = this.needs;
    const { worker } = own;
    if (!this.own.delete(worker.id)) return;
    const why = own.ending ? `${own.ending.reason} (${reason})` : reason;
    const lived = clock.now() - worker.createdAt;
    if (!this.stopped && (own.ending ? own.ending.failure : lived < provenMs))
      this.failed(worker, why);
    try {
      logs.tick(worker.endpointId, worker.id);
      logs.note(worker.endpointId, worker.id, `worker ended: ${why}`);
      // What it started and left behind goes with it.
      if (own.pid !== undefined) signalGroup(own.pid, own.start ?? null, 'SIGKILL');
      await hub.end(worker, { reason: why, exitCode, exitSignal });
      if (own.keyId) await access.revoke(own.keyId);
    } catch (error) {
      if (!this.stopped) log.error('the end of a worker could not be written', { error });
    }
    this.loop.wake();
  }

  private failed(worker: Worker, why: string): void {
    const state = this.state(worker.endpointId);
    state.failures += 1;
    state.lastEnd = why;
    state.lastWorkerId = worker.id;
    state.nextStartAt = this.needs.clock.now() + startDelayMs(state.failures);
    this.needs.log.warn('a worker died', { endpoint: worker.endpointId, worker: worker.id, why });
  }

  /** One process: is it alive, late, disobedient, or through? */
  private async watch(own: Own): Promise<void> {
    const { clock, logs, hub, endpoints } = this.needs;
    const { worker } = own;
    logs.tick(worker.endpointId, worker.id);
    if (own.adopted && own.pid !== undefined && !isAlive(own.pid, own.start ?? null))
      return this.gone(own, 'its process is gone');
    const endpoint = await endpoints.find(worker.endpointId);
    const stopMs = endpoint?.spec.stopMs ?? 0;
    const now = clock.now();
    if (own.ending) return this.finish(own, stopMs, now);
    if (!endpoint) return;
    const stuck = [...worker.stopping].find(([, since]) => now - since >= stopMs);
    if (stuck) return this.retire(worker, `it did not stop job ${stuck[0]}`);
    if (worker.state === 'starting' && now - worker.createdAt >= endpoint.spec.startTimeoutMs)
      return this.retire(worker, 'it did not ask for work in time', true);
    // Our runner always reports an end, so its jobs live as long as its process.
    if (isRunner(endpoint) && worker.running.size > 0 && own.pid !== undefined)
      await hub.extend(worker, endpoint, new Map(worker.running));
  }

  private async finish(own: Own, stopMs: number, now: number): Promise<void> {
    const { worker, ending, pid } = own;
    if (!ending || pid === undefined) return;
    const overdue = now - ending.since >= stopMs;
    const stuck = [...worker.stopping.values()].some((since) => now - since >= stopMs);
    const endpoint = await this.needs.endpoints.find(worker.endpointId);
    // What it runs may go on until its own time limit; a job that does not stop may not.
    if (worker.running.size > 0 && endpoint) return;
    if (!ending.killed) {
      ending.killed = true;
      ending.since = now;
      signalGroup(pid, own.start ?? null, stuck ? 'SIGKILL' : 'SIGTERM');
    } else if (overdue) {
      signalGroup(pid, own.start ?? null, 'SIGKILL');
      if (worker.origin === 'container') this.removeContainer(worker.id);
    }
  }

  private removeContainer(workerId: string): void {
    if (!this.engine || !('command' in this.engine.found)) return;
    execFile(this.engine.found.command, ['rm', '--force', containerName(workerId)], () => {});
  }

  private async watchExternal(rows: readonly EndpointRow[]): Promise<void> {
    const { hub, clock } = this.needs;
    const leases = new Map(rows.map(({ id, spec }) => [id, spec.leaseMs]));
    for (const worker of hub.workers.values()) {
      if (worker.origin !== 'external' || worker.seenAt === null) continue;
      const silentMs = clock.now() - worker.seenAt;
      if (silentMs > Math.max(externalSilentMs, 2 * (leases.get(worker.endpointId) ?? 0)))
        await hub.end(worker, {
          reason: `it has been silent for ${Math.round(silentMs / 1000)} s`,
        });
    }
  }

  private async adopt(): Promise<void> {
    const { store, hub, node } = this.needs;
    for (const row of await store.liveWorkers()) {
      if (row.origin === 'external' || row.node !== node) continue;
      const worker = hub.find(row.endpointId, row.id) ?? hub.add(row);
      const pid = row.pid ?? findWorkerProcess(row.id);
      const start = row.processStart ?? (pid === undefined ? undefined : startOf(pid));
      const own: Own = { worker, pid, start, keyId: row.keyId, adopted: true };
      this.own.set(row.id, own);
      if (pid === undefined || !isAlive(pid, row.processStart))
        await this.gone(own, 'it ended while the server was away');
      else if (row.state === 'draining') this.retire(worker, 'it was to end when the server ended');
    }
  }

  private async blocked(endpoint: EndpointRow): Promise<string | undefined> {
    if ('image' in endpoint.spec.recipe!) await this.checkEngine();
    return this.missingReason(endpoint);
  }

  private async checkEngine(): Promise<void> {
    const now = this.needs.clock.now();
    if (this.engine && now - this.engine.at < engineCheckMs) return;
    this.engine = { found: await findEngine(this.needs.secret('PATH')), at: now };
  }

  /** Why this endpoint can have no workers here, in plain words. */
  private missingReason(endpoint: EndpointRow): string | undefined {
    const { recipe } = endpoint.spec;
    if (recipe && 'image' in recipe && this.engine && 'missing' in this.engine.found) {
      return `It runs the image ${recipe.image}, but no container engine answers (${this.engine.found.missing}). Start docker or podman; the jobs wait.`;
    }
    return undefined;
  }

  private tail(endpointId: string, { lastWorkerId }: State): string[] {
    const lines = this.needs.logs.read(endpointId, lastWorkerId!, {
      source: 'container',
      tail: 15,
    });
    return lines.map(({ line }) => line.slice(0, 300));
  }

  private async forgetOld(): Promise<void> {
    const { store, logs, clock } = this.needs;
    if (clock.now() - this.forgotAt < 60_000) return;
    this.forgotAt = clock.now();
    const old = await store.oldWorkers(clock.now() - endedKeepMs, 200);
    if (old.length === 0) return;
    for (const { endpointId, id } of old) logs.forget(endpointId, id);
    await store.store.commit(store.forgetWorkers(old));
  }

  private state(endpointId: string): State {
    let state = this.states.get(endpointId);
    if (!state) {
      state = { failures: 0, nextStartAt: 0, startedAt: 0 };
      this.states.set(endpointId, state);
    }
    return state;
  }
}

const isRunner = ({ spec }: EndpointRow): boolean =>
  spec.recipe !== undefined && ('module' in spec.recipe || 'perJob' in spec.recipe);

function exitText(code: number | null, signal: string | null): string {
  return signal === null
    ? `its process exited with code ${code}`
    : `its process was ended by ${signal}`;
}
