// Uses pg-boss as the dispatcher inside our transactions. An attempt is one pg-boss job from the time it is ready until
// it is settled. pg-boss never delivers it twice (no retries, no supervision), because a retry is a new attempt.
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import type { PgBoss } from 'pg-boss';
import { AppError } from '../../errors.ts';
import type { DispatchEntry } from '../store.ts';
import { bossSchema, loadBoss } from './open.ts';
import { prepare } from './sql.ts';

export interface ReadyEntry extends DispatchEntry {
  bossId: string;
  /** When pg-boss received it, epoch ms. */
  readyAt: number;
}

type Executor = Pick<ClientBase, 'query'>;

/** The maximum that pg-boss accepts. It has no effect, because leases are our own. */
const expireInSeconds = 86_400;
/** pg-boss stores priorities as 32-bit integers. */
const maxPriority = 2 ** 31 - 1;
/** Far more than a node skips. Forgetting an entry costs one extra query. */
const maxSkipped = 20_000;
const maxHead = 50;

export class Dispatcher {
  private readonly boss: PgBoss;
  private readonly schema: string;
  private readonly ensured = new Map<string, Promise<void>>();
  private readonly skipped = new Set<string>();

  private constructor(boss: PgBoss, schema: string) {
    this.boss = boss;
    this.schema = schema;
  }

  static async start(pool: Executor, schema: string): Promise<Dispatcher> {
    const Boss = await loadBoss();
    const boss = new Boss({
      db: asBossDatabase(pool),
      schema: bossSchema(schema),
      migrate: false,
      supervise: false,
      schedule: false,
      registerInstance: false,
    });
    // Its only background work is refreshing its queue list. A failure surfaces in the next call.
    boss.on('error', () => {});
    try {
      await boss.start();
    } catch (error) {
      throw toVersionError(error, bossSchema(schema));
    }
    return new Dispatcher(boss, bossSchema(schema));
  }

  async stop(): Promise<void> {
    await this.boss.stop({ graceful: false, close: false });
  }

  /** Call outside a transaction, before the first entry of a queue. */
  ensureQueue(queue: string): Promise<void> {
    let creation = this.ensured.get(queue);
    if (!creation) {
      creation = this.createQueue(queue).catch((error: unknown) => {
        this.ensured.delete(queue);
        throw error;
      });
      this.ensured.set(queue, creation);
    }
    return creation;
  }

  async add(client: Executor, queue: string, entries: readonly DispatchEntry[]): Promise<void> {
    const jobs = entries.map(({ attemptId, jobId, priority }) => ({
      id: bossId(attemptId),
      priority: Math.max(-maxPriority, Math.min(maxPriority, priority)),
      data: { attemptId, jobId },
    }));
    await this.boss.insert(bossName(queue), jobs, { db: asBossDatabase(client) });
  }

  async remove(client: Executor, queue: string, attemptIds: readonly string[]): Promise<void> {
    await this.boss.deleteJob(bossName(queue), attemptIds.map(bossId), {
      db: asBossDatabase(client),
    });
  }

  /** Takes ready entries. They are locked until the transaction ends, and stay taken if it commits. */
  async take(client: Executor, queue: string, limit: number): Promise<ReadyEntry[]> {
    const jobs = await this.boss.fetch<{ attemptId: string; jobId: string }>(bossName(queue), {
      batchSize: limit,
      includeMetadata: true,
      // Everything in pg-boss is due: delayed entries wait in our own table.
      ignoreStartAfter: true,
      db: asBossDatabase(client),
    });
    return jobs.map(({ id, data, priority, createdOn }) => ({
      bossId: id,
      attemptId: data.attemptId,
      jobId: data.jobId,
      queue,
      priority,
      runAt: 0,
      readyAt: createdOn.getTime(),
    }));
  }

  /** Returns entries to their old position before any other node sees them as taken. */
  async putBack(client: Executor, queue: string, bossIds: readonly string[]): Promise<void> {
    await client.query(
      `UPDATE ${this.schema}.job SET state = 'created', started_on = NULL, heartbeat_on = NULL
       WHERE name = $1 AND id = ANY($2::uuid[])`,
      [bossName(queue), bossIds],
    );
  }

  /** Remembers that this node cannot run the entry, so that it does not look for it again. */
  skip(bossId: string): void {
    if (this.skipped.size >= maxSkipped) this.skipped.clear();
    this.skipped.add(bossId);
  }

  /** Returns the queues whose first entries this node could not see, because other nodes have them locked. */
  async lockedElsewhere(client: Executor, queues: readonly string[]): Promise<string[]> {
    const found: string[] = [];
    for (const queue of queues) {
      const { rows } = await client.query({
        ...prepare(
          `SELECT id FROM ${this.schema}.job WHERE name = $1 AND state < 'active' AND NOT blocked
           ORDER BY priority DESC, created_on LIMIT ${maxHead}`,
        ),
        values: [bossName(queue)],
      });
      if ((rows as { id: string }[]).some(({ id }) => !this.skipped.has(id))) found.push(queue);
    }
    return found;
  }

  /** Counts the entries that run before this one, up to `limit`. */
  async countAhead(
    client: Executor,
    queue: string,
    { attemptId, limit }: { attemptId: string; limit: number },
  ): Promise<number> {
    const { rows } = await client.query({
      ...prepare(
        `SELECT count(*)::int AS n FROM (SELECT 1 FROM ${this.schema}.job j
           JOIN ${this.schema}.job own ON own.name = $1 AND own.id = $2::uuid
           WHERE j.name = $1 AND j.state < 'active' AND NOT j.blocked
             AND (j.priority > own.priority
               OR (j.priority = own.priority AND j.created_on < own.created_on)) LIMIT $3) AS earlier`,
      ),
      values: [bossName(queue), bossId(attemptId), limit],
    });
    return (rows as { n: number }[])[0]!.n;
  }

  /** Returns the queues that have ready entries: one index probe each, no lock. */
  async nonEmptyQueues(client: Executor, queues: readonly string[]): Promise<Set<string>> {
    const byName = new Map(queues.map((queue) => [bossName(queue), queue]));
    const { rows } = await client.query({
      ...prepare(
        `SELECT q.name FROM unnest($1::text[]) AS q (name) WHERE EXISTS
           (SELECT 1 FROM ${this.schema}.job j
            WHERE j.name = q.name AND j.state < 'active' AND NOT j.blocked)`,
      ),
      values: [[...byName.keys()]],
    });
    return new Set((rows as { name: string }[]).map(({ name }) => byName.get(name)!));
  }

  /** Finds the queues of entries that were withdrawn without naming one. */
  async queuesOf(client: Executor, attemptIds: readonly string[]): Promise<Map<string, string[]>> {
    const byBossId = new Map(attemptIds.map((id) => [bossId(id), id]));
    const { rows } = await client.query(
      `SELECT j.name, j.id FROM ${this.schema}.job j
       WHERE j.name IN (SELECT name FROM ${this.schema}.queue) AND j.id = ANY($1::uuid[])`,
      [[...byBossId.keys()]],
    );
    const found = new Map<string, string[]>();
    for (const { name, id } of rows as { name: string; id: string }[]) {
      const queue = queueFromBossName(name);
      found.set(queue, [...(found.get(queue) ?? []), byBossId.get(id)!]);
    }
    return found;
  }

  private async createQueue(queue: string): Promise<void> {
    await this.boss.createQueue(bossName(queue), { retryLimit: 0, expireInSeconds });
  }
}

/** pg-boss accepts only the tables of its own version. */
function toVersionError(error: unknown, schema: string): unknown {
  if (!/requires migrations/.test((error as Error).message)) return error;
  return new AppError(
    'unavailable',
    `The pg-boss tables in schema ${schema} belong to another Errand version.`,
    {
      hint: 'Run `errand migrate` with this version. If it has nothing to do, a newer version migrated the schema: start that version.',
      cause: error,
    },
  );
}

/** pg-boss requires UUIDs. Deriving them from attempt ids avoids a lookup table. */
export function bossId(attemptId: string): string {
  const hash = createHash('sha256').update(attemptId).digest();
  hash[6] = (hash[6]! & 0x0f) | 0x80;
  hash[8] = (hash[8]! & 0x3f) | 0x80;
  const hex = hash.toString('hex');
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20, 32),
  ].join('-');
}

/** pg-boss allows word characters, `.`, `-` and `/` in names. Other characters are written as `.`, their code point and `.`. */
const bossName = (queue: string): string =>
  queue.replaceAll(/[^\w-]/gu, (char) =>
    char === ':' ? '/' : `.${char.codePointAt(0)!.toString(16)}.`,
  );

export const queueFromBossName = (name: string): string =>
  name.replaceAll(/\/|\.([0-9a-f]+)\./g, (_, code: string | undefined) =>
    code === undefined ? ':' : String.fromCodePoint(Number.parseInt(code, 16)),
  );

/** Names the pg-boss queries, so that the server plans each of them only once per connection. */
function asBossDatabase(client: Executor): {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
} {
  return {
    executeSql: (text, values) => {
      if (values && values.length > 0) return client.query({ ...preparedText(text), values });
      // A fetch contains its queue and batch size as literals, so the same text recurs.
      return client.query(/^\s*WITH next AS/.test(text) ? preparedText(text) : text);
    },
  };
}

/** pg-boss queries already use `$n` and must not be rewritten. */
function preparedText(text: string): { name?: string; text: string } {
  let name = names.get(text);
  if (name === undefined) {
    if (names.size >= maxNames) return { text };
    name = `b${createHash('sha1').update(text).digest('base64url')}`;
    names.set(text, name);
  }
  return { name, text };
}
const names = new Map<string, string>();
const maxNames = 500;
