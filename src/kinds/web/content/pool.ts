// Reads pages in worker threads, so that no page can freeze or exhaust the server: each page has
// a time limit, each thread a memory limit. A thread that breaks one is replaced and only its own
// page gets the error.
import { Worker } from 'node:worker_threads';
import { AppError, errorFromBody, type ErrorBody } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Service } from '../../../runtime/service.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';
import type { Page, PageOptions } from './types.ts';

export interface PagePoolOptions {
  clock: Clock;
  /** Threads. Started at need, kept until stop. */
  threads: number;
  /** Longest time for one page, from the moment a thread takes it. */
  pageTimeoutMs?: number;
  /** Heap of one thread. */
  threadMemoryMb?: number;
  /** Pages that may wait for a thread; more are refused. */
  waitingMax?: number;
}

/** What a thread does for a caller: it reads a page, or fills a schema from it. */
export interface PageTask {
  body: Uint8Array | string;
  options: PageOptions;
  extraction?: ExtractionRequest;
}

interface Entry {
  id: number;
  task: PageTask;
  done(result: unknown): void;
  failed(error: Error): void;
}

interface Thread {
  worker: Worker;
  entry: Entry | undefined;
  cancelTimer: (() => void) | undefined;
}

export interface PageReply {
  id: number;
  result?: Page | Extraction;
  error?: ErrorBody;
}

const pageTimeoutMsDefault = 2000;
/** The first page of a thread also waits for the thread to load its code. */
const startupMs = 15_000;
const threadMemoryMbDefault = 512;
const waitingMaxDefault = 10_000;

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
      waitingMax: waitingMaxDefault,
      ...options,
    };
  }

  async start(): Promise<void> {
    this.stopped = false;
  }

  /** Ends every thread; pages not read yet get an error. */
  async stop(): Promise<void> {
    this.stopped = true;
    const error = new AppError('unavailable', 'The server is stopping; the page was not read.');
    for (const entry of this.waiting.splice(0)) entry.failed(error);
    const threads = [...this.threads];
    this.threads.clear();
    for (const { entry, cancelTimer } of threads) {
      cancelTimer?.();
      entry?.failed(error);
    }
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  /**
   * A Uint8Array that owns its whole buffer is handed over, not copied: do not use it afterwards.
   */
  async read(body: Uint8Array | string, options: PageOptions): Promise<Page> {
    return (await this.run({ body, options })) as Page;
  }

  /** The same for a schema that is to be filled from the page. */
  async extract(
    body: Uint8Array | string,
    options: PageOptions,
    extraction: ExtractionRequest,
  ): Promise<Extraction> {
    return (await this.run({ body, options, extraction })) as Extraction;
  }

  private async run(task: PageTask): Promise<unknown> {
    if (this.stopped) throw new AppError('unavailable', 'The page pool is stopped.');
    if (this.waiting.length >= this.options.waitingMax) {
      throw new AppError('limitExceeded', `${this.waiting.length} pages wait to be read already.`, {
        hint: 'Fetch fewer pages at once.',
      });
    }
    return await new Promise<unknown>((done, failed) => {
      this.waiting.push({ id: this.nextId++, task, done, failed });
      this.assign();
    });
  }

  /** Threads alive now; for tests and status. */
  get size(): number {
    return this.threads.size;
  }

  private assign(): void {
    while (this.waiting.length > 0) {
      const thread = this.idleThread();
      if (!thread) return;
      this.give(thread, this.waiting.shift()!);
    }
  }

  private idleThread(): Thread | undefined {
    for (const thread of this.threads) if (!thread.entry) return thread;
    return this.threads.size < this.options.threads ? this.newThread() : undefined;
  }

  private newThread(): Thread {
    const worker = new Worker(new URL(workerFile, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: this.options.threadMemoryMb },
    });
    const thread: Thread = { worker, entry: undefined, cancelTimer: undefined };
    worker.on('message', (reply: PageReply) => this.answered(thread, reply));
    worker.on('error', (error) =>
      this.broken(thread, threadError(error, this.options.threadMemoryMb)),
    );
    worker.on('exit', () =>
      this.broken(thread, new AppError('internal', 'The reading thread ended.')),
    );
    worker.unref();
    this.threads.add(thread);
    return thread;
  }

  private give(thread: Thread, entry: Entry): void {
    const { pageTimeoutMs, clock } = this.options;
    thread.entry = entry;
    thread.worker.ref();
    const limitMs = this.ready.has(thread.worker) ? pageTimeoutMs : pageTimeoutMs + startupMs;
    thread.cancelTimer = clock.after(limitMs, () =>
      this.broken(thread, tooSlow(entry, pageTimeoutMs)),
    );
    const { body } = entry.task;
    const owned = typeof body !== 'string' && body.byteLength === body.buffer.byteLength;
    const message = { id: entry.id, ...entry.task };
    thread.worker.postMessage(
      message,
      owned && body.buffer instanceof ArrayBuffer ? [body.buffer] : [],
    );
  }

  private answered(thread: Thread, reply: PageReply): void {
    this.ready.add(thread.worker);
    const { entry } = thread;
    if (!entry || entry.id !== reply.id) return;
    this.release(thread);
    if (reply.result) entry.done(reply.result);
    else entry.failed(reply.error ? errorFromBody(reply.error) : new Error('empty reply'));
    this.assign();
  }

  private broken(thread: Thread, error: Error): void {
    if (!this.threads.delete(thread)) return;
    const { entry } = thread;
    this.release(thread);
    void thread.worker.terminate();
    entry?.failed(error);
    this.assign();
  }

  private release(thread: Thread): void {
    thread.cancelTimer?.();
    thread.cancelTimer = undefined;
    thread.entry = undefined;
    thread.worker.unref();
  }
}

/**
 * In a clone this file is TypeScript, in the package JavaScript; the worker beside it has the
 * same ending.
 */
const workerFile = import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js';

function tooSlow(entry: Entry, limitMs: number): AppError {
  const { url } = entry.task.options;
  return new AppError('timeout', `Reading ${url} took longer than ${limitMs} ms and was stopped.`, {
    hint: 'It is built in a way that costs too much; ask for `links` only, or for the raw body.',
  });
}

function threadError(error: unknown, memoryMb: number): Error {
  const code = (error as { code?: string }).code;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return new AppError('tooLarge', `Reading the page needed more than ${memoryMb} MB.`, {
      hint: 'Take the raw body, or a smaller part of the site.',
    });
  }
  return error instanceof Error ? error : new Error(String(error));
}
