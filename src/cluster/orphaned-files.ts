// Removes files on this node that belong to jobs which other nodes deleted, and rows of nodes that are gone.
import { rm } from 'node:fs/promises';
import type { Kind } from '../jobs/kind.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { NodeRows } from './store.ts';

interface OrphanedFilesOptions {
  rows: NodeRows;
  /** This node. */
  node: string;
  goneMs: number;
  kinds(): readonly Kind[];
  clock: Clock;
  log: Log;
}

const everyMs = 600_000;
const batch = 200;

export class OrphanedFiles implements Service {
  readonly name = 'orphaned-files';
  private readonly options: OrphanedFilesOptions;
  private readonly loop: Loop;

  constructor(options: OrphanedFilesOptions) {
    this.options = options;
    const { clock, log } = options;
    this.loop = new Loop({ name: 'orphaned-files', everyMs, clock, log, run: () => this.clean() });
  }

  async start(): Promise<void> {
    await this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  private async clean(): Promise<void> {
    const { rows, node, goneMs, kinds, clock } = this.options;
    for (;;) {
      const jobIds = await rows.listOrphaned(node, batch);
      if (jobIds.length === 0) break;
      // Delete only what the store lists, so that a home connected to the wrong store loses nothing.
      const folders = kinds().flatMap(({ folder }) => (folder ? jobIds.map(folder) : []));
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
      await rows.removeOrphaned(node, jobIds);
    }
    await rows.forgetSilent(clock.now() - goneMs);
  }
}
