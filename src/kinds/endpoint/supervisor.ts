// Keeps the right number of worker processes for every endpoint with a recipe: starts, replaces, stops, and after a
// restart of this server takes over those that live and ends the rest.
import type { Jobs } from '../../jobs/jobs.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import type { Address } from './address.ts';
import { demandOf } from './demand.ts';
import type { Endpoints } from './endpoints.ts';
import { Engines } from './engine.ts';
import type { Trouble } from './health.ts';
import { Launcher, type LauncherNeeds, type Own } from './launcher.ts';
import { endCommands, findWorkerProcess, isAlive, signalGroup, startOf } from './process.ts';
import { workersWanted, type Load } from './scaling.ts';
import { SpareRunner } from './spare.ts';
import { Starts } from './starts.ts';
import type { EndpointRow } from './store.ts';
import type { Worker } from './worker.ts';

export interface SupervisorNeeds extends Omit<
  LauncherNeeds,
  'engines' | 'spares' | 'started' | 'gone'
> {
  jobs: Jobs;
  endpoints: Endpoints;
  log: Log;
  address: Pick<Address, 'open' | 'isKept'>;
}

const tickMs = 500;
/** A worker that lived so long was no failed start, whatever it died of. */
const provenMs = 60_000;
/** Rows and logs of ended workers are kept for so long. */
const endedKeepMs = 7 * 86_400_000;
const externalSilentMs = 90_000;

export class Supervisor implements Service {
  readonly name = 'endpoint workers';
  private readonly needs: SupervisorNeeds;
  private readonly own = new Map<string, Own>();
  readonly starts: Starts;
  private readonly engines: Engines;
  private readonly spares: SpareRunner;
  private readonly launcher: Launcher;
  private readonly loop: Loop;
  private readonly unsubscribe: (() => void)[] = [];
  private forgotAt = 0;
  /** No endpoint, no worker. */
  private quiet = false;
  private stopped = false;

  constructor(needs: SupervisorNeeds) {
    this.needs = needs;
    const { clock, log } = needs;
    this.starts = new Starts(needs);
    this.engines = new Engines(clock, needs.secret);
    this.spares = new SpareRunner(needs);
    this.launcher = new Launcher({
      ...needs,
      engines: this.engines,
      spares: this.spares,
      started: (own) => this.own.set(own.worker.id, own),
      gone: (own, reason, code, signal) => this.gone(own, reason, code, signal),
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
    const { jobs, endpoints, hub } = this.needs;
    await this.adopt();
    this.unsubscribe.push(
      jobs.store.onReady((queue) => {
        if (queue.startsWith('endpoint:')) this.used();
      }),
      endpoints.onChange(() => this.used()),
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
    this.spares.end();
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

  trouble(endpoint: EndpointRow): Trouble {
    return this.starts.trouble(endpoint.id, this.engines.missingReason(endpoint));
  }

  /** Something is due without a job: workers to keep, workers to end. */
  async busy(): Promise<boolean> {
    const rows = await this.needs.endpoints.list();
    return rows.some(({ spec }) => spec.recipe !== undefined && spec.workersMin > 0);
  }

  private used(): void {
    this.spares.touch();
    this.loop.wake();
  }

  private async tick(): Promise<void> {
    const rows = await this.needs.endpoints.list();
    this.quiet = rows.length === 0 && this.own.size === 0 && this.needs.hub.workers.size === 0;
    const known = new Set(rows.map(({ id }) => id));
    for (const row of rows) await this.keep(row);
    for (const own of this.own.values())
      if (!known.has(own.worker.endpointId)) this.retire(own.worker, 'its endpoint was deleted');
    for (const own of [...this.own.values()]) await this.watch(own);
    await this.watchExternal(rows);
    this.spares.keep(rows);
    await this.forgetOld();
  }

  /** One endpoint: replace what is outdated, stop what is idle, start what is missing. */
  private async keep(endpoint: EndpointRow): Promise<void> {
    const { clock, jobs } = this.needs;
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
    const start = this.starts.of(endpoint.id);
    if (live.length >= wanted || clock.now() < start.nextStartAt || !jobs.admits()) return;
    if ('image' in spec.recipe) await this.engines.check();
    if (this.engines.missingReason(endpoint) !== undefined) return;
    for (let i = live.length; i < wanted; i++) {
      start.startedAt = clock.now();
      await this.launcher.launch(endpoint);
    }
  }

  private async load(endpoint: EndpointRow, live: Own[]): Promise<Load> {
    const { clock } = this.needs;
    const { head, queued, running } = await demandOf(this.needs, endpoint);
    if (head?.again) await this.makeRoom(head.id, endpoint, live);
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

  /** A job whose attempt was lost never goes to that worker again: when there is no other, an idle one is replaced. */
  private async makeRoom(jobId: string, endpoint: EndpointRow, live: Own[]): Promise<void> {
    if (live.length < endpoint.spec.workersMax) return;
    const lost = new Set(await this.needs.store.lostHolders(jobId));
    if (live.some(({ worker }) => !lost.has(worker.id))) return;
    const idle = live.find(({ worker, ending }) => !ending && worker.running.size === 0);
    if (idle) this.retire(idle.worker, `it lost job ${jobId}, which must go to another worker`);
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
      this.starts.failed(worker, why);
    try {
      logs.tick(worker.endpointId, worker.id);
      logs.note(worker.endpointId, worker.id, `worker ended: ${why}`);
      // What it started and left behind goes with it.
      if (own.pid !== undefined) signalGroup(own.pid, own.start ?? null, 'SIGKILL');
      endCommands(worker.id);
      if (worker.origin === 'container') void this.engines.removeContainer(worker.id);
      await hub.end(worker, { reason: why, exitCode, exitSignal });
      if (own.keyId) await access.revoke(own.keyId);
    } catch (error) {
      if (!this.stopped) log.error('the end of a worker could not be written', { error });
    }
    this.loop.wake();
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
    }
  }

  private async watchExternal(rows: readonly EndpointRow[]): Promise<void> {
    const { hub, clock, store } = this.needs;
    const leases = new Map(rows.map(({ id, spec }) => [id, spec.leaseMs]));
    for (const worker of hub.workers.values()) {
      if (worker.origin !== 'external' || worker.seenAt === null) continue;
      const silentMs = clock.now() - worker.seenAt;
      if (silentMs <= Math.max(externalSilentMs, 2 * (leases.get(worker.endpointId) ?? 0)))
        continue;
      // It may speak to another node, which writes down when it last did.
      const { seenAt = null, endedAt = null } = (await store.worker(worker)) ?? {};
      if (endedAt === null && seenAt !== null && seenAt > worker.seenAt) worker.seenAt = seenAt;
      else
        await hub.end(worker, {
          reason: `it has been silent for ${Math.round(silentMs / 1000)} s`,
        });
    }
  }

  private async adopt(): Promise<void> {
    const { store, hub, node, address } = this.needs;
    const rows = await store.liveWorkers();
    const left = rows.filter((row) => row.origin !== 'external' && row.node === node);
    const reach = left.length === 0 || (await address.isKept());
    for (const row of left) {
      const worker = hub.find(row.endpointId, row.id) ?? hub.add(row);
      const pid = row.pid ?? findWorkerProcess(row.id);
      const start = row.processStart ?? (pid === undefined ? undefined : startOf(pid));
      const own: Own = { worker, pid, start, keyId: row.keyId, adopted: true };
      this.own.set(row.id, own);
      if (pid === undefined || !isAlive(pid, row.processStart))
        await this.gone(own, 'it ended while the server was away');
      else if (!reach) await this.leave(own);
      else if (row.state === 'draining') this.retire(worker, 'it was to end when the server ended');
    }
  }

  /** It asks where nobody answers any more: what it holds goes to another at once. */
  private leave(own: Own): Promise<void> {
    const reason = 'the server is at another address now';
    own.ending = { reason, since: this.needs.clock.now(), killed: true, failure: false };
    return this.gone(own, 'killed');
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
}

const isRunner = ({ spec }: EndpointRow): boolean =>
  spec.recipe !== undefined && ('module' in spec.recipe || 'perJob' in spec.recipe);
