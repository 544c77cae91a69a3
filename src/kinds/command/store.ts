// Past runs of each command: how often it was well, how long it takes, how much it printed. Written in batches
// beside the ledger: losing the last second of it in a crash costs a statistic, never a job.
import { hash } from 'node:crypto';
import type { Migration, Step, Store } from '../../store/store.ts';

export const commandMigrations: readonly Migration[] = [
  {
    id: 'command/1',
    statements: ({ int, strict }) => [
      `CREATE TABLE command_runs (
        attempt_id TEXT NOT NULL PRIMARY KEY,
        job_id TEXT NOT NULL,
        command_key TEXT NOT NULL,
        ended_at ${int} NOT NULL,
        run_ms ${int} NOT NULL,
        ok ${int} NOT NULL,
        bytes ${int} NOT NULL
      ) ${strict}`,
      'CREATE INDEX command_runs_key ON command_runs (command_key, ended_at)',
      'CREATE INDEX command_runs_job ON command_runs (job_id)',
    ],
  },
  {
    id: 'command/2',
    statements: ({ strict }) => [
      // The newest job that `ensure` started under a name: the fence of the next one, on whatever node it is asked for.
      `CREATE TABLE command_names (
        owner TEXT NOT NULL, name TEXT NOT NULL, job_id TEXT NOT NULL, PRIMARY KEY (owner, name)
      ) ${strict}`,
      'CREATE INDEX command_names_job ON command_names (job_id)',
    ],
  },
  {
    id: 'command/3',
    statements: ({ int }) => [
      `ALTER TABLE command_runs ADD COLUMN cancelled ${int} NOT NULL DEFAULT 0`,
    ],
  },
];

/** Names under which one job at a time is kept running, over all nodes. */
export class Names {
  private readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** The job that had it last; empty: nobody yet. */
  async holder(owner: string, name: string): Promise<string> {
    const [row] = await this.store.read<{ id: string }>(
      'SELECT job_id AS id FROM command_names WHERE owner = ? AND name = ?',
      [owner, name],
    );
    return row?.id ?? '';
  }

  /** A conflict when somebody else got the name since `before` was read. */
  take(name: { owner: string; name: string }, jobId: string, before: string): Step {
    return {
      sql: `INSERT INTO command_names (owner, name, job_id) VALUES (?, ?, ?)
            ON CONFLICT (owner, name) DO UPDATE SET job_id = excluded.job_id
            WHERE command_names.job_id = ?`,
      params: [name.owner, name.name, jobId, before],
      expect: 1,
    };
  }
}

export interface PastRun {
  attemptId: string;
  jobId: string;
  /** `commandKey`. */
  key: string;
  endedAt: number;
  runMs: number;
  ok: boolean;
  cancelled: boolean;
  bytes: number;
}

export interface HistoryView {
  runs: number;
  /** 0 … 1 over the runs that are remembered and were not cancelled: a dev server is well until somebody stops it. */
  successRate?: number;
  /** Median of the runs that were well, once there are enough. */
  expectedMs?: number;
}

/** Runs looked at for one command: recent ones say most. */
const runsMax = 50;
/** Fewer runs say nothing about the next one. */
const expectedRunsMin = 3;

export class History {
  private readonly store: Store;
  private readonly node: string;
  private waiting: PastRun[] = [];
  /** What was answered since the last flush: a job is looked at again and again. Flushes come often, for the runs of others. */
  private readonly answered = new Map<string, HistoryView | undefined>();
  private resized = new Map<string, number>();

  /** Bytes are counted for one node: what others keep is on their disks. */
  constructor(store: Store, node: string) {
    this.store = store;
    this.node = node;
  }

  add(run: PastRun): void {
    this.waiting.push(run);
    this.answered.delete(run.key);
  }

  /** What an attempt left running printed on after its end. */
  resize(attemptId: string, bytes: number): void {
    this.resized.set(attemptId, bytes);
  }

  async flush(): Promise<void> {
    this.answered.clear();
    const runs = this.waiting;
    const { resized } = this;
    if (runs.length === 0 && resized.size === 0) return;
    this.waiting = [];
    this.resized = new Map();
    await this.store.commit([...runs.map(insertRun), ...[...resized].map(resizeRun)]);
  }

  async of(key: string): Promise<HistoryView | undefined> {
    if (!this.answered.has(key)) this.answered.set(key, await this.look(key));
    return this.answered.get(key);
  }

  private async look(key: string): Promise<HistoryView | undefined> {
    const rows = await this.store.read<{ run_ms: number; ok: number; cancelled: number }>(
      'SELECT run_ms, ok, cancelled FROM command_runs WHERE command_key = ? ORDER BY ended_at DESC LIMIT ?',
      [digest(key), runsMax],
    );
    const written = rows.map((row) => ({
      runMs: row.run_ms,
      ok: row.ok === 1,
      cancelled: row.cancelled === 1,
    }));
    const all = [...written, ...this.waiting.filter((run) => run.key === key)];
    if (all.length === 0) return undefined;
    const judged = all.filter((run) => !run.cancelled);
    const well = judged.filter((run) => run.ok);
    const times = well.map((run) => run.runMs).toSorted((a, b) => a - b);
    const expected =
      times.length < expectedRunsMin ? undefined : times[Math.floor(times.length / 2)];
    return {
      runs: all.length,
      ...(judged.length === 0
        ? {}
        : { successRate: Math.round((well.length / judged.length) * 1000) / 1000 }),
      ...(expected === undefined ? {} : { expectedMs: expected }),
    };
  }

  /** Bytes of output that ended jobs still have on this node. */
  async bytes(): Promise<number> {
    const written = await this.bytesWhere('TRUE', []);
    return written + this.waiting.reduce((sum, run) => sum + run.bytes, 0);
  }

  private async bytesWhere(condition: string, params: readonly string[]): Promise<number> {
    const [row] = await this.store.read<{ bytes: number | null }>(
      `SELECT SUM(r.bytes) AS bytes FROM command_runs r JOIN jobs j ON j.id = r.job_id
       WHERE j.node = ? AND ${condition}`,
      [this.node, ...params],
    );
    return Number(row?.bytes ?? 0);
  }

  /** Answers how many bytes of output went with them on this node. */
  async forget(jobIds: readonly string[]): Promise<number> {
    await this.flush();
    const marks = jobIds.map(() => '?').join(', ');
    const bytes = await this.bytesWhere(`r.job_id IN (${marks})`, jobIds);
    await this.store.commit([
      { sql: `DELETE FROM command_runs WHERE job_id IN (${marks})`, params: [...jobIds] },
      { sql: `DELETE FROM command_names WHERE job_id IN (${marks})`, params: [...jobIds] },
    ]);
    this.answered.clear();
    return bytes;
  }
}

/** The same words in the same folder by the same owner are the same command. */
export function commandKey(
  owner: string,
  command: string | readonly string[],
  cwd: string,
): string {
  return JSON.stringify([owner, command, cwd]);
}

/** What is written of a key: commands can be long, and the index is in every run. */
const digest = (key: string): string => hash('sha256', key, 'base64url').slice(0, 22);

const resizeRun = ([attemptId, bytes]: [string, number]): Step => ({
  sql: 'UPDATE command_runs SET bytes = ? WHERE attempt_id = ?',
  params: [bytes, attemptId],
});

function insertRun(run: PastRun): Step {
  return {
    sql: `INSERT INTO command_runs
        (attempt_id, job_id, command_key, ended_at, run_ms, ok, cancelled, bytes)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    params: [
      run.attemptId,
      run.jobId,
      digest(run.key),
      run.endedAt,
      run.runMs,
      run.ok ? 1 : 0,
      run.cancelled ? 1 : 0,
      run.bytes,
    ],
  };
}
