// What a node that was away left behind: files of jobs that the others forgot meanwhile, and at last its own row.
import { rm } from 'node:fs/promises';
import type { Kind } from '../jobs/kind.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import { Loop, type Service } from '../runtime/service.ts';
import type { NodeRows } from './store.ts';

export interface LitterOptions {
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

export class Litter implements Service {
  readonly name = 'litter';
  private readonly options: LitterOptions;
  private readonly loop: Loop;

  constructor(options: LitterOptions) {
    this.options = options;
    const { clock, log } = options;
    this.loop = new Loop({ name: 'litter', everyMs, clock, log, run: () => this.clean() });
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
      const jobIds = await rows.litterOf(node, batch);
      if (jobIds.length === 0) break;
      // Only jobs that the store itself forgot: a home that meets another store loses nothing.
      const folders = kinds().flatMap(({ folder }) => (folder ? jobIds.map(folder) : []));
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
      await rows.litterRemoved(node, jobIds);
    }
    await rows.forgetSilent(clock.now() - goneMs);
  }
}
