// Folders of worker processes: a working folder, and one for the relay. They are removed with the worker.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** RunPod's package 1.7.11 to 1.10.0 stores its running jobs in this file. */
export const stateFile = '.runpod_jobs.pkl';

export class WorkerFolders {
  private readonly scratchRoot: string;
  private readonly relayRoot: string;

  constructor(folder: string) {
    this.scratchRoot = join(folder, 'scratch');
    this.relayRoot = join(folder, 'relays');
  }

  /** An empty folder for one worker. */
  scratch(workerId: string): string {
    return made(join(this.scratchRoot, workerId));
  }

  /** The folder exists only if the worker has a relay. */
  relay(workerId: string): string {
    return made(join(this.relayRoot, workerId));
  }

  findRelay(workerId: string): string | undefined {
    const path = join(this.relayRoot, workerId);
    return existsSync(path) ? path : undefined;
  }

  forget(workerId: string): void {
    for (const root of [this.scratchRoot, this.relayRoot])
      rmSync(join(root, workerId), { recursive: true, force: true });
  }

  /** Removes folders of unknown workers. */
  forgetOthers(live: ReadonlySet<string>): void {
    for (const root of [this.scratchRoot, this.relayRoot])
      for (const name of existsSync(root) ? readdirSync(root) : [])
        if (!live.has(name)) rmSync(join(root, name), { recursive: true, force: true });
  }
}

function made(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}
