// Records every row a server changes, with triggers in its database, and every file of its home. This finds the exact
// changes of a request at a cost that does not grow with the store.
import { readdirSync, statSync, watch, type Dirent, type FSWatcher } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PostgresStore } from '../../src/store/postgres/postgres.ts';

export interface Change {
  table: string;
  op: 'D' | 'I' | 'U';
  row: Record<string, unknown>;
}

export interface Changes {
  /** What has changed since the last call. */
  take(): Promise<Change[]>;
  jobs(): Promise<Set<string>>;
  /** Removes the triggers. */
  close(): Promise<void>;
}

/** Rows that change with time or with every request: heartbeats, sweeps, request metrics. */
const volatile = /^(nodes|sweeps|web_usage|ledger|seen_changes)$/;
const volatileFile = /\.sqlite|\.log$|\.pid$|\.sock|^ledger\.id|^room$/;
const volatileColumns = ['used_at', 'seen_at', 'last_used_at'];

export function sqliteChanges(home: string): Changes {
  const db = new DatabaseSync(join(home, 'errand.sqlite'), { timeout: 10_000 });
  const tables = db
    .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    .all()
    .map(({ name }) => String(name))
    .filter((name) => !volatile.test(name) && !name.startsWith('sqlite_'));
  db.exec('CREATE TABLE seen_changes (n INTEGER PRIMARY KEY, name TEXT, op TEXT, line TEXT)');
  for (const name of tables) db.exec(triggersOf(db, name));
  const read = db.prepare('SELECT * FROM seen_changes WHERE n > ? ORDER BY n');
  const ids = db.prepare('SELECT id FROM jobs');
  const files = new Files(home);
  let last = 0;
  return {
    take: async () => {
      const changed = await files.take();
      const rows = read.all(last);
      last = Number(rows.at(-1)?.n ?? last);
      return [...rows.map(({ name, op, line }) => changeOf(name, op, line)), ...changed];
    },
    jobs: async () => new Set(ids.all().map(({ id }) => String(id))),
    close: async () => {
      files.close();
      for (const name of tables)
        for (const op of ops) db.exec(`DROP TRIGGER "seen_${op.slice(0, 1)}_${name}"`);
      db.exec('DROP TABLE seen_changes');
      db.close();
    },
  };
}

const ops = ['INSERT', 'UPDATE', 'DELETE'];
const changeOf = (table: unknown, op: unknown, row: unknown): Change => ({
  table: String(table),
  op: op as Change['op'],
  row: JSON.parse(String(row)) as Change['row'],
});

/** JSON cannot contain bytes. */
const shown = (column: string): string =>
  `CASE typeof(${column}) WHEN 'blob' THEN hex(${column}) ELSE ${column} END`;

function triggersOf(db: DatabaseSync, name: string): string {
  const columns = db
    .prepare(`SELECT name FROM pragma_table_info('${name}')`)
    .all()
    .map((one) => String(one.name))
    .filter((one) => !volatileColumns.includes(one));
  const differs = columns.map((one) => `OLD."${one}" IS NOT NEW."${one}"`).join(' OR ');
  return ops
    .map((op) => {
      const row = op === 'DELETE' ? 'OLD' : 'NEW';
      const values = columns.map((one) => `'${one}', ${shown(`${row}."${one}"`)}`);
      const when = op === 'UPDATE' ? `WHEN ${differs}` : '';
      const letter = op.slice(0, 1);
      return `CREATE TRIGGER "seen_${letter}_${name}" AFTER ${op} ON "${name}" ${when} BEGIN
        INSERT INTO seen_changes (name, op, line) VALUES ('${name}', '${letter}', json_object(${values.join(', ')})); END;`;
    })
    .join('\n');
}

export async function postgresChanges(home: string, store: PostgresStore): Promise<Changes> {
  const found = await store.read<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables
     WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`,
  );
  const tables = found.map(({ name }) => name).filter((name) => !volatile.test(name));
  await store.read('CREATE TABLE seen_changes (n BIGSERIAL, name TEXT, op TEXT, line TEXT)');
  await store.read(`CREATE FUNCTION seen_change() RETURNS trigger AS $$ BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - TG_ARGV::text[] = to_jsonb(OLD) - TG_ARGV::text[] THEN RETURN NULL; END IF;
    INSERT INTO seen_changes (name, op, line) VALUES (TG_TABLE_NAME, left(TG_OP, 1),
      CASE WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END::text);
    RETURN NULL; END $$ LANGUAGE plpgsql`);
  const skipped = volatileColumns.map((one) => `'${one}'`).join(', ');
  for (const name of tables)
    await store.read(
      `CREATE TRIGGER seen AFTER INSERT OR UPDATE OR DELETE ON "${name}" FOR EACH ROW EXECUTE FUNCTION seen_change(${skipped})`,
    );
  const files = new Files(home);
  return {
    take: async () => {
      // Concurrent transactions commit in any order, so rows are deleted as they are read.
      const rows = await store.read<{ n: number; name: string; op: string; line: string }>(
        'DELETE FROM seen_changes RETURNING n, name, op, line',
      );
      return [
        ...rows.map(({ name, op, line }) => changeOf(name, op, line)),
        ...(await files.take()),
      ];
    },
    jobs: async () => {
      const rows = await store.read<{ id: string }>('SELECT id FROM jobs');
      return new Set(rows.map(({ id }) => id));
    },
    close: async () => {
      files.close();
      for (const name of tables) await store.read(`DROP TRIGGER seen ON "${name}"`);
      await store.read('DROP FUNCTION seen_change');
      await store.read('DROP TABLE seen_changes');
    },
  };
}

/**
 * The files of a home and their sizes. On Linux a folder is read again only after the system reported a change in it: a
 * report is in the queue before the server responds, and is read in the next event loop iteration.
 */
class Files {
  private readonly home: string;
  private known: ReadonlyMap<string, number> = new Map();
  private readonly watchers = new Map<string, FSWatcher>();
  private changed = true;

  constructor(home: string) {
    this.home = home;
    this.known = this.read();
  }

  async take(): Promise<Change[]> {
    await nextTurn();
    if (!this.changed) return [];
    const now = this.read();
    const changes: Change[] = [];
    for (const [path, size] of now)
      if (this.known.get(path) !== size)
        changes.push({ table: 'files', op: this.known.has(path) ? 'U' : 'I', row: { path } });
    for (const path of this.known.keys())
      if (!now.has(path)) changes.push({ table: 'files', op: 'D', row: { path } });
    this.known = now;
    return changes;
  }

  close(): void {
    for (const watcher of this.watchers.values()) watcher.close();
  }

  private read(): Map<string, number> {
    this.changed = process.platform !== 'linux';
    const sizes = new Map<string, number>();
    const folders = new Set<string>();
    const walk = (folder: string) => {
      folders.add(folder);
      this.watch(folder);
      for (const entry of entriesOf(folder)) {
        const path = join(folder, entry.name);
        if (volatileFile.test(entry.name)) continue;
        if (entry.isDirectory()) walk(path);
        else if (entry.isFile())
          sizes.set(path, statSync(path, { throwIfNoEntry: false })?.size ?? 0);
      }
    };
    walk(this.home);
    for (const [folder, watcher] of this.watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.watchers.delete(folder);
    }
    return sizes;
  }

  private watch(folder: string): void {
    if (process.platform !== 'linux' || this.watchers.has(folder)) return;
    try {
      const watcher = watch(folder, (_event, name) => {
        if (name === null || !volatileFile.test(name)) this.changed = true;
      });
      watcher.on('error', () => (this.changed = true));
      this.watchers.set(folder, watcher);
    } catch {
      // The folder was removed after its parent was read. The parent reports that.
    }
  }
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}
