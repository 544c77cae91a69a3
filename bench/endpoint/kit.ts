// Shared by the endpoint benchmarks: a server in its own process, a bare HTTP echo, and a small keep-alive client.
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { scratchFolder } from '../harness.ts';

export interface Server {
  url: string;
  key: string;
  pid: number;
  close(): Promise<void>;
}

export async function startErrand(): Promise<Server> {
  const home = scratchFolder();
  const main = join(import.meta.dirname, '../../src/main.ts');
  const child = spawn(process.execPath, [main, 'serve', '--port', '0', '--home', home], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, ERRAND_HOME: home },
  });
  const url = await urlOf(child);
  const key = readFileSync(join(home, 'owner.key'), 'utf8').trim();
  return { url, key, pid: child.pid!, close: () => end(child) };
}

/** The baseline: node:http that parses a JSON body and returns a small JSON response. */
export async function startEcho(): Promise<Server> {
  const program = `
    const http = require('node:http');
    http.createServer((q, r) => {
      const parts = [];
      q.on('data', (c) => parts.push(c));
      q.on('end', () => {
        const text = Buffer.concat(parts).toString();
        const body = JSON.stringify({ id: 'x', status: 'IN_QUEUE', input: text ? JSON.parse(text).input : null });
        r.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
        r.end(body);
      });
    }).listen(0, '127.0.0.1', function () {
      console.log('http://127.0.0.1:' + this.address().port);
    });`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] });
  return { url: await urlOf(child), key: '', pid: child.pid!, close: () => end(child) };
}

async function urlOf(child: ChildProcess): Promise<string> {
  let text = '';
  for await (const chunk of child.stdout!) {
    text += String(chunk);
    const found = /(http:\/\/[\w.]+:\d+)/.exec(text);
    if (found) {
      child.stdout!.resume();
      return found[1]!;
    }
  }
  throw new Error(`the process did not start: ${text}`);
}

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  await Promise.race([new Promise((resolve) => child.once('exit', resolve)), sleep(10_000)]);
  child.kill('SIGKILL');
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export function call(
  { url, key }: { url: string; key: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<Record<string, unknown>> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}${path}`,
      {
        method,
        agent,
        headers: {
          authorization: `Bearer ${key}`,
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          if (response.statusCode! >= 300) reject(new Error(`${response.statusCode} ${text}`));
          else resolve((text === '' ? {} : JSON.parse(text)) as Record<string, unknown>);
        });
      },
    );
    sent.on('error', reject);
    sent.end(text);
  });
}

const pools = new Map<string, Pool>();

/** The same with undici, which uses less CPU than node:http's client. */
export async function undiciCall(
  { url, key }: { url: string; key: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<Record<string, unknown>> {
  let pool = pools.get(url);
  if (!pool) pools.set(url, (pool = new Pool(url, { connections: 16 })));
  const { statusCode, body: responseBody } = await pool.request({
    method,
    path,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await responseBody.text();
  if (statusCode >= 300) throw new Error(`${statusCode} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
