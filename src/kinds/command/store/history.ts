// Past runs per command: success rate, duration, output size. They are written in batches, outside the ledger
// transaction: a crash may lose a second of statistics, never a job.
import { hash } from 'node:crypto';
import type { Step, Store } from '../../../store/store.ts';

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

interface HistoryView {
  runs: number;
  /** 0 to 1, over remembered runs that were not cancelled: stopping a dev server manually is not a failure. */
  successRate?: number;
  /** Median duration of successful runs. Omitted until there are enough of them. */
  expectedMs?: number;
}

/** How many recent runs of a command are considered. */
const maxRuns = 50;
/** With fewer successful runs, no expected duration is reported. */
const minExpectedRuns = 3;

export class History {
  private readonly store: Store;
  private readonly node: string;
  private waiting: PastRun[] = [];
  /** Views computed since the last flush, because a job is often viewed repeatedly. Flushes add runs of other nodes. */
  private readonly views = new Map<string, HistoryView | undefined>();
  private resized = new Map<string, number>();

  /** `node`: output bytes are counted per node, because each node stores its own files. */
  constructor(store: Store, node: string) {
    this.store = store;
    this.node = node;
  }

  add(run: PastRun): void {
    this.waiting.push(run);
    this.views.delete(run.key);
  }

  /** Records the output size after processes that the attempt left running printed more. */
  resize(attemptId: string, bytes: number): void {
    this.resized.set(attemptId, bytes);
  }

  async flush(): Promise<void> {
    this.views.clear();
    const runs = this.waiting;
    const { resized } = this;
    if (runs.length === 0 && resized.size === 0) return;
    this.waiting = [];
    this.resized = new Map();
    await this.store.commit([...runs.map(insertRun), ...[...resized].map(resizeRun)]);
  }

  async get(key: string): Promise<HistoryView | undefined> {
    if (!this.views.has(key)) this.views.set(key, await this.load(key));
    return this.views.get(key);
  }

  private async load(key: string): Promise<HistoryView | undefined> {
    const rows = await this.store.read<{ run_ms: number; ok: number; cancelled: number }>(
      'SELECT run_ms, ok, cancelled FROM command_runs WHERE command_key = ? ORDER BY ended_at DESC LIMIT ?',
      [digest(key), maxRuns],
    );
    const written = rows.map((row) => ({
      runMs: row.run_ms,
      ok: row.ok === 1,
      cancelled: row.cancelled === 1,
    }));
    const all = [...written, ...this.waiting.filter((run) => run.key === key)];
    if (all.length === 0) return undefined;
    const counted = all.filter((run) => !run.cancelled);
    const successful = counted.filter((run) => run.ok);
    const times = successful.map((run) => run.runMs).toSorted((a, b) => a - b);
    const expected =
      times.length < minExpectedRuns ? undefined : times[Math.floor(times.length / 2)];
    return {
      runs: all.length,
      ...(counted.length === 0
        ? {}
        : { successRate: Math.round((successful.length / counted.length) * 1000) / 1000 }),
      ...(expected === undefined ? {} : { expectedMs: expected }),
    };
  }

  /** Total output bytes of ended jobs on this node. */
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

  /** Returns how many output bytes were removed on this node. */
  async forget(jobIds: readonly string[]): Promise<number> {
    await this.flush();
    const marks = jobIds.map(() => '?').join(', ');
    const bytes = await this.bytesWhere(`r.job_id IN (${marks})`, jobIds);
    await this.store.commit([
      { sql: `DELETE FROM command_runs WHERE job_id IN (${marks})`, params: [...jobIds] },
      { sql: `DELETE FROM command_names WHERE job_id IN (${marks})`, params: [...jobIds] },
    ]);
    this.views.clear();
    return bytes;
  }
}

/** Submission time of the oldest job of any kind, or undefined if there are no jobs. */
export async function oldestJobAt(store: Store): Promise<number | undefined> {
  const [row] = await store.read<{ at: number }>(
    'SELECT created_at AS at FROM jobs ORDER BY seq LIMIT 1',
    [],
  );
  return row === undefined ? undefined : Number(row.at);
}

/** Identifies a command: same owner, same arguments, same folder. */
export function commandKey(
  owner: string,
  command: string | readonly string[],
  cwd: string,
): string {
  return JSON.stringify([owner, command, cwd]);
}

/** Hashes the key, because commands can be long and every run stores the key. */
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
