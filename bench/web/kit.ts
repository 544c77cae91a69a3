// Shared by the crawl benchmarks: the site in its own process, our server as a user runs it, and its peak memory.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { scratchFolder } from '../harness.ts';

const root = join(import.meta.dirname, '..', '..');

export interface BenchSite {
  url: string;
  count(): Promise<number>;
  stop(): void;
}

export async function startSite(pages: number): Promise<BenchSite> {
  const child = start([join(import.meta.dirname, 'site.ts'), String(pages)], {});
  const url = `http://127.0.0.1:${await firstLine(child)}/`;
  return {
    url,
    count: async () => Number(await (await fetch(`${url}count`)).text()),
    stop: () => void child.kill('SIGKILL'),
  };
}

export interface OurServer {
  pid: number;
  home: string;
  post<T>(path: string, body: unknown): Promise<T>;
  get<T>(path: string): Promise<T>;
  kill(): Promise<void>;
}

/** `checkout`: the folder of another version. */
export async function startOurs(
  home = join(scratchFolder(), 'home'),
  checkout = root,
): Promise<OurServer> {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify({ egress: { allow: ['127.0.0.1'] } }));
  const bin = join(checkout, 'bin', 'errand.js');
  const child = start([bin, 'serve', '--json', '--port', '0'], {
    ERRAND_HOME: home,
    ERRAND_LOG: 'warn',
  });
  const { url, key, pid } = JSON.parse(await firstLine(child)) as {
    url: string;
    key: string;
    pid: number;
  };
  const call = async <T>(path: string, init: RequestInit): Promise<T> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    return (await (await fetch(url + path, { ...init, headers })).json()) as T;
  };
  return {
    pid,
    home,
    post: (path, body) => call(path, { method: 'POST', body: JSON.stringify(body) }),
    get: (path) => call(path, {}),
    kill: async () => {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

export interface CrawlView {
  status: string;
  result?: { pages: number };
  pages?: number;
}

export async function crawlEnd(server: OurServer, jobId: string): Promise<CrawlView> {
  for (;;) {
    await server.post('/api/wait', { ids: [jobId], timeoutMs: 45_000 });
    const view = await server.get<CrawlView>(`/api/jobs/${jobId}`);
    if (view.status !== 'running' && view.status !== 'queued') return view;
  }
}

/** Peak memory of a process in MB (Linux). */
export function peakMb(pid: number): number {
  const line = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Number(line[1]) / 1024;
}

export function start(args: string[], env: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  process.on('exit', () => child.kill('SIGKILL'));
  return child;
}

export async function firstLine(child: ChildProcess): Promise<string> {
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return line;
}
