// wrk as the client of HTTP benchmarks. It uses a fraction of the CPU of a Node client, so that the ratio compares the
// servers. `apt install wrk`.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { scratchFolder } from '../harness.ts';
import type { Server } from './kit.ts';

export interface WrkRequest {
  method: string;
  path: string;
  body?: unknown;
}

const seconds = Number(process.env.BENCH_SECONDS ?? 4);
const connections = 64;

/** Throws if wrk is not installed or a request failed. */
export async function runWrk(
  { url, key }: Server,
  request: WrkRequest,
): Promise<{ perSecond: number; requests: number }> {
  const { method, path, body } = request;
  const script = join(scratchFolder(), 'request.lua');
  const lines = [
    `wrk.method = ${JSON.stringify(method)}`,
    `wrk.headers["authorization"] = ${JSON.stringify(`Bearer ${key}`)}`,
    ...(body === undefined
      ? []
      : [
          `wrk.headers["content-type"] = "application/json"`,
          `wrk.body = [==[${JSON.stringify(body)}]==]`,
        ]),
  ];
  writeFileSync(script, lines.join('\n'));
  const limits = [`-d${seconds}s`, '--timeout=30s'];
  const args = ['-t1', `-c${connections}`, ...limits, '-s', script, `${url}${path}`];
  const { stdout } = await promisify(execFile)('wrk', args);
  if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(stdout);
  return {
    perSecond: Number(/Requests\/sec:\s*([\d.]+)/.exec(stdout)![1]),
    requests: Number(/(\d+) requests in/.exec(stdout)![1]),
  };
}

export async function needWrk(): Promise<void> {
  await promisify(execFile)('wrk', ['-v']).catch((error: NodeJS.ErrnoException) => {
    // It prints its version and exits with code 1.
    if (error.code === 'ENOENT') throw new Error('wrk is not installed (apt install wrk)');
  });
}
