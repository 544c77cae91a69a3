// The real program in its own home: `errand serve` as a process, the command line, and HTTP with the owner key.
import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createInterface } from 'node:readline';
import { tempFolder } from './folder.ts';

/** `npm test` builds the program as the package contains it: its servers start in half the time. */
export const bin =
  process.env.ERRAND_TEST_PROGRAM ?? join(import.meta.dirname, '..', '..', 'bin', 'errand.js');

/** test/cluster/e2e*.test.ts set this to run the end-to-end files on PostgreSQL. */
export const onPostgres = process.env.ERRAND_TEST_STORE === 'postgres';

/** One database per home, so that a restarted server finds its own. */
const databases = new Map<string, string>();

export async function prepareStore(home: string, env: Record<string, string> = {}): Promise<void> {
  if (!onPostgres || env.ERRAND_STORE !== undefined || databases.has(home)) return;
  // Loading the application costs more than most tests that only call a server.
  const { allMigrations } = await import('../../src/app.ts');
  const { migratedDatabase } = await import('./postgres.ts');
  databases.set(home, await migratedDatabase(allMigrations()));
}

export interface TestServer {
  url: string;
  key: string;
  home: string;
  pid: number;
  child: ChildProcess;
  stderr(): string;
  /** Runs `errand …` against this home. Never throws for an exit code. */
  cli(...args: string[]): Promise<CliResult>;
  api(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<ApiResponse>;
  /** Sends kill -9 and waits until the process is gone. */
  kill(): Promise<void>;
  /** Sends SIGTERM and returns the exit code. */
  stop(): Promise<number | null>;
}

export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
  json<T = Record<string, unknown>>(): T;
}

export interface ApiResponse {
  status: number;
  headers: Headers;
  text: string;
  json<T = Record<string, unknown>>(): T;
}

export interface ServerOptions {
  home?: string;
  env?: Record<string, string>;
  args?: string[];
}

/** Starts a server on a free port. It is stopped when the test ends. */
export async function startServer(
  t: TestContext,
  options: ServerOptions = {},
): Promise<TestServer> {
  const home = options.home ?? join(tempFolder(t), 'home');
  await prepareStore(home, options.env);
  const env = serverEnv(home, options.env);
  const child = spawn(
    process.execPath,
    [bin, 'serve', '--json', '--port', '0', ...(options.args ?? [])],
    {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const exited = once(child, 'exit');
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await exited;
  });
  const ready = await firstLine(child, exited, () => stderr);
  return {
    ...ready,
    child,
    stderr: () => stderr,
    cli: (...args) => cli(home, args, options.env),
    api: (method, path, body, headers) => api(ready, { method, path, body, headers }),
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = (await exited) as [number | null];
      return code;
    },
  };
}

export function serverEnv(home: string, env: Record<string, string> = {}): NodeJS.ProcessEnv {
  const store = databases.get(home);
  return {
    ...process.env,
    ...(store === undefined ? {} : { ERRAND_STORE: store }),
    ERRAND_HOME: home,
    ERRAND_LOG: 'info',
    NO_COLOR: '1',
    ...env,
  };
}

export async function cli(
  home: string,
  args: readonly string[],
  env: Record<string, string> = {},
  { stdin, ...options }: { cwd?: string; stdin?: string } = {},
): Promise<CliResult> {
  await prepareStore(home, env);
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [bin, ...args],
      { env: serverEnv(home, env), maxBuffer: 64 * 1024 * 1024, timeout: 120_000, ...options },
      (error, stdout, stderr) => {
        const code = error ? Number((error as { code?: number }).code ?? 1) : 0;
        resolve({ code, stdout, stderr, json: <T>() => JSON.parse(stdout) as T });
      },
    );
    if (stdin !== undefined) child.stdin!.end(stdin);
  });
}

async function api(
  server: { url: string; key: string },
  call: {
    method: string;
    path: string;
    body?: unknown;
    headers?: Record<string, string> | undefined;
  },
): Promise<ApiResponse> {
  const response = await fetch(server.url + call.path, {
    method: call.method,
    headers: {
      authorization: `Bearer ${server.key}`,
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: <T>() => JSON.parse(text) as T,
  };
}

type Ready = Pick<TestServer, 'url' | 'key' | 'home' | 'pid'>;

async function firstLine(
  child: ChildProcess,
  exited: Promise<unknown>,
  stderr: () => string,
): Promise<Ready> {
  const lines = createInterface({ input: child.stdout! });
  const line = once(lines, 'line') as Promise<[string]>;
  const first = await Promise.race([line, exited.then(() => undefined)]);
  if (!first) throw new Error(`the server did not start: ${stderr()}`);
  const ready = JSON.parse(first[0]) as Ready;
  assert.deepEqual(Object.keys(ready), ['url', 'key', 'home', 'pid'], 'scripts rely on these');
  return ready;
}
