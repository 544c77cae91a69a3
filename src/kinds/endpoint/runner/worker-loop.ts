// The loop of one worker process: polls for jobs, runs up to `concurrency` of them concurrently, and posts their
// results. It survives a server restart and exits on a signal, or when the server stays away.
import { AsyncLocalStorage } from 'node:async_hooks';
import { flushCompileCache } from 'node:module';
import { systemClock } from '../../../runtime/clock.ts';
import type { Handler, WorkerJob } from './handlers.ts';
import { progressStatus, Protocol, type WorkerResponse } from './protocol.ts';

export interface LoopOptions {
  handler: Handler;
  concurrency: number;
  /** Variables that the server set for RunPod's protocol. */
  env: Record<string, string | undefined>;
}

/** Without a response from the server for this long, the results are no longer needed. */
const orphanMs = 600_000;
/** Code that was compiled for this start is cached after the first jobs, for the next start. */
const flushAfterMs = 2000;

export class WorkerLoop {
  private readonly handler: Handler;
  private readonly concurrency: number;
  private readonly workerId: string;
  private readonly pingMs: number;
  private readonly protocol: Protocol;
  private readonly running = new Map<string, AbortController>();
  private readonly present = new AsyncLocalStorage<string>();
  private readonly stopping = new AbortController();
  private heardAt = systemClock.now();
  private wakeTake = () => {};

  constructor({ handler, concurrency, env }: LoopOptions) {
    this.handler = handler;
    this.concurrency = concurrency;
    this.workerId = env.RUNPOD_POD_ID ?? '';
    this.pingMs = Math.max(Number(env.RUNPOD_PING_INTERVAL ?? 10_000), 1000);
    this.protocol = new Protocol({
      takeUrl: env.RUNPOD_WEBHOOK_GET_JOB ?? '',
      doneUrl: env.RUNPOD_WEBHOOK_POST_OUTPUT ?? '',
      streamUrl: env.RUNPOD_WEBHOOK_POST_STREAM ?? '',
      pingUrl: env.RUNPOD_WEBHOOK_PING ?? '',
      key: env.RUNPOD_AI_API_KEY ?? '',
      workerId: this.workerId,
    });
  }

  start(): void {
    process.on('SIGTERM', () => {
      this.stopping.abort();
      this.wakeTake();
      if (this.running.size === 0) process.exit(0);
    });
    this.attribute('stdout', 'INFO');
    this.attribute('stderr', 'ERROR');
    process.on('unhandledRejection', (error) => {
      console.error('unhandled rejection:', error);
    });
    void this.takeLoop();
    void this.stopLoop();
    void this.pingLoop();
    systemClock.after(flushAfterMs, () => flushCompileCache());
  }

  private async pingLoop(): Promise<void> {
    for (;;) {
      await systemClock.sleep(this.pingMs);
      await this.ping();
    }
  }

  private async takeLoop(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const free = this.concurrency - this.running.size;
      if (free <= 0) {
        await new Promise<void>((resolve) => (this.wakeTake = resolve));
        continue;
      }
      const response = await this.attempt(this.protocol.take(free, [...this.running.keys()]));
      if (!response) await systemClock.sleep(500);
      else if (response.status === 401 || response.status === 403 || response.status === 404)
        exitProcess(response);
      else if (response.status === 200)
        for (const job of this.jobsOf(response.text)) void this.run(job);
      else if (response.status >= 400) await systemClock.sleep(1000);
    }
  }

  private async stopLoop(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const response = await this.attempt(this.protocol.stops());
      if (response?.status !== 200) {
        if (response?.status !== 204) await systemClock.sleep(1000);
        continue;
      }
      const { jobsToStop = [] } = JSON.parse(response.text) as { jobsToStop?: string[] };
      for (const id of jobsToStop) this.running.get(id)?.abort();
      if (jobsToStop.some((id) => !this.running.has(id))) void this.ping();
    }
  }

  private async run(job: WorkerJob): Promise<void> {
    const stop = new AbortController();
    this.running.set(job.id, stop);
    const posted = await this.present.run(job.id, () => this.runHandler(job, stop.signal));
    const { isStream = false, ...body } = posted;
    // A stopped job posts nothing, as with RunPod's worker. The next ping shows that it is gone.
    if (!stop.signal.aborted) {
      const text = resultText(body);
      await this.deliver(() => this.protocol.done(job.id, text, isStream === true));
    }
    this.running.delete(job.id);
    if (stop.signal.aborted) void this.ping();
    this.wakeTake();
    if (this.stopping.signal.aborted && this.running.size === 0) process.exit(0);
  }

  private async runHandler(job: WorkerJob, signal: AbortSignal): Promise<Record<string, unknown>> {
    const progress = async (output: unknown) => {
      await this.attempt(
        this.protocol.done(job.id, JSON.stringify({ status: progressStatus, output }), false),
      );
    };
    let chunks = 0;
    const emit = (output: unknown) => {
      const n = ++chunks;
      const body = JSON.stringify({ output });
      return this.deliver(() => this.protocol.chunk(job.id, n, body));
    };
    try {
      const posted = await this.handler.run(job, { signal, progress }, emit);
      JSON.stringify(posted);
      return posted;
    } catch (error) {
      return { error: JSON.stringify(errorOf(error, this.workerId)) };
    }
  }

  /** Results and chunks must arrive, so it retries while the server is away. */
  private async deliver(call: () => Promise<WorkerResponse>): Promise<void> {
    for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 5000)) {
      const response = await this.attempt(call());
      if (response && response.status < 500 && response.status !== 429) return;
      if (systemClock.now() - this.heardAt > orphanMs) exitProcess(undefined);
      await systemClock.sleep(waitMs);
    }
  }

  private async ping(): Promise<void> {
    const response = await this.attempt(this.protocol.ping([...this.running.keys()]));
    if (!response && systemClock.now() - this.heardAt > orphanMs) exitProcess(undefined);
  }

  private async attempt(call: Promise<WorkerResponse>): Promise<WorkerResponse | undefined> {
    try {
      const response = await call;
      this.heardAt = systemClock.now();
      return response;
    } catch {
      return undefined;
    }
  }

  private jobsOf(text: string): WorkerJob[] {
    const value = (this.handler.parse?.(text) ?? JSON.parse(text)) as WorkerJob | WorkerJob[];
    return Array.isArray(value) ? value : [value];
  }

  /** What a handler prints becomes lines that name their job. */
  private attribute(name: 'stdout' | 'stderr', level: string): void {
    const stream = process[name];
    const write = stream.write.bind(stream);
    const wrapped = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      const requestId = this.present.getStore() ?? null;
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
      const lines = text.split('\n').filter((line) => line !== '');
      const callback = rest.find((one) => typeof one === 'function') as (() => void) | undefined;
      const json = lines.map((message) => `${JSON.stringify({ requestId, message, level })}\n`);
      return write(json.join(''), callback);
    };
    stream.write = wrapped;
  }
}

function exitProcess(response: WorkerResponse | undefined): never {
  console.error(response ? `the server responded with ${response.status}` : 'the server is gone');
  process.exit(response ? 0 : 1);
}

function errorOf(error: unknown, workerId: string): Record<string, unknown> {
  const known = error instanceof Error ? error : new Error(String(error));
  return {
    error_type: known.name,
    error_message: known.message,
    error_traceback: known.stack ?? '',
    hostname: '',
    worker_id: workerId,
    runpod_version: 'errand',
  };
}

/** Lets the server report results with numbers that JSON cannot represent. */
function resultText(body: Record<string, unknown>): string {
  let isReplaced = false;
  const text = JSON.stringify(body, (_, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value)) isReplaced = true;
    return value;
  });
  return isReplaced ? JSON.stringify({ ...body, nonFinite: true }) : text;
}
