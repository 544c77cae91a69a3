// Reads pages and checks schemas in worker threads, because pages and schemas can require any amount of work.
import { extname } from 'node:path';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Service } from '../../../runtime/service.ts';
import { ThreadEnd, ThreadPool } from '../../../runtime/thread-pool.ts';
import type { Extraction, ExtractionRequest } from '../extract/extract.ts';
import { costHint, type SchemaCheck } from '../extract/schema.ts';
import type { Page, PageOptions } from './types.ts';

interface PagePoolOptions {
  clock: Clock;
  /** Maximum number of threads. */
  threads: number;
  /** Maximum CPU time for one page. */
  pageTimeoutMs?: number;
  /** Heap limit per thread. */
  threadMemoryMb?: number;
  /** A thread without work for this long ends. */
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

/** What a thread may use for one task. */
interface Limits {
  maxCpuMs: number;
  memoryMb: number;
}

const pageTimeoutMsDefault = 2000;
/** A task that gets little CPU time may take this many times its limit. */
const maxStretch = 6;
/**
 * Larger young generations only hold more garbage: reading is as fast, and a thread needs three times the
 * memory.
 */
const youngGenerationMb = 12;
const threadMemoryMbDefault = 512;
const defaultMaxWaiting = 10_000;

export class PagePool implements Service {
  readonly name = 'page pool';
  private readonly limits: Limits;
  private readonly maxWaiting: number;
  private readonly pool: ThreadPool<Task>;

  constructor(options: PagePoolOptions) {
    const { clock, threads, threadIdleMs, maxWaiting = defaultMaxWaiting } = options;
    const { pageTimeoutMs = pageTimeoutMsDefault, threadMemoryMb = threadMemoryMbDefault } =
      options;
    this.limits = { maxCpuMs: pageTimeoutMs, memoryMb: threadMemoryMb };
    this.maxWaiting = maxWaiting;
    this.pool = new ThreadPool({
      name: this.name,
      clock,
      file: new URL(`./worker${extname(import.meta.filename)}`, import.meta.url),
      threads,
      ...this.limits,
      youngGenerationMb,
      maxMs: maxStretch * pageTimeoutMs,
      ...(threadIdleMs === undefined ? {} : { idleMs: threadIdleMs }),
    });
  }

  start(): Promise<void> {
    return this.pool.start();
  }

  /** Ends every thread. Pages not read yet get an error. */
  stop(): Promise<void> {
    return this.pool.stop();
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

  /** Number of live threads, for tests and status. */
  get size(): number {
    return this.pool.size;
  }

  private async run(task: Task): Promise<unknown> {
    const { waiting } = this.pool;
    if (waiting >= this.maxWaiting) {
      throw new AppError('limitExceeded', `${waiting} pages are already waiting to be read.`, {
        hint: 'Fetch fewer pages concurrently.',
      });
    }
    try {
      return await this.pool.run(task, transferList(task));
    } catch (error) {
      throw error instanceof ThreadEnd ? endError(error, task, this.limits) : error;
    }
  }
}

function endError(end: ThreadEnd, task: Task, { maxCpuMs, memoryMb }: Limits): Error {
  switch (end.reason) {
    case 'time':
      return timeoutError(task, maxCpuMs);
    case 'memory':
      return memoryError(task, memoryMb);
    case 'stop':
      return new AppError('unavailable', 'The page was not read, because the server is stopped.');
    case 'crash':
      return end.cause instanceof Error
        ? end.cause
        : new AppError('internal', `The reader thread ${end.message}.`);
  }
}

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

function memoryError(task: Task, memoryMb: number): AppError {
  if ('schema' in task) return schemaCostError(`needs more than ${memoryMb} MB to check`);
  return new AppError('tooLarge', `Reading the page needed more than ${memoryMb} MB.`, {
    hint: 'Request the raw body, or a smaller part of the page.',
  });
}
