// Stores the environments of callers: in memory, and each distinct one in a file that only the owner can read (0600), so
// that a queued job, a retry and a rerun use the same values after a restart. The database stores only the file name.
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import { AppError } from '../../errors.ts';
import { callerEnvironment, type Withholding } from './environment.ts';
import type { EnvironmentSettings } from './settings.ts';

interface EnvironmentsDeps {
  /** Not in the jobs folder, so that a backup with output does not include it. */
  folder: string;
  settings: EnvironmentSettings;
  rules: Withholding;
  clock: Clock;
  log: Log;
  /** Keyed hash: the id stored with a job must not help anyone guess a value. */
  sign(text: string): string;
  /** Submission time of the oldest job, or undefined if there are no jobs. */
  oldestJobAt(): Promise<number | undefined>;
}

/** Environments cached in memory. Others are read from their files. */
const maxCached = 100;
/** A file is marked as used at most this often. */
const touchMs = 3_600_000;
const removeUnusedMs = 3_600_000;
/** A submission touches the file before its job is stored. */
const submissionSlackMs = 2 * touchMs;
const idForm = /^[\w-]{22}$/;

type Values = Record<string, string>;

interface StoredEnvironment {
  id: string;
  withheld: string[];
}

export class Environments implements Service {
  readonly name = 'environments';
  private readonly deps: EnvironmentsDeps;
  /** A bridge sends its environment once and reuses the same object for every call. */
  private readonly stored = new WeakMap<object, StoredEnvironment>();
  private readonly cached = new Map<string, Values>();
  private readonly touched = new Map<string, number>();
  private readonly loop: Loop;

  constructor(deps: EnvironmentsDeps) {
    this.deps = deps;
    const { clock, log } = deps;
    this.loop = new Loop({
      name: this.name,
      everyMs: removeUnusedMs,
      clock,
      log,
      run: () => this.removeUnused(),
    });
  }

  start(): Promise<void> {
    return this.loop.start();
  }

  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** Stores the caller's environment for its jobs. The file is on disk when this returns. */
  store(env: Readonly<Values>): StoredEnvironment {
    const known = this.stored.get(env);
    if (known && this.use(known.id)) return known;
    const { values, withheld } = callerEnvironment(env, this.deps.rules);
    const text = JSON.stringify(Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1)));
    this.rejectLarge(values, text);
    const id = this.idOf(text);
    if (!this.use(id)) {
      this.write(id, text);
      this.cache(id, values);
    }
    this.stored.set(env, { id, withheld });
    return { id, withheld };
  }

  /** Returns undefined if this node does not have the environment. */
  find(id: string): Values | undefined {
    const known = this.cached.get(id);
    if (known) return known;
    if (!idForm.test(id)) return undefined;
    try {
      const text = readFileSync(this.path(id), 'utf8');
      const values = Object.fromEntries(JSON.parse(text) as [string, string][]);
      this.cache(id, values);
      return values;
    } catch (error) {
      if (error instanceof SyntaxError || isMissing(error)) return undefined;
      throw error;
    }
  }

  /** Removes files that no job can need, and the least recently used ones above the limit. */
  async removeUnused(): Promise<void> {
    const { clock, settings } = this.deps;
    const oldest = (await this.deps.oldestJobAt()) ?? clock.now();
    const files = this.files().toSorted((a, b) => b.usedAt - a.usedAt);
    for (const [i, { id, usedAt }] of files.entries()) {
      if (i < settings.maxKept && usedAt >= oldest - submissionSlackMs) continue;
      rmSync(this.path(id), { force: true });
      this.cached.delete(id);
    }
  }

  private files(): { id: string; usedAt: number }[] {
    let names: string[];
    try {
      names = readdirSync(this.deps.folder);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
    return names.flatMap((name) => {
      const path = join(this.deps.folder, name);
      const stat = statSync(path, { throwIfNoEntry: false });
      // Left by a server that was killed while writing.
      if (stat && name.endsWith('.new') && this.deps.clock.now() - stat.mtimeMs > removeUnusedMs)
        rmSync(path);
      const id = name.replace(/\.json$/, '');
      return stat && idForm.test(id) ? { id, usedAt: stat.mtimeMs } : [];
    });
  }

  /** Marks the environment as used. Returns false if it does not exist. */
  use(id: string): boolean {
    if (!this.find(id)) return false;
    const now = this.deps.clock.now();
    if (now - (this.touched.get(id) ?? 0) < touchMs) return true;
    try {
      utimesSync(this.path(id), now / 1000, now / 1000);
      this.touched.set(id, now);
      return true;
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.cached.delete(id);
      return false;
    }
  }

  private write(id: string, text: string): void {
    const { folder, clock } = this.deps;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
    const next = join(folder, `.${id}.${process.pid}.new`);
    writeFileSync(next, text, { mode: 0o600, flush: true });
    // Uses the ledger's clock, because cleanup compares file times with job times.
    utimesSync(next, clock.now() / 1000, clock.now() / 1000);
    renameSync(next, this.path(id));
    const fd = openSync(folder, 'r');
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    this.touched.set(id, clock.now());
  }

  private cache(id: string, values: Values): void {
    this.cached.set(id, values);
    if (this.cached.size <= maxCached) return;
    const first = this.cached.keys().next().value!;
    this.cached.delete(first);
    this.touched.delete(first);
  }

  private path(id: string): string {
    return join(this.deps.folder, `${id}.json`);
  }

  private idOf(text: string): string {
    const digest = createHash('sha256').update(this.deps.sign(text)).digest('base64url');
    return digest.slice(0, 22);
  }

  private rejectLarge(values: Values, text: string): void {
    const { maxBytes, maxVariables } = this.deps.settings;
    const count = Object.keys(values).length;
    const bytes = Buffer.byteLength(text);
    if (bytes <= maxBytes && count <= maxVariables) return;
    const largest = Object.entries(values)
      .toSorted(([, a], [, b]) => b.length - a.length)
      .slice(0, 3)
      .map(([name]) => name);
    throw new AppError(
      'limitExceeded',
      `The caller's environment is too large: ${count} variables with ${bytes} bytes.`,
      {
        hint: `Unset large variables (${largest.join(', ')}), or raise command.environment.maxBytes or command.environment.maxVariables in config.json.`,
        data: { bytes, maxBytes, variables: count, maxVariables },
      },
    );
  }
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';
