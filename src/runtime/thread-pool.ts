// Runs tasks in worker threads, so that none can freeze or exhaust the server. Each task has a time limit, and each thread a
// memory limit. A thread that exceeds one is replaced, and only its current task fails. Threads without work end.
import { getCompileCacheDir } from 'node:module';
import { Worker, type ResourceLimits } from 'node:worker_threads';
import { errorFromBody, type ErrorBody } from '../errors.ts';
import type { Clock } from './clock.ts';
import type { Service } from './service.ts';

interface ThreadPoolOptions {
  name: string;
  clock: Clock;
  /** The module of the threads. It calls `runTasks` of thread.ts. */
  file: URL;
  /** Maximum number of threads. They start on demand. */
  threads: number;
  memoryMb: number;
  youngGenerationMb?: number;
  /** Maximum time for one task. */
  maxMs: number;
  /** Maximum CPU time for one task, because on a busy machine the time that passes says nothing about the task. */
  maxCpuMs?: number;
  /** A thread without work for this long ends, because only that returns its heap to the system. */
  idleMs?: number;
}

/** The thread has loaded its code, or has ended a task. */
export interface ThreadMessage {
  cpuMs: number;
  reply?: { result: unknown } | { error: ErrorBody };
}

type Reason = 'time' | 'memory' | 'crash' | 'stop';

/** The thread ended before the task. The message continues a sentence about the task. */
export class ThreadEnd extends Error {
  readonly reason: Reason;

  constructor(reason: Reason, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ThreadEnd';
    this.reason = reason;
  }
}

interface Entry<Task> {
  task: Task;
  transfer: ArrayBuffer[];
  done(result: unknown): void;
  failed(error: Error): void;
}

interface Thread<Task> {
  worker: Worker;
  isReady: boolean;
  entry: Entry<Task> | undefined;
  /** CPU time of the thread when it ended its last task. */
  cpuMs: number;
  /** Time and idle limits. */
  timers: (() => void)[];
}

/** The first task of a thread also waits until the thread has loaded its code. */
const startupMs = 15_000;
const idleMsDefault = 15_000;
const minCheckMs = 50;

export class ThreadPool<Task extends object> implements Service {
  readonly name: string;
  private readonly options: ThreadPoolOptions;
  private readonly threads = new Set<Thread<Task>>();
  private readonly queue: Entry<Task>[] = [];
  private stopped = false;

  constructor(options: ThreadPoolOptions) {
    this.name = options.name;
    this.options = options;
  }

  async start(): Promise<void> {
    this.stopped = false;
  }

  /** Ends every thread. Tasks that have not ended fail. */
  async stop(): Promise<void> {
    this.stopped = true;
    const threads = [...this.threads];
    this.threads.clear();
    const running = threads.flatMap((thread) => this.release(thread) ?? []);
    for (const { failed } of [...running, ...this.queue.splice(0)]) failed(stopError());
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  /** Rejects with the error of the task, or with a ThreadEnd. */
  run(task: Task, transfer: ArrayBuffer[] = []): Promise<unknown> {
    if (this.stopped) return Promise.reject(stopError());
    return new Promise((done, failed) => {
      this.queue.push({ task, transfer, done, failed });
      this.assign();
    });
  }

  /** Number of live threads. */
  get size(): number {
    return this.threads.size;
  }

  /** Number of tasks that wait for a thread. */
  get waiting(): number {
    return this.queue.length;
  }

  private assign(): void {
    while (this.queue.length > 0) {
      const thread = this.idleThread();
      if (!thread) return;
      this.startTask(thread, this.queue.shift()!);
    }
  }

  private idleThread(): Thread<Task> | undefined {
    for (const thread of this.threads) if (!thread.entry) return thread;
    return this.threads.size < this.options.threads ? this.newThread() : undefined;
  }

  private newThread(): Thread<Task> {
    const { file, memoryMb, youngGenerationMb } = this.options;
    const worker = startThread(file, {
      maxOldGenerationSizeMb: memoryMb,
      ...(youngGenerationMb ? { maxYoungGenerationSizeMb: youngGenerationMb } : {}),
    });
    const thread: Thread<Task> = {
      worker,
      isReady: false,
      entry: undefined,
      cpuMs: 0,
      timers: [],
    };
    worker.on('message', ({ cpuMs, reply }: ThreadMessage) => {
      thread.cpuMs = cpuMs;
      if (reply) this.endTask(thread, reply);
      else this.markReady(thread);
    });
    worker.on('error', (error) => this.fail(thread, crashError(error, memoryMb)));
    worker.on('exit', () => this.fail(thread, new ThreadEnd('crash', 'ended unexpectedly')));
    worker.unref();
    this.threads.add(thread);
    return thread;
  }

  private startTask(thread: Thread<Task>, entry: Entry<Task>): void {
    thread.entry = entry;
    thread.worker.ref();
    this.startTimers(thread, thread.isReady ? 0 : startupMs);
    thread.worker.postMessage(entry.task, entry.transfer);
  }

  private startTimers(thread: Thread<Task>, moreMs: number): void {
    const { maxMs, maxCpuMs, clock } = this.options;
    this.cancelTimers(thread);
    const late = new ThreadEnd('time', `took longer than ${maxMs} ms`);
    thread.timers.push(clock.after(maxMs + moreMs, () => this.fail(thread, late)));
    if (maxCpuMs === undefined) return;
    const check = () => void this.checkCpuTime(thread, maxCpuMs);
    thread.timers.push(clock.after(maxCpuMs + moreMs, check));
  }

  private async checkCpuTime(thread: Thread<Task>, maxCpuMs: number): Promise<void> {
    const { entry, worker, timers } = thread;
    const usage = await worker.cpuUsage().catch(() => undefined);
    if (!entry || thread.entry !== entry || !usage) return;
    const leftMs = maxCpuMs - ((usage.user + usage.system) / 1000 - thread.cpuMs);
    if (leftMs <= 0) {
      this.fail(thread, new ThreadEnd('time', `took more than ${maxCpuMs} ms of CPU time`));
    } else {
      const again = () => void this.checkCpuTime(thread, maxCpuMs);
      timers.push(this.options.clock.after(Math.max(leftMs, minCheckMs), again));
    }
  }

  /** The task's own time starts here. */
  private markReady(thread: Thread<Task>): void {
    thread.isReady = true;
    if (thread.entry) this.startTimers(thread, 0);
  }

  private endTask(thread: Thread<Task>, reply: NonNullable<ThreadMessage['reply']>): void {
    const entry = this.release(thread);
    if (!entry) return;
    if ('error' in reply) entry.failed(errorFromBody(reply.error));
    else entry.done(reply.result);
    this.assign();
    if (thread.entry) return;
    const { clock, idleMs = idleMsDefault } = this.options;
    thread.timers.push(clock.after(idleMs, () => this.end(thread)));
  }

  private fail(thread: Thread<Task>, error: Error): void {
    if (!this.threads.has(thread)) return;
    const entry = this.release(thread);
    this.end(thread);
    entry?.failed(error);
    this.assign();
  }

  private end(thread: Thread<Task>): void {
    this.threads.delete(thread);
    void thread.worker.terminate();
  }

  private release(thread: Thread<Task>): Entry<Task> | undefined {
    const { entry } = thread;
    this.cancelTimers(thread);
    thread.entry = undefined;
    thread.worker.unref();
    return entry;
  }

  private cancelTimers({ timers }: Thread<Task>): void {
    for (const cancel of timers.splice(0)) cancel();
  }
}

/**
 * Node does not pass the compile cache of the process on to threads. Without it, reading and compiling their modules takes
 * two thirds of their start and 15 MB.
 */
function startThread(file: URL, resourceLimits: ResourceLimits): Worker {
  if (getCompileCacheDir() === undefined) return new Worker(file, { resourceLimits });
  const start = `import('node:module').then(({ enableCompileCache }) => {
    enableCompileCache();
    return import(${JSON.stringify(file.href)});
  });`;
  return new Worker(start, { resourceLimits, eval: true });
}

const stopError = () => new ThreadEnd('stop', 'was stopped');

function crashError(error: unknown, memoryMb: number): ThreadEnd {
  const { code, message } = error as { code?: string; message?: string };
  return code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? new ThreadEnd('memory', `needed more than ${memoryMb} MB`, error)
    : new ThreadEnd('crash', `failed: ${message ?? String(error)}`, error);
}
