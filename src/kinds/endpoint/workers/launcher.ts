// Starts a worker process: its row, key, log and command line.
import type { ChildProcess } from 'node:child_process';
import { closeSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Access } from '../../../access/keys.ts';
import { randomId } from '../../../runtime/id.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Address } from './address.ts';
import type { Engines } from './engine.ts';
import type { WorkerRegistry } from './registry.ts';
import type { WorkerLogs } from './logs.ts';
import { startOf, startProcess } from './process.ts';
import {
  cacheFolder,
  containerName,
  isRelayed,
  launchOf,
  relayLaunch,
  type Launch,
  type LaunchDeps,
} from './recipe.ts';
import { relayPortPlaceholder, type RelayTask } from '../relay/task.ts';
import type { PrestartedRunner, RunnerPool } from './prestarted-runner.ts';
import type { EndpointRow, EndpointStore, WorkerRow } from '../store/endpoints.ts';
import type { Worker } from './worker.ts';
import { stateFile, type WorkerFolders } from './folders.ts';

/** A worker process that this server started or adopted. */
export interface ManagedWorker {
  worker: Worker;
  pid: number | undefined;
  start: string | undefined;
  keyId: string | null;
  /** The process is the relay of the worker. */
  isRelayed: boolean;
  /** A previous run of the server started it, so its exit is detected by polling instead of an event. */
  adopted: boolean;
  /** Why it is being stopped. Undefined while it should run. */
  ending?: { reason: string; since: number; killed: boolean; failure: boolean };
}

export interface LauncherDeps {
  store: EndpointStore;
  access: Access;
  clock: Clock;
  registry: WorkerRegistry;
  logs: WorkerLogs;
  folders: WorkerFolders;
  node: string;
  folder: string;
  home: string;
  engines: Engines;
  runners: RunnerPool;
  secret(name: string): string | undefined;
  address: Pick<Address, 'open'>;
  /** Called before the process starts. */
  onStarted(managed: ManagedWorker): void;
  /** Called when the process has exited or could not be started. */
  handleExit(
    managed: ManagedWorker,
    reason: string,
    code?: number | null,
    signal?: string | null,
  ): Promise<void>;
}

export class Launcher {
  private readonly deps: LauncherDeps;

  constructor(deps: LauncherDeps) {
    this.deps = deps;
  }

  /**
   * The row exists before the process can poll for work. After a crash, the next server finds the process and
   * adopts or kills it.
   */
  async launch(endpoint: EndpointRow): Promise<void> {
    const { store, access, clock, registry, logs, node, runners } = this.deps;
    const runner = runners.take(endpoint);
    const now = clock.now();
    const id = randomId('w', 14);
    const granted = {
      owner: endpoint.owner,
      name: `worker ${id}`,
      scopes: ['worker'],
      kinds: ['endpoint'],
      queues: [endpoint.id],
      subject: `endpoint:${endpoint.id}`,
    } as const;
    const key = access.plan(granted, 'server');
    const row: WorkerRow = {
      id,
      endpointId: endpoint.id,
      node,
      version: endpoint.version,
      origin: 'image' in endpoint.spec.recipe! ? 'container' : 'process',
      pid: runner?.pid ?? null,
      processStart: runner?.start ?? null,
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
    await store.store.commit([...key.steps, ...store.insertWorker(row)]);
    const worker = registry.add(row);
    const { pid, start } = runner ?? { pid: undefined, start: undefined };
    const managed: ManagedWorker = {
      worker,
      pid,
      start,
      keyId: row.keyId,
      isRelayed: isRelayed(endpoint),
      adopted: false,
    };
    this.deps.onStarted(managed);
    logs.note(endpoint.id, id, `start worker of version ${endpoint.version}`);
    try {
      this.removeState(endpoint, id);
      const deps = await this.launchDeps(managed);
      const launch = launchOf(endpoint, { id, key: key.key }, deps);
      if (runner) this.assignRunner(managed, runner, launch);
      else if (managed.isRelayed)
        await this.spawn(
          managed,
          relayLaunch(id, deps),
          this.relayTask(endpoint, id, key.key, launch),
        );
      else await this.spawn(managed, launch);
    } catch (error) {
      await this.deps.handleExit(managed, `it could not be started: ${(error as Error).message}`);
    }
  }

  /** The process is already running. Its log gets the worker's name, and it receives its assignment. */
  private assignRunner(managed: ManagedWorker, runner: PrestartedRunner, launch: Launch): void {
    const { logs, runners } = this.deps;
    logs.adoptPrestarted(runner.name, managed.worker.endpointId, managed.worker.id);
    this.watchExit(managed, runner.child);
    runners.assign(runner, launch);
  }

  /**
   * A file left by an earlier worker would block this one. While other workers use the folder, the file is theirs.
   */
  private removeState({ id, spec }: EndpointRow, workerId: string): void {
    const { recipe } = spec;
    if (!recipe || !('worker' in recipe) || recipe.cwd === undefined) return;
    const isOther = (worker: Worker) => worker.id !== workerId && worker.state !== 'draining';
    if (!this.deps.registry.ofEndpoint(id).some(isOther))
      rmSync(join(recipe.cwd, stateFile), { force: true });
  }

  private relayTask(endpoint: EndpointRow, id: string, key: string, launch: Launch): RelayTask {
    const { home, folders, logs } = this.deps;
    const { stopMs, outageMs, maxOutboxBytes } = endpoint.spec;
    const limits = { stopMs, outageMs, maxOutboxBytes };
    const log = logs.path(endpoint.id, id);
    const folder = folders.relay(id);
    const isContainer = 'image' in endpoint.spec.recipe!;
    const container = isContainer
      ? { engine: launch.command[0]!, name: containerName(id) }
      : undefined;
    const worker = { endpointId: endpoint.id, workerId: id, key };
    return { ...launch, ...limits, ...worker, home, folder, log, container };
  }

  /** A relay receives its task on stdin. */
  private async spawn(managed: ManagedWorker, launch: Launch, task?: RelayTask): Promise<void> {
    const { store, logs } = this.deps;
    const { worker } = managed;
    const logFd = logs.open(worker.endpointId, worker.id);
    try {
      const child = startProcess({ ...launch, logFd, stdin: task ? 'pipe' : 'ignore' });
      this.watchExit(managed, child);
      child.stdin?.on('error', () => {});
      child.stdin?.end(JSON.stringify(task));
      if (child.pid === undefined) return;
      managed.pid = child.pid;
      managed.start = startOf(child.pid);
      await store.store.commit(store.workerProcess(worker, child.pid, managed.start));
    } finally {
      closeSync(logFd);
    }
  }

  private watchExit(managed: ManagedWorker, child: ChildProcess): void {
    const { handleExit } = this.deps;
    child.once(
      'error',
      (error) => void handleExit(managed, `it could not be started: ${error.message}`),
    );
    child.once(
      'exit',
      (code, signal) => void handleExit(managed, exitText(code, signal), code, signal),
    );
    // It may have exited while its row was being written.
    if (child.exitCode !== null || child.signalCode !== null)
      void handleExit(
        managed,
        exitText(child.exitCode, child.signalCode),
        child.exitCode,
        child.signalCode,
      );
  }

  private async launchDeps({ worker, isRelayed }: ManagedWorker): Promise<LaunchDeps> {
    const { secret, address, folder, home, engines, folders } = this.deps;
    return {
      secret,
      home,
      baseUrl: isRelayed ? `http://127.0.0.1:${relayPortPlaceholder}` : await address.open(),
      cacheFolder: cacheFolder(folder),
      scratch: folders.scratch(worker.id),
      engine: engines.command(),
    };
  }
}

function exitText(code: number | null, signal: string | null): string {
  return signal === null
    ? `its process exited with code ${code}`
    : `its process was killed by ${signal}`;
}
