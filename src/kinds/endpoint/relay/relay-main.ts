// The relay: one small process per worker, between the worker and the server. It starts the worker with the relay's
// address, outlives the server, and exits with the worker. If the server is away for too long, it stops the worker.
// It reads its task once from stdin, and exits if the server dies before sending it.
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../../runtime/clock.ts';
import { signalGroup } from '../../../runtime/process-identity.ts';
import { readBody } from '../../../runtime/wire.ts';
import { LogFile } from '../workers/log-file.ts';
import { findDroppedResults } from './dropped.ts';
import { Outbox } from './outbox.ts';
import { Relay } from './relay.ts';
import { Suspension } from './suspension.ts';
import { relayPortPlaceholder, type RelayTask } from './task.ts';
import { Upstream } from './upstream.ts';
import { startWorker } from './worker-process.ts';

/** Maximum size of a post, as on the server. */
const maxPostBytes = 512 * 1024 * 1024;
const tickMs = 500;
const healthMs = 10_000;
/** Time for posts in transit when the worker exits. */
const lastPostsMs = 2000;
/** An idle worker is suspended when the server has been away for this long. */
const suspendMs = 2000;

const task = await readTask();
const upstream = new Upstream(task);
const outbox = new Outbox(task.folder);
const suspension = new Suspension(task);
let reasonToStop: string | undefined;
const stopWorker = (reason: string) => {
  if (reasonToStop !== undefined) return;
  reasonToStop = reason;
  relay.drain();
  void suspension.resume().then(() => signalGroup(process.pid, 'SIGTERM'));
};
const forceStop = (reason: string) => {
  console.error(`relay: ${reason}; stopping the worker`);
  stopWorker(reason);
  void systemClock.sleep(task.stopMs).then(() => signalGroup(process.pid, 'SIGKILL'));
};
const relay = new Relay({ ...task, upstream, outbox, forceStop });
/** Part of every URL, so that no other process on this machine can impersonate the worker. */
const token = randomBytes(16).toString('hex');
const posts = new Set<Promise<void>>();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
  process.on(signal, () => stopWorker(signal));

const server = createServer((request, response) => {
  handle(request, response).catch(() => refuse(response));
});
// The package reuses connections and does not repeat a request that was lost on a closed one.
server.keepAliveTimeout = 0;
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', start);

function start(): void {
  const { port } = server.address() as AddressInfo;
  const worker = startWorker({ ...task, env: withRelayAddress(task.env, port) });
  worker.on('error', (error) => {
    console.error(`the worker could not be started: ${error.message}`);
    process.exit(127);
  });
  worker.on('exit', (code, signal) => void end(code, signal));
  void watch();
}

function withRelayAddress(env: Record<string, string>, port: number): Record<string, string> {
  const place = `${port}/${token}`;
  const isAddress = (name: string) => name.startsWith('RUNPOD_WEBHOOK_');
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      isAddress(name) ? value.replace(relayPortPlaceholder, place) : value,
    ]),
  );
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path, query = ''] = (request.url ?? '').split('?', 2) as [string, string?];
  const [, given, , , verb = '', , jobId = ''] = path.split('/');
  if (given !== token) return void response.writeHead(401).end();
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  switch (verb) {
    case 'job-take':
    case 'job-take-batch':
    case 'job-stop': {
      const { status, body } = await relay.poll({ verb, query, signal: gone.signal });
      return reply(response, status, body);
    }
    case 'job-done':
    case 'job-stream': {
      const body = await readBody(request, { maxBytes: maxPostBytes });
      const post = relay.post(verb, decodeURIComponent(jobId), body);
      posts.add(post);
      await post.finally(() => posts.delete(post));
      return reply(response, 200, Buffer.from('{}'));
    }
    case 'ping':
      await relay.ping(query);
      return reply(response, 200, Buffer.from('{}'));
    default:
      return void response.writeHead(404).end();
  }
}

/** Only a body that is too large or truncated is rejected. */
function refuse(response: ServerResponse): void {
  if (response.headersSent) response.destroy();
  else reply(response, 413, Buffer.alloc(0));
}

function reply(response: ServerResponse, status: number, body: Buffer): void {
  const type = body.length > 0 ? { 'content-type': 'application/json' } : {};
  response.writeHead(status, { ...type, 'content-length': body.length }).end(body);
}

/** Watches the log, the server, and results that the worker dropped. */
async function watch(): Promise<void> {
  const log = new LogFile(task.log);
  let read = 0;
  for (;;) {
    await systemClock.sleep(tickMs);
    const size = log.tick(systemClock.now());
    const found = findDroppedResults(task.log, Math.min(read, size), size);
    for (const { jobId, error } of found.dropped) void relay.drop(jobId, error);
    read = log.cut() ? 0 : found.next;
    if (suspension.isSuspended || upstream.silentMs() > healthMs) await upstream.isReachable();
    await adjustSuspension();
    if (upstream.silentMs() > task.outageMs)
      forceStop(`the server has been away for ${task.outageMs} ms`);
  }
}

/** A poll that is open while the worker is suspended may time out there, so that its job would be lost. */
async function adjustSuspension(): Promise<void> {
  if (upstream.silentMs() <= suspendMs) return suspension.resume();
  if (suspension.isSuspended || reasonToStop !== undefined || !relay.isIdle) return;
  await suspension.suspend();
  relay.interruptPolls();
}

/** The relay exits as its worker did. The server reads what could not be delivered. */
async function end(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
  const limit = new AbortController();
  const waitForCancels = Promise.allSettled(posts).then(() => limit.abort());
  await Promise.race([waitForCancels, systemClock.sleep(lastPostsMs, limit.signal)]);
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

async function readTask(): Promise<RelayTask> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const part of process.stdin) text += String(part);
  if (text === '') process.exit(0);
  return JSON.parse(text) as RelayTask;
}
