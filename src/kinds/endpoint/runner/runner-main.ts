// The runner: one worker process. It loads a handler (or knows a command), asks for jobs, runs up to `concurrency` of
// them at once and posts what they answer. It outlives a restart of the server and ends when told to or left alone.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Handler, WorkerJob } from './handlers.ts';
import type { Answer } from './protocol.ts';

const env = process.env;
const task = JSON.parse(env.ERRAND_RUNNER ?? '{}') as {
  module?: string;
  perJob?: string[];
  concurrency?: number;
};
/** The handler loads before anything else of the runner: what it does first is often the slow part of a start. */
const loaded = task.module ? await load(task.module) : undefined;
const { AsyncLocalStorage } = await import('node:async_hooks');
const { commandHandler, moduleHandler } = await import('./handlers.ts');
const { Protocol } = await import('./protocol.ts');
const concurrency = task.concurrency ?? 1;
const pingMs = Math.max(Number(env.RUNPOD_PING_INTERVAL ?? 10_000), 1000);
/** Without any answer of the server for so long, nobody will ever ask for the results. */
const orphanMs = 600_000;

const protocol = new Protocol({
  takeUrl: env.RUNPOD_WEBHOOK_GET_JOB ?? '',
  doneUrl: env.RUNPOD_WEBHOOK_POST_OUTPUT ?? '',
  streamUrl: env.RUNPOD_WEBHOOK_POST_STREAM ?? '',
  pingUrl: env.RUNPOD_WEBHOOK_PING ?? '',
  key: env.RUNPOD_AI_API_KEY ?? '',
  workerId: env.RUNPOD_POD_ID ?? '',
});
const running = new Map<string, AbortController>();
const present = new AsyncLocalStorage<string>();
const stopping = new AbortController();
let heardAt = Date.now();
let wakeTake = () => {};

process.on('SIGTERM', () => {
  stopping.abort();
  wakeTake();
  if (running.size === 0) process.exit(0);
});
attribute('stdout', 'INFO');
attribute('stderr', 'ERROR');
process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection:', error);
});

let handler: Handler;
try {
  handler = loaded ? moduleHandler(task.module!, loaded) : commandHandler(task.perJob ?? [], env);
} catch (error) {
  console.error(error);
  process.exit(1);
}
void takeLoop();
void stopLoop();
setInterval(() => void ping(), pingMs);

async function load(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}

async function takeLoop(): Promise<void> {
  while (!stopping.signal.aborted) {
    const free = concurrency - running.size;
    if (free <= 0) {
      await new Promise<void>((resolve) => (wakeTake = resolve));
      continue;
    }
    const answer = await attempt(protocol.take(free, [...running.keys()]));
    if (!answer) await pause(500);
    else if (answer.status === 401 || answer.status === 403 || answer.status === 404) leave(answer);
    else if (answer.status === 200) for (const job of jobsOf(answer.text)) void run(job);
    else if (answer.status >= 400) await pause(1000);
  }
}

async function stopLoop(): Promise<void> {
  while (!stopping.signal.aborted) {
    const answer = await attempt(protocol.stops());
    if (answer?.status !== 200) {
      if (answer?.status !== 204) await pause(1000);
      continue;
    }
    const { jobsToStop = [] } = JSON.parse(answer.text) as { jobsToStop?: string[] };
    for (const id of jobsToStop) running.get(id)?.abort();
    if (jobsToStop.some((id) => !running.has(id))) void ping();
  }
}

async function run(job: WorkerJob): Promise<void> {
  const stop = new AbortController();
  running.set(job.id, stop);
  const posted = await present.run(job.id, () => answer(job, stop.signal));
  const { isStream = false, ...body } = posted;
  // A stopped job posts nothing, as with RunPod's own worker: the next ping says that it is gone.
  if (!stop.signal.aborted) await post(job.id, JSON.stringify(body), isStream === true);
  running.delete(job.id);
  if (stop.signal.aborted) void ping();
  wakeTake();
  if (stopping.signal.aborted && running.size === 0) process.exit(0);
}

async function answer(job: WorkerJob, signal: AbortSignal): Promise<Record<string, unknown>> {
  const progress = async (output: unknown) => {
    await attempt(protocol.done(job.id, JSON.stringify({ status: 'IN_PROGRESS', output }), false));
  };
  const emit = async (output: unknown) => {
    await attempt(protocol.chunk(job.id, JSON.stringify({ output })));
  };
  try {
    const posted = await handler.run(job, { signal, progress }, emit);
    JSON.stringify(posted);
    return posted;
  } catch (error) {
    return { error: JSON.stringify(errorOf(error)) };
  }
}

/** The result must arrive: as long as the server is away, try again. */
async function post(jobId: string, body: string, isStream: boolean): Promise<void> {
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 5000)) {
    const answer = await attempt(protocol.done(jobId, body, isStream));
    if (answer && answer.status < 500 && answer.status !== 429) return;
    if (Date.now() - heardAt > orphanMs) leave(undefined);
    await pause(waitMs);
  }
}

async function ping(): Promise<void> {
  const answer = await attempt(protocol.ping([...running.keys()]));
  if (!answer && Date.now() - heardAt > orphanMs) leave(undefined);
}

async function attempt(call: Promise<Answer>): Promise<Answer | undefined> {
  try {
    const answer = await call;
    heardAt = Date.now();
    return answer;
  } catch {
    return undefined;
  }
}

function leave(answer: Answer | undefined): never {
  console.error(answer ? `the server answered ${answer.status}` : 'the server is gone');
  process.exit(answer ? 0 : 1);
}

function jobsOf(text: string): WorkerJob[] {
  const value = JSON.parse(text) as WorkerJob | WorkerJob[];
  return Array.isArray(value) ? value : [value];
}

function errorOf(error: unknown): Record<string, unknown> {
  const known = error instanceof Error ? error : new Error(String(error));
  return {
    error_type: known.name,
    error_message: known.message,
    error_traceback: known.stack ?? '',
    hostname: '',
    worker_id: env.RUNPOD_POD_ID ?? '',
    runpod_version: 'errand',
  };
}

/** What a handler prints becomes lines with the job they belong to. */
function attribute(name: 'stdout' | 'stderr', level: string): void {
  const stream = process[name];
  const write = stream.write.bind(stream);
  const wrapped = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    const requestId = present.getStore() ?? null;
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    const lines = text.split('\n').filter((line) => line !== '');
    const callback = rest.find((one) => typeof one === 'function') as (() => void) | undefined;
    const json = lines.map((message) => `${JSON.stringify({ requestId, message, level })}\n`);
    return write(json.join(''), callback);
  };
  stream.write = wrapped;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
