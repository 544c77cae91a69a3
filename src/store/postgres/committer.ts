// Group commit: commands that arrive during a transaction share the next one. A group first runs in one transaction. If
// a command conflicts or fails, everything is rolled back and each command runs in its own transaction.
import type { Pool, PoolClient } from 'pg';
import type { Commit, Step } from '../store.ts';
import type { Dispatcher } from './dispatcher.ts';
import { Conflict, Transaction } from './transaction.ts';

interface Command {
  steps: readonly Step[];
  lock: string | undefined;
  resolve(commit: Commit): void;
  reject(error: unknown): void;
}

interface CommitterOptions {
  pool: Pool;
  dispatcher: Dispatcher;
  /** Maximum number of concurrent transactions. The rest of the pool serves reads and claims. */
  maxTransactions: number;
  onCommit(queues: ReadonlySet<string>): void;
}

const maxGroup = 64;
/** Deadlock and serialization failure: the server rolled back one of the transactions, which can simply be retried. */
const retryableCodes = new Set(['40P01', '40001']);
const maxTries = 5;

export class Committer {
  private readonly options: CommitterOptions;
  private waiting: Command[] = [];
  private running = 0;
  private scheduled = false;
  private idle: (() => void)[] = [];

  constructor(options: CommitterOptions) {
    this.options = options;
  }

  commit(steps: readonly Step[]): Promise<Commit> {
    return new Promise<Commit>((resolve, reject) => {
      this.waiting.push({ steps, lock: lockOf(steps), resolve, reject });
      if (this.scheduled) return;
      this.scheduled = true;
      setImmediate(() => {
        this.scheduled = false;
        this.startGroups();
      });
    });
  }

  /** Resolves when no command is pending or running. */
  async drain(): Promise<void> {
    if (this.running === 0 && this.waiting.length === 0) return;
    await new Promise<void>((resolve) => this.idle.push(resolve));
  }

  private startGroups(): void {
    while (this.running < this.options.maxTransactions && this.waiting.length > 0) {
      const group = inLockOrder(this.waiting.splice(0, maxGroup));
      this.running += 1;
      void this.runGroup(group).finally(() => {
        this.running -= 1;
        this.startGroups();
        if (this.running === 0) for (const resolve of this.idle.splice(0)) resolve();
      });
    }
  }

  private async runGroup(group: Command[]): Promise<void> {
    try {
      await this.ensureQueues(group);
      await withClient(this.options.pool, async (client) => {
        if (group.length > 1 && (await this.commitTogether(client, group))) return;
        for (const command of group) await this.commitAlone(client, command);
      });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** Returns false if a command conflicted or failed; everything is rolled back then. */
  private async commitTogether(client: PoolClient, group: Command[]): Promise<boolean> {
    const transaction = new Transaction(client, this.options.dispatcher);
    for (const { steps } of group) transaction.add(steps);
    try {
      const { rows, queues } = await transaction.commit();
      for (const [i, { resolve }] of group.entries()) resolve({ applied: true, rows: rows[i]! });
      this.options.onCommit(queues);
      return true;
    } catch (error) {
      await rollback(client, error);
      return false;
    }
  }

  private async commitAlone(
    client: PoolClient,
    { steps, resolve, reject }: Command,
  ): Promise<void> {
    for (let tries = 1; ; tries++) {
      const transaction = new Transaction(client, this.options.dispatcher);
      transaction.add(steps);
      try {
        const { rows, queues } = await transaction.commit();
        resolve({ applied: true, rows: rows[0]! });
        this.options.onCommit(queues);
        return;
      } catch (error) {
        await rollback(client, error);
        if (error instanceof Conflict) return resolve({ applied: false, step: error.step });
        const { code } = error as { code?: string };
        if (!retryableCodes.has(code ?? '') || tries >= maxTries) return reject(error);
      }
    }
  }

  private async ensureQueues(group: Command[]): Promise<void> {
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

function lockOf(steps: readonly Step[]): string | undefined {
  for (const step of steps) if ('sql' in step && step.lock !== undefined) return step.lock;
  return undefined;
}

/** Orders the commands that lock a row by that row, so that concurrent groups do not deadlock. The others keep their place. */
function inLockOrder(group: Command[]): Command[] {
  const locking = group.filter(({ lock }) => lock !== undefined);
  if (locking.length < 2) return group;
  const sorted = locking.sort((a, b) => (a.lock! < b.lock! ? -1 : 1)).values();
  return group.map((command) => (command.lock === undefined ? command : sorted.next().value!));
}

/** Returns a working connection to the pool and discards a broken one. */
export async function withClient<T>(
  pool: Pool,
  run: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    return await run(client);
  } catch (error) {
    // An error that reaches this point leaves the connection in an unknown state: discard it.
    broken ??= error as Error;
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/** A connection that cannot roll back is broken. Throws `cause` in that case. */
export async function rollback(client: PoolClient, cause: unknown): Promise<void> {
  try {
    await client.query('ROLLBACK');
  } catch {
    throw cause;
  }
}
