// Checks deliveries against JSON Schemas in a separate thread, one at a time. Callers supply both schema and delivery, and
// together these can require any amount of work: a check that takes too long or too much memory ends its thread, not the
// server.
import { Worker } from 'node:worker_threads';
import { systemClock } from '../../../runtime/clock.ts';
import type { Service } from '../../../runtime/service.ts';
import type { JsonSchema } from './schema.ts';

export interface SchemaRequest {
  schema: JsonSchema;
  bytes: Uint8Array;
}

export type SchemaResult =
  | { json: false }
  /** Empty: the delivery matches. */
  | { json: true; errors: string }
  /** Why the check itself failed. */
  | { broken: string };

/** The first check of a thread also waits until the thread has loaded its code. */
const startupMs = 15_000;
const memoryMb = 256;
/** TypeScript in a clone, JavaScript in the package. */
const threadFile = import.meta.url.endsWith('.ts') ? './schema-thread.ts' : './schema-thread.js';

export class SchemaChecks implements Service {
  readonly name = 'escrow schema checks';
  private readonly maxMs: number;
  private thread: Worker | undefined;
  private queue: Promise<unknown> = Promise.resolve();

  constructor(maxMs: number) {
    this.maxMs = maxMs;
  }

  async start(): Promise<void> {
    // The first check starts the thread.
  }

  async stop(): Promise<void> {
    const { thread } = this;
    this.thread = undefined;
    await thread?.terminate();
  }

  check(schema: JsonSchema, bytes: Uint8Array): Promise<SchemaResult> {
    const answer = this.queue.then(() => this.runCheck({ schema, bytes }));
    this.queue = answer;
    return answer;
  }

  /** Never rejects: if the thread ends, that is reported as a broken check. */
  private async runCheck(request: SchemaRequest): Promise<SchemaResult> {
    const { promise, resolve } = Promise.withResolvers<SchemaResult>();
    const broken = (why: string) => {
      if (this.thread === thread) this.thread = undefined;
      void thread.terminate();
      resolve({ broken: why });
    };
    // A check takes real time, even when tests control the clock of the deadlines.
    const within = (ms: number) =>
      systemClock.after(ms, () => broken(`took longer than ${this.maxMs} ms`));
    let cancel = within(this.thread ? this.maxMs : startupMs);
    const thread = (this.thread ??= this.newThread());
    const onMessage = (message: SchemaResult | 'ready') => {
      if (message !== 'ready') return resolve(message);
      cancel();
      cancel = within(this.maxMs);
    };
    const failed = (error: Error) => broken(`failed: ${error.message}`);
    const ended = () => broken('was stopped');
    thread.on('message', onMessage).on('error', failed).on('exit', ended).ref();
    thread.postMessage(request);
    const answer = await promise;
    cancel();
    thread.off('message', onMessage).off('error', failed).off('exit', ended).unref();
    return answer;
  }

  private newThread(): Worker {
    const thread = new Worker(new URL(threadFile, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    });
    // No listener is attached between checks, and an unhandled error event would end the server.
    return thread.on('error', () => undefined);
  }
}
