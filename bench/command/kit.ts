// Shared by the command benchmarks: the real server as a process, and process statistics from the kernel.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const bin = join(import.meta.dirname, '..', '..', 'bin', 'errand.js');

export interface BenchServer {
  url: string;
  key: string;
  pid: number;
  home: string;
  post<T>(path: string, body: unknown): Promise<T>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  stop(): Promise<void>;
}

export function tempHome(): string {
  return mkdtempSync(join(tmpdir(), 'errand-bench-'));
}

export async function startServer(settings: object = {}): Promise<BenchServer> {
  const home = tempHome();
  writeFileSync(join(home, 'config.json'), JSON.stringify(settings));
  const child = spawn(process.execPath, [bin, 'serve', '--json', '--port', '0'], {
    env: { ...process.env, ERRAND_HOME: home, ERRAND_LOG: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url, key, pid } = JSON.parse(line) as { url: string; key: string; pid: number };
  const authorization = `Bearer ${key}`;
  return {
    url,
    key,
    pid,
    home,
    post: async <T>(path: string, body: unknown) => {
      const headers = { authorization, 'content-type': 'application/json' };
      const response = await fetch(url + path, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as T;
    },
    get: (path, headers = {}) => fetch(url + path, { headers: { authorization, ...headers } }),
    stop: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** User and system time of a process and its reaped children, in ms. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Private memory of a process plus its proportional part of shared memory. */
export function pssBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
}

export function processes(): { pid: number; ppid: number; command: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
        const ppid = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
        return { pid: Number(name), ppid, command };
      } catch {
        return [];
      }
    });
}

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** Prints one machine-readable line with the bar. */
export function report(name: string, ratio: number, bar: string, facts: object): void {
  console.log(JSON.stringify({ benchmark: name, ratio: Number(ratio.toFixed(3)), bar, ...facts }));
}
