// Starts one worker process: its row, its key, its log, its command line.
import type { ChildProcess } from 'node:child_process';
import { closeSync } from 'node:fs';
import type { Access } from '../../access/access.ts';
import { randomId } from '../../jobs/job.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Address } from './address.ts';
import type { Engines } from './engine.ts';
import type { WorkerHub } from './hub.ts';
import type { WorkerLogs } from './logs.ts';
import { startOf, startProcess } from './process.ts';
import { cacheFolder, launchOf, type Launch, type LaunchNeeds } from './recipe.ts';
import type { Spare, SpareRunner } from './spare.ts';
import type { EndpointRow, EndpointStore, WorkerRow } from './store.ts';
import type { Worker } from './worker.ts';

/** A process of ours. */
export interface Own {
  worker: Worker;
  pid: number | undefined;
  start: string | undefined;
  keyId: string | null;
  /** Not started by this run of the server: its end is seen by looking, not by an event. */
  adopted: boolean;
  /** Why it is to end; undefined while it should live. */
  ending?: { reason: string; since: number; killed: boolean; failure: boolean };
}

export interface LauncherNeeds {
  store: EndpointStore;
  access: Access;
  clock: Clock;
  hub: WorkerHub;
  logs: WorkerLogs;
  node: string;
  folder: string;
  home: string;
  engines: Engines;
  spares: SpareRunner;
  secret(name: string): string | undefined;
  address: Pick<Address, 'open'>;
  /** It is about to be a process. */
  started(own: Own): void;
  /** Its process is no more, or never was. */
  gone(own: Own, reason: string, code?: number | null, signal?: string | null): Promise<void>;
}

export class Launcher {
  private readonly needs: LauncherNeeds;

  constructor(needs: LauncherNeeds) {
    this.needs = needs;
  }

  /** The row is there before the process can ask for work: after a kill it is found and adopted or ended. */
  async launch(endpoint: EndpointRow): Promise<void> {
    const { store, access, clock, hub, logs, node, spares } = this.needs;
    const spare = spares.take(endpoint);
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
      pid: spare?.pid ?? null,
      processStart: spare?.start ?? null,
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
    const worker = hub.add(row);
    const { pid, start } = spare ?? { pid: undefined, start: undefined };
    const own: Own = { worker, pid, start, keyId: row.keyId, adopted: false };
    this.needs.started(own);
    logs.note(endpoint.id, id, `start worker of version ${endpoint.version}`);
    try {
      const launch = launchOf(endpoint, { id, key: key.key }, await this.launchNeeds());
      if (spare) this.convert(own, spare, launch);
      else await this.spawn(own, launch);
    } catch (error) {
      await this.needs.gone(own, `it could not be started: ${(error as Error).message}`);
    }
  }

  /** The process is there already: its log gets its name, and it is told what it is. */
  private convert(own: Own, spare: Spare, launch: Launch): void {
    const { logs, spares } = this.needs;
    logs.nameSpare(spare.name, own.worker.endpointId, own.worker.id);
    this.follow(own, spare.child);
    spares.give(spare, launch);
  }

  private async spawn(own: Own, launch: Launch): Promise<void> {
    const { store, logs } = this.needs;
    const { worker } = own;
    const logFd = logs.open(worker.endpointId, worker.id);
    try {
      const child = startProcess({ ...launch, logFd });
      this.follow(own, child);
      if (child.pid === undefined) return;
      own.pid = child.pid;
      own.start = startOf(child.pid);
      await store.store.commit(store.workerProcess(worker, child.pid, own.start));
    } finally {
      closeSync(logFd);
    }
  }

  private follow(own: Own, child: ChildProcess): void {
    const { gone } = this.needs;
    child.once('error', (error) => void gone(own, `it could not be started: ${error.message}`));
    child.once('exit', (code, signal) => void gone(own, exitText(code, signal), code, signal));
    // It may have ended while its row was written.
    if (child.exitCode !== null || child.signalCode !== null)
      void gone(own, exitText(child.exitCode, child.signalCode), child.exitCode, child.signalCode);
  }

  private async launchNeeds(): Promise<LaunchNeeds> {
    const { secret, address, folder, home, engines } = this.needs;
    const baseUrl = await address.open();
    return { secret, baseUrl, cacheFolder: cacheFolder(folder), home, engine: engines.command() };
  }
}

function exitText(code: number | null, signal: string | null): string {
  return signal === null
    ? `its process exited with code ${code}`
    : `its process was ended by ${signal}`;
}
