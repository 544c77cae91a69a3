// A server in its own process, for tests that kill it.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { isAlive } from '../../src/kinds/endpoint/workers/process.ts';
import { client, type EndpointServer } from './endpoint.ts';
import { bin } from './server.ts';
import { until } from './until.ts';

export type EndpointClient = Omit<EndpointServer, 'home' | 'stop'>;

export async function serve(
  t: TestContext,
  home: string,
  port: number,
): Promise<EndpointClient & { pid: number }> {
  const child = spawn(process.execPath, [bin, 'serve', '--port', String(port), '--home', home], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ERRAND_HOME: home },
  });
  t.after(() => child.kill('SIGKILL'));
  child.stderr.resume();
  const url = `http://127.0.0.1:${port}`;
  await until('the server is ready', async () => (await fetch(`${url}/health`)).ok);
  const key = readFileSync(join(home, 'owner.key'), 'utf8').trim();
  return { ...client(url, key), pid: child.pid! };
}

export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Already gone.
  }
}

/** Stops the server and waits for it. Its idle workers end with it. */
export async function end(pid: number): Promise<void> {
  process.kill(pid, 'SIGTERM');
  await until('the server has ended', () => !isAlive(pid, null));
}
