// Group commit: commands that arrive while a transaction is under way share the next one. First all of a group together
// in one burst; if one of them conflicts or fails, everything is rolled back and each gets a transaction of its own.
import type { Pool, PoolClient } from 'pg';
import type { Commit, Step } from '../store.ts';
import type { Dispatcher } from './dispatcher.ts';
import { Conflict, Transaction } from './transaction.ts';

interface Command {
  steps: readonly Step[];
  resolve(commit: Commit): void;
  reject(error: unknown): void;
}

export interface CommitterOptions {
  pool: Pool;
  dispatcher: Dispatcher;
  /** Transactions at once; the rest of the pool is for reads and claims. */
  lanesMax: number;
  committed(queues: ReadonlySet<string>): void;
}

const groupMax = 64;
/** One of two transactions that waited for each other was given up by the server: it may simply be tried again. */
const deadlock = new Set(['40P01', '40001']);
const triesMax = 5;

export class Committer {
  private readonly options: CommitterOptions;
  private waiting: Command[] = [];
  private lanes = 0;
  private scheduled = false;
  private idle: (() => void)[] = [];

  constructor(options: CommitterOptions) {
    this.options = options;
  }

  commit(steps: readonly Step[]): Promise<Commit> {
    return new Promise<Commit>((resolve, reject) => {
      this.waiting.push({ steps, resolve, reject });
      if (this.scheduled) return;
      this.scheduled = true;
      setImmediate(() => {
        this.scheduled = false;
        this.pump();
      });
    });
  }

  /** Resolves when nothing is under way. */
  async drain(): Promise<void> {
    if (this.lanes === 0 && this.waiting.length === 0) return;
    await new Promise<void>((resolve) => this.idle.push(resolve));
  }

  private pump(): void {
    while (this.lanes < this.options.lanesMax && this.waiting.length > 0) {
      const group = this.waiting.splice(0, groupMax);
      this.lanes += 1;
      void this.lane(group).finally(() => {
        this.lanes -= 1;
        this.pump();
        if (this.lanes === 0) for (const resolve of this.idle.splice(0)) resolve();
      });
    }
  }

  private async lane(group: Command[]): Promise<void> {
    try {
      await this.knowQueues(group);
      await withClient(this.options.pool, async (client) => {
        if (group.length > 1 && (await this.together(client, group))) return;
        for (const command of group) await this.alone(client, command);
      });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** False: somebody in the group stood in the way, and nothing of it happened. */
  private async together(client: PoolClient, group: Command[]): Promise<boolean> {
    const transaction = new Transaction(client, this.options.dispatcher);
    for (const { steps } of group) transaction.add(steps);
    try {
      const { rows, queues } = await transaction.commit();
      for (const [i, { resolve }] of group.entries()) resolve({ applied: true, rows: rows[i]! });
      this.options.committed(queues);
      return true;
    } catch (error) {
      await rollback(client, error);
      return false;
    }
  }

  private async alone(client: PoolClient, { steps, resolve, reject }: Command): Promise<void> {
    for (let tries = 1; ; tries++) {
      const transaction = new Transaction(client, this.options.dispatcher);
      transaction.add(steps);
      try {
        const { rows, queues } = await transaction.commit();
        resolve({ applied: true, rows: rows[0]! });
        this.options.committed(queues);
        return;
      } catch (error) {
        await rollback(client, error);
        if (error instanceof Conflict) return resolve({ applied: false, step: error.step });
        const { code } = error as { code?: string };
        if (!deadlock.has(code ?? '') || tries >= triesMax) return reject(error);
      }
    }
  }

  private async knowQueues(group: Command[]): Promise<void> {
    const queues = new Set<string>();
    for (const { steps } of group) {
      for (const step of steps) {
        if (!('dispatch' in step)) continue;
        const queue = step.dispatch === 'enqueue' ? step.entry.queue : step.queue;
        if (queue !== undefined) queues.add(queue);
      }
    }
    for (const queue of queues) await this.options.dispatcher.ensureQueue(queue);
  }
}

/** A connection that broke is thrown away, one that works goes back to the pool. */
export async function withClient<T>(
  pool: Pool,
  run: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const lost = (error: Error) => {
    broken = error;
  };
  client.on('error', lost);
  try {
    return await run(client);
  } catch (error) {
    // What threw here did not clean up after itself: whatever state the connection is in goes with it.
    broken ??= error as Error;
    throw error;
  } finally {
    client.off('error', lost);
    client.release(broken);
  }
}

/** A connection that cannot even roll back is lost; `cause` says why it came to that. */
export async function rollback(client: PoolClient, cause: unknown): Promise<void> {
  try {
    await client.query('ROLLBACK');
  } catch {
    throw cause;
  }
}
