// pg-boss as the dispatcher, inside our transactions. An attempt is one pg-boss job from the moment it is ready until it
// is settled; pg-boss never delivers it twice (no retries, no supervision), because a retry is a new attempt of ours.
import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import type { PgBoss } from 'pg-boss';
import { AppError } from '../../errors.ts';
import type { DispatchEntry } from '../store.ts';
import { bossSchema, loadBoss } from './open.ts';
import { prepare } from './sql.ts';

export interface ReadyEntry extends DispatchEntry {
  bossId: string;
  /** When pg-boss got it, epoch ms. */
  readyAt: number;
}

type Executor = Pick<ClientBase, 'query'>;

/** The longest that pg-boss takes; nothing of it counts on this, leases are ours. */
const expireInSeconds = 86_400;
/** pg-boss keeps priorities as 32-bit numbers. */
const priorityMax = 2 ** 31 - 1;
/** Far more than a node looks past; forgetting one costs a look. */
const refusedMax = 20_000;
const headMax = 50;

export class Dispatcher {
  private readonly boss: PgBoss;
  private readonly schema: string;
  private readonly known = new Map<string, Promise<void>>();
  private readonly refused = new Set<string>();

  private constructor(boss: PgBoss, schema: string) {
    this.boss = boss;
    this.schema = schema;
  }

  static async start(pool: Executor, schema: string): Promise<Dispatcher> {
    const Boss = await loadBoss();
    const boss = new Boss({
      db: database(pool),
      schema: bossSchema(schema),
      migrate: false,
      supervise: false,
      schedule: false,
      registerInstance: false,
    });
    // Its only background work is re-reading its list of queues; a failure there shows at the next call.
    boss.on('error', () => {});
    try {
      await boss.start();
    } catch (error) {
      throw misfit(error, bossSchema(schema));
    }
    return new Dispatcher(boss, bossSchema(schema));
  }

  async stop(): Promise<void> {
    await this.boss.stop({ graceful: false, close: false });
  }

  /** Must be called outside a transaction, before the first entry of a queue. */
  ensureQueue(queue: string): Promise<void> {
    let made = this.known.get(queue);
    if (!made) {
      made = this.createQueue(queue).catch((error: unknown) => {
        this.known.delete(queue);
        throw error;
      });
      this.known.set(queue, made);
    }
    return made;
  }

  async add(client: Executor, queue: string, entries: readonly DispatchEntry[]): Promise<void> {
    const jobs = entries.map(({ attemptId, jobId, priority }) => ({
      id: bossId(attemptId),
      priority: Math.max(-priorityMax, Math.min(priorityMax, priority)),
      data: { attemptId, jobId },
    }));
    await this.boss.insert(bossName(queue), jobs, { db: database(client) });
  }

  async remove(client: Executor, queue: string, attemptIds: readonly string[]): Promise<void> {
    await this.boss.deleteJob(bossName(queue), attemptIds.map(bossId), { db: database(client) });
  }

  /** Takes ready entries; they are ours until the transaction ends, and stay taken if it commits. */
  async take(client: Executor, queue: string, limit: number): Promise<ReadyEntry[]> {
    const jobs = await this.boss.fetch<{ attemptId: string; jobId: string }>(bossName(queue), {
      batchSize: limit,
      includeMetadata: true,
      // Whatever pg-boss holds is due: entries for later wait in our own table.
      ignoreStartAfter: true,
      db: database(client),
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

  /** Taken but not wanted after all: back to its old place, before anybody saw it leave. */
  async putBack(client: Executor, queue: string, bossIds: readonly string[]): Promise<void> {
    await client.query(
      `UPDATE ${this.schema}.job SET state = 'created', started_on = NULL, heartbeat_on = NULL
       WHERE name = $1 AND id = ANY($2::uuid[])`,
      [bossName(queue), bossIds],
    );
  }

  /** Not for this node: it need not be looked for again. */
  refuse(bossId: string): void {
    if (this.refused.size >= refusedMax) this.refused.clear();
    this.refused.add(bossId);
  }

  /** Which of these queues have entries at their head that this node could not even look at: others hold them right now. */
  async heldElsewhere(client: Executor, queues: readonly string[]): Promise<string[]> {
    const found: string[] = [];
    for (const queue of queues) {
      const { rows } = await client.query({
        ...prepare(
          `SELECT id FROM ${this.schema}.job WHERE name = $1 AND state < 'active' AND NOT blocked
           ORDER BY priority DESC, created_on LIMIT ${headMax}`,
        ),
        values: [bossName(queue)],
      });
      if ((rows as { id: string }[]).some(({ id }) => !this.refused.has(id))) found.push(queue);
    }
    return found;
  }

  /** How many entries are taken before this one, counted up to a limit. */
  async ahead(
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

  /** Which of these queues have something ready: one index probe each, no lock. */
  async waiting(client: Executor, queues: readonly string[]): Promise<Set<string>> {
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

  /** The queues of entries that were withdrawn by name only. */
  async queuesOf(client: Executor, attemptIds: readonly string[]): Promise<Map<string, string[]>> {
    const byBossId = new Map(attemptIds.map((id) => [bossId(id), id]));
    const { rows } = await client.query(
      `SELECT j.name, j.id FROM ${this.schema}.job j
       WHERE j.name IN (SELECT name FROM ${this.schema}.queue) AND j.id = ANY($1::uuid[])`,
      [[...byBossId.keys()]],
    );
    const found = new Map<string, string[]>();
    for (const { name, id } of rows as { name: string; id: string }[]) {
      const queue = queueOfName(name);
      found.set(queue, [...(found.get(queue) ?? []), byBossId.get(id)!]);
    }
    return found;
  }

  private async createQueue(queue: string): Promise<void> {
    await this.boss.createQueue(bossName(queue), { retryLimit: 0, expireInSeconds });
  }
}

/** pg-boss takes only tables of its own version. */
function misfit(error: unknown, schema: string): unknown {
  if (!/requires migrations/.test((error as Error).message)) return error;
  return new AppError(
    'unavailable',
    `The tables of pg-boss in schema ${schema} are those of another version of Errand.`,
    {
      hint: 'Run `errand migrate` with this version; if it finds nothing to do, a newer one was here: start that.',
      cause: error,
    },
  );
}

/** pg-boss wants UUIDs: always the same one for the same attempt, so that no table is needed to find it again. */
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

/** pg-boss allows word characters, `.`, `-` and `/` in names; everything else is written as `.` and its code. */
const bossName = (queue: string): string =>
  queue.replaceAll(/[^\w-]/gu, (char) =>
    char === ':' ? '/' : `.${char.codePointAt(0)!.toString(16)}.`,
  );

export const queueOfName = (name: string): string =>
  name.replaceAll(/\/|\.([0-9a-f]+)\./g, (_, code: string | undefined) =>
    code === undefined ? ':' : String.fromCodePoint(Number.parseInt(code, 16)),
  );

/** pg-boss writes its queries out whole; kept by name, the server plans each only once per connection. */
function database(client: Executor): {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
} {
  return {
    executeSql: (text, values) => {
      if (values && values.length > 0) return client.query({ ...preparedText(text), values });
      // A fetch has its queue and its number written into it: the same text again and again.
      return client.query(/^\s*WITH next AS/.test(text) ? preparedText(text) : text);
    },
  };
}

/** Its texts have `$n` already and must not be rewritten. */
function preparedText(text: string): { name?: string; text: string } {
  let name = names.get(text);
  if (name === undefined) {
    if (names.size >= namesMax) return { text };
    name = `b${createHash('sha1').update(text).digest('base64url')}`;
    names.set(text, name);
  }
  return { name, text };
}
const names = new Map<string, string>();
const namesMax = 500;
