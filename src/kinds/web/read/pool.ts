// Reads pages and checks schemas in worker threads, so that none can freeze or exhaust the server. Each task
// has a limit of CPU time and each thread a memory limit. A thread that exceeds one is replaced, and only its
// current task fails. Threads without work end.
import type { Worker } from 'node:worker_threads';
import { AppError, errorFromBody, type ErrorBody } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { startThread } from '../../../runtime/thread.ts';
import type { Service } from '../../../runtime/service.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';
import { costHint, type SchemaCheck } from '../extract/schema.ts';
import type { Page, PageOptions } from './types.ts';

interface PagePoolOptions {
  clock: Clock;
  /** Maximum number of threads. They start on demand. */
  threads: number;
  /** Maximum CPU time for one page. */
  pageTimeoutMs?: number;
  /** Heap limit per thread. */
  threadMemoryMb?: number;
  /** A thread without work for this long ends, because only that returns its heap to the system. */
  threadIdleMs?: number;
  /** Maximum number of pages waiting for a thread. Further pages are rejected. */
  maxWaiting?: number;
}

/** A task for a thread: read a page, or fill a schema from it. */
export interface PageTask {
  body: Uint8Array | string;
  options: PageOptions;
  extraction?: ExtractionRequest;
}

/** Both come from callers, and together they can require any amount of work. */
interface CheckTask {
  schema: unknown;
  value: unknown;
}

export type Task = PageTask | CheckTask;

interface Entry {
  id: number;
  task: Task;
  done(result: unknown): void;
  failed(error: Error): void;
}

interface Thread {
  worker: Worker;
  entry: Entry | undefined;
  /** CPU time of the thread when it ended its last task. */
  cpuMs: number;
  /** Time and idle limits. */
  timers: (() => void)[];
}

/** The thread has loaded its code, or has ended a task. */
export interface ThreadMessage {
  cpuMs: number;
  reply?: PageReply;
}

export interface PageReply {
  id: number;
  result?: Page | Extraction | SchemaCheck;
  error?: ErrorBody;
}

const pageTimeoutMsDefault = 2000;
/** A task that gets little CPU time may take this many times its limit. */
const maxStretch = 6;
const minCheckMs = 50;
const threadIdleMsDefault = 15_000;
/**
 * Larger young generations only hold more garbage: reading is as fast, and a thread needs three times the
 * memory.
 */
const youngGenerationMb = 12;
/** The first task of a thread also waits until the thread has loaded its code. */
const startupMs = 15_000;
const threadMemoryMbDefault = 512;
const defaultMaxWaiting = 10_000;

export class PagePool implements Service {
  readonly name = 'page pool';
  private readonly options: Required<PagePoolOptions>;
  private readonly threads = new Set<Thread>();
  private readonly waiting: Entry[] = [];
  private readonly ready = new WeakSet<Worker>();
  private nextId = 1;
  private stopped = false;

  constructor(options: PagePoolOptions) {
    this.options = {
      pageTimeoutMs: pageTimeoutMsDefault,
      threadMemoryMb: threadMemoryMbDefault,
      threadIdleMs: threadIdleMsDefault,
      maxWaiting: defaultMaxWaiting,
      ...options,
    };
  }

  async start(): Promise<void> {
    this.stopped = false;
  }

  /** Ends every thread. Pages not read yet get an error. */
  async stop(): Promise<void> {
    this.stopped = true;
    const error = new AppError('unavailable', 'The server is stopping; the page was not read.');
    for (const entry of this.waiting.splice(0)) entry.failed(error);
    const threads = [...this.threads];
    this.threads.clear();
    for (const { entry, timers } of threads) {
      for (const cancel of timers) cancel();
      entry?.failed(error);
    }
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  /** Transfers a Uint8Array that owns its whole buffer instead of copying it. Do not use it afterwards. */
  async read(body: Uint8Array | string, options: PageOptions): Promise<Page> {
    return (await this.run({ body, options })) as Page;
  }

  /** Like `read`, and fills a schema from the page. */
  async extract(
    body: Uint8Array | string,
    options: PageOptions,
    extraction: ExtractionRequest,
  ): Promise<Extraction> {
    return (await this.run({ body, options, extraction })) as Extraction;
  }

  /** Checks the schema (an invalid one throws) and returns the problems of the value. */
  async check(schema: unknown, value?: unknown): Promise<SchemaCheck> {
    return (await this.run({ schema, value })) as SchemaCheck;
  }

  private async run(task: Task): Promise<unknown> {
    if (this.stopped) throw new AppError('unavailable', 'The page pool is stopped.');
    if (this.waiting.length >= this.options.maxWaiting) {
      throw new AppError(
        'limitExceeded',
        `${this.waiting.length} pages are already waiting to be read.`,
        {
          hint: 'Fetch fewer pages concurrently.',
        },
      );
    }
    return await new Promise<unknown>((done, failed) => {
      this.waiting.push({ id: this.nextId++, task, done, failed });
      this.assign();
    });
  }

  /** Number of live threads, for tests and status. */
  get size(): number {
    return this.threads.size;
  }

  private assign(): void {
    while (this.waiting.length > 0) {
      const thread = this.idleThread();
      if (!thread) return;
      this.startTask(thread, this.waiting.shift()!);
    }
  }

  private idleThread(): Thread | undefined {
    for (const thread of this.threads) if (!thread.entry) return thread;
    return this.threads.size < this.options.threads ? this.newThread() : undefined;
  }

  private newThread(): Thread {
    const worker = startThread(new URL(workerFile, import.meta.url), {
      resourceLimits: {
        maxOldGenerationSizeMb: this.options.threadMemoryMb,
        maxYoungGenerationSizeMb: youngGenerationMb,
      },
    });
    const thread: Thread = { worker, entry: undefined, cpuMs: 0, timers: [] };
    worker.on('message', ({ cpuMs, reply }: ThreadMessage) => {
      thread.cpuMs = cpuMs;
      if (reply) this.handleReply(thread, reply);
      else this.markReady(thread);
    });
    worker.on('error', (error) =>
      this.failThread(thread, threadError(error, thread.entry?.task, this.options.threadMemoryMb)),
    );
    worker.on('exit', () =>
      this.failThread(thread, new AppError('internal', 'The reader thread ended unexpectedly.')),
    );
    worker.unref();
    this.threads.add(thread);
    return thread;
  }

  private startTask(thread: Thread, entry: Entry): void {
    thread.entry = entry;
    thread.worker.ref();
    this.startTimers(thread, this.ready.has(thread.worker) ? 0 : startupMs);
    thread.worker.postMessage({ id: entry.id, ...entry.task }, transferList(entry.task));
  }

  private startTimers(thread: Thread, moreMs: number): void {
    const { pageTimeoutMs, clock } = this.options;
    this.cancelTimers(thread);
    thread.timers.push(
      clock.after(maxStretch * pageTimeoutMs + moreMs, () => this.failSlow(thread)),
      clock.after(pageTimeoutMs + moreMs, () => void this.checkTime(thread, thread.entry)),
    );
  }

  /** Counts CPU time, because on a busy machine the time that passes says nothing about the page. */
  private async checkTime(thread: Thread, entry: Entry | undefined): Promise<void> {
    const { pageTimeoutMs, clock } = this.options;
    const usage = await thread.worker.cpuUsage().catch(() => undefined);
    if (!entry || thread.entry !== entry || !usage) return;
    const leftMs = pageTimeoutMs - ((usage.user + usage.system) / 1000 - thread.cpuMs);
    if (leftMs <= 0) this.failSlow(thread);
    else {
      const again = () => void this.checkTime(thread, entry);
      thread.timers.push(clock.after(Math.max(leftMs, minCheckMs), again));
    }
  }

  private failSlow(thread: Thread): void {
    if (thread.entry)
      this.failThread(thread, timeoutError(thread.entry.task, this.options.pageTimeoutMs));
  }

  /** The task's own time starts here. */
  private markReady(thread: Thread): void {
    this.ready.add(thread.worker);
    if (thread.entry) this.startTimers(thread, 0);
  }

  private handleReply(thread: Thread, reply: PageReply): void {
    const { entry } = thread;
    if (!entry || entry.id !== reply.id) return;
    this.release(thread);
    if (reply.result) entry.done(reply.result);
    else entry.failed(reply.error ? errorFromBody(reply.error) : new Error('empty reply'));
    this.assign();
    if (!thread.entry)
      thread.timers.push(
        this.options.clock.after(this.options.threadIdleMs, () => this.end(thread)),
      );
  }

  private end(thread: Thread): void {
    this.threads.delete(thread);
    void thread.worker.terminate();
  }

  private failThread(thread: Thread, error: Error): void {
    if (!this.threads.delete(thread)) return;
    const { entry } = thread;
    this.release(thread);
    void thread.worker.terminate();
    entry?.failed(error);
    this.assign();
  }

  private release(thread: Thread): void {
    this.cancelTimers(thread);
    thread.entry = undefined;
    thread.worker.unref();
  }

  private cancelTimers({ timers }: Thread): void {
    for (const cancel of timers.splice(0)) cancel();
  }
}

/** In a clone this file is TypeScript, in the package JavaScript. The worker file has the same extension. */
const workerFile = import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js';

function transferList(task: Task): ArrayBuffer[] {
  if (!('body' in task) || typeof task.body === 'string') return [];
  const { buffer, byteLength } = task.body;
  return buffer instanceof ArrayBuffer && byteLength === buffer.byteLength ? [buffer] : [];
}

function timeoutError(task: Task, limitMs: number): AppError {
  if ('schema' in task)
    return schemaCostError(`takes more than ${limitMs} ms of CPU time to check`);
  const { url } = task.options;
  const what = task.extraction ? `Filling the schema from ${url}` : `Reading ${url}`;
  return new AppError(
    'timeout',
    `${what} took more than ${limitMs} ms of CPU time and was stopped.`,
    {
      hint: task.extraction
        ? 'Page and schema together are too expensive. Request fewer fields, with fewer references.'
        : 'The page is too expensive to read. Request only `links`, or the raw body.',
    },
  );
}

/** The caller's mistake: a retry would cost the same. */
function schemaCostError(how: string): AppError {
  return new AppError('invalidInput', `The schema ${how}; the check was stopped.`, {
    hint: costHint,
  });
}

function threadError(error: unknown, task: Task | undefined, memoryMb: number): Error {
  const code = (error as { code?: string }).code;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') {
    if (task && 'schema' in task) return schemaCostError(`needs more than ${memoryMb} MB to check`);
    return new AppError('tooLarge', `Reading the page needed more than ${memoryMb} MB.`, {
      hint: 'Request the raw body, or a smaller part of the page.',
    });
  }
  return error instanceof Error ? error : new Error(String(error));
}
