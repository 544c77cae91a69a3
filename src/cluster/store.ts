// Rows of nodes, archived output and orphaned files, the same in both databases.
import { decodeJson, isRecord } from '../runtime/json.ts';
import type { JsonColumns, Migration, Row, Step, Store } from '../store/store.ts';

export const nodeStates = ['active', 'cordoned', 'draining'] as const;
export type NodeState = (typeof nodeStates)[number];

export interface NodeRow {
  id: string;
  name: string;
  /** The URL for other nodes; null while it has no TCP port. */
  url: string | null;
  labels: string[];
  /** Concurrent attempts per kind. */
  capacity: Record<string, number>;
  running: Record<string, number>;
  state: NodeState;
  /** Identifies one run of a server. Two instances must not use the same id concurrently. */
  instance: string;
  version: string;
  startedAt: number;
  seenAt: number;
  stoppedAt: number | null;
}

export const clusterJsonColumns: JsonColumns = {
  nodes: { labels: Array.isArray, capacity: isRecord, running: isRecord },
  archives: { files: Array.isArray },
};

export const nodeMigrations: Migration[] = [
  {
    id: 'nodes/1',
    statements: ({ int, strict }) => [
      `CREATE TABLE nodes (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, url TEXT, labels TEXT NOT NULL, capacity TEXT NOT NULL,
        running TEXT NOT NULL, state TEXT NOT NULL, instance TEXT NOT NULL, version TEXT NOT NULL,
        started_at ${int} NOT NULL, seen_at ${int} NOT NULL, stopped_at ${int}
      ) ${strict}`,
      // Files of ended jobs that must be, or are, in object storage. `files` is set once they are uploaded.
      `CREATE TABLE archives (
        job_id TEXT PRIMARY KEY, node TEXT NOT NULL, files TEXT, bytes ${int}, archived_at ${int}
      ) ${strict}`,
      'CREATE INDEX archives_open ON archives (node) WHERE files IS NULL',
    ],
  },
  {
    // Files on one node whose job another node has deleted.
    id: 'nodes/2',
    statements: ({ strict }) => [
      `CREATE TABLE litter (node TEXT NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (node, job_id)) ${strict}`,
    ],
  },
];

export class NodeRows {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  async find(id: string): Promise<NodeRow | undefined> {
    const [row] = await this.store.read('SELECT * FROM nodes WHERE id = ?', [id]);
    return row && toNode(row);
  }

  async list(): Promise<NodeRow[]> {
    return (await this.store.read('SELECT * FROM nodes ORDER BY name, id')).map(toNode);
  }

  /** Keeps the node's state across restarts: cordoned stays cordoned. */
  async register(node: Omit<NodeRow, 'state' | 'stoppedAt'>): Promise<void> {
    const { id, name, url, labels, capacity, running, instance, version } = node;
    await this.store.commit([
      {
        sql: `INSERT INTO nodes (id, name, url, labels, capacity, running, state, instance, version, started_at, seen_at)
              VALUES (?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?)
              ON CONFLICT (id) DO UPDATE SET name = excluded.name, url = excluded.url, labels = excluded.labels,
                capacity = excluded.capacity, running = excluded.running, instance = excluded.instance,
                version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at,
                stopped_at = NULL`,
        params: [
          id,
          name,
          url,
          JSON.stringify(labels),
          JSON.stringify(capacity),
          JSON.stringify(running),
          instance,
          version,
          node.startedAt,
          node.seenAt,
        ],
      },
    ]);
  }

  /** Returns the state that others set; undefined if another instance owns the row now. */
  async heartbeat(report: {
    id: string;
    instance: string;
    url: string | null;
    running: Record<string, number>;
    at: number;
  }): Promise<NodeState | undefined> {
    const result = await this.store.commit([
      {
        sql: 'UPDATE nodes SET seen_at = ?, url = ?, running = ? WHERE id = ? AND instance = ? RETURNING state',
        params: [report.at, report.url, JSON.stringify(report.running), report.id, report.instance],
      },
    ]);
    return result.applied ? (result.rows[0]?.[0]?.state as NodeState | undefined) : undefined;
  }

  async markStopped(id: string, instance: string, at: number): Promise<void> {
    await this.store.commit([
      {
        sql: 'UPDATE nodes SET stopped_at = ?, seen_at = ? WHERE id = ? AND instance = ?',
        params: [at, at, id, instance],
      },
    ]);
  }

  async setState(id: string, state: NodeState): Promise<boolean> {
    const { applied } = await this.store.commit([
      { sql: 'UPDATE nodes SET state = ? WHERE id = ?', params: [state, id], expect: 1 },
    ]);
    return applied;
  }

  async forget(id: string): Promise<void> {
    await this.store.commit([{ sql: 'DELETE FROM nodes WHERE id = ?', params: [id] }]);
  }

  /** Deletes nodes that are silent since then, own no jobs, and are neither cordoned nor draining. */
  async forgetSilent(since: number): Promise<void> {
    await this.store.commit([
      {
        sql: `DELETE FROM nodes WHERE seen_at < ? AND state = 'active'
                AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.node = nodes.id)`,
        params: [since],
      },
      { sql: 'DELETE FROM litter WHERE node NOT IN (SELECT id FROM nodes)' },
    ]);
  }

  /** For the transaction that deletes jobs: records their files on other nodes, which only those nodes can remove. */
  orphanedFileSteps(jobIds: readonly string[], here: string): Step[] {
    const marks = jobIds.map(() => '?').join(', ');
    return [
      {
        sql: `INSERT INTO litter (node, job_id) SELECT DISTINCT n.id, ran.job_id FROM nodes n JOIN (
                SELECT node, id AS job_id FROM jobs WHERE id IN (${marks})
                UNION SELECT coalesce(node, holder), job_id FROM attempts WHERE job_id IN (${marks})
              ) ran ON ran.node = n.id WHERE n.id <> ? ON CONFLICT DO NOTHING`,
        params: [...jobIds, ...jobIds, here],
      },
    ];
  }

  async listOrphaned(node: string, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ id: string }>(
      'SELECT job_id AS id FROM litter WHERE node = ? LIMIT ?',
      [node, limit],
    );
    return rows.map(({ id }) => id);
  }

  async removeOrphaned(node: string, jobIds: readonly string[]): Promise<void> {
    const sql = 'DELETE FROM litter WHERE node = ? AND job_id = ?';
    await this.store.commit(jobIds.map((id) => ({ sql, params: [node, id] })));
  }

  /** For the transaction that starts an attempt: records that its files must be archived. */
  archiveStep(jobId: string, node: string): Step {
    return {
      sql: `INSERT INTO archives (job_id, node) VALUES (?, ?)
            ON CONFLICT (job_id) DO UPDATE SET node = excluded.node, files = NULL, archived_at = NULL`,
      params: [jobId, node],
    };
  }

  /** Ended jobs of a node whose files are not archived yet. */
  async toArchive(node: string, limit: number): Promise<string[]> {
    const rows = await this.store.read<{ id: string }>(
      `SELECT a.job_id AS id FROM archives a JOIN jobs j ON j.id = a.job_id
       WHERE a.node = ? AND a.files IS NULL
         AND j.status IN ('completed', 'failed', 'cancelled', 'timed_out') LIMIT ?`,
      [node, limit],
    );
    return rows.map(({ id }) => id);
  }

  async markArchived(
    jobId: string,
    archive: { node: string; files: string[]; bytes: number; at: number },
  ) {
    await this.store.commit([
      {
        sql: 'UPDATE archives SET files = ?, bytes = ?, archived_at = ? WHERE job_id = ? AND node = ?',
        params: [JSON.stringify(archive.files), archive.bytes, archive.at, jobId, archive.node],
      },
    ]);
  }

  async findArchive(jobId: string): Promise<string[] | undefined> {
    const [row] = await this.store.read<{ files: string | null }>(
      'SELECT files FROM archives WHERE job_id = ?',
      [jobId],
    );
    return row?.files ? decodeTexts(row.files) : undefined;
  }

  async deleteArchives(jobIds: readonly string[]): Promise<void> {
    await this.store.commit(
      jobIds.map((id) => ({ sql: 'DELETE FROM archives WHERE job_id = ?', params: [id] })),
    );
  }
}

/** Undefined if it cannot be decoded. */
function decodeTexts(stored: unknown): string[] | undefined {
  const list = decodeJson(stored)?.value;
  if (!Array.isArray(list)) return undefined;
  return list.filter((one): one is string => typeof one === 'string');
}

/** Empty if it cannot be decoded: the node rewrites its row with the next heartbeat. */
function decodeNumbers(stored: unknown): Record<string, number> {
  const value = decodeJson(stored)?.value;
  const entries = Object.entries(isRecord(value) ? value : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}

function toNode(row: Row): NodeRow {
  return {
    id: row.id as string,
    name: row.name as string,
    url: row.url as string | null,
    labels: decodeTexts(row.labels) ?? [],
    capacity: decodeNumbers(row.capacity),
    running: decodeNumbers(row.running),
    state: row.state as NodeState,
    instance: row.instance as string,
    version: row.version as string,
    startedAt: row.started_at as number,
    seenAt: row.seen_at as number,
    stoppedAt: row.stopped_at as number | null,
  };
}
