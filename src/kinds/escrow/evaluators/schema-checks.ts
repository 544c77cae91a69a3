// Holds deliveries against JSON Schemas in a thread of its own, one after another. Schema and delivery both come from callers,
// and together they can ask for any amount of work: a check that takes too long or too much memory ends with its thread, not
// with the server.
import { Worker } from 'node:worker_threads';
import { systemClock } from '../../../runtime/clock.ts';
import type { Service } from '../../../runtime/service.ts';
import type { JsonSchema } from './schema.ts';

export interface SchemaQuestion {
  schema: JsonSchema;
  bytes: Uint8Array;
}

export type SchemaAnswer =
  | { json: false }
  /** Empty: the delivery fits. */
  | { json: true; errors: string }
  /** Why the check itself has no answer. */
  | { broken: string };

/** The first check of a thread waits for it to load its code. */
const startupMs = 15_000;
const memoryMb = 256;
/** In a clone this file is TypeScript, in the package JavaScript; the thread's has the same ending. */
const threadFile = import.meta.url.endsWith('.ts') ? './schema-thread.ts' : './schema-thread.js';

export class SchemaChecks implements Service {
  readonly name = 'escrow schema checks';
  private readonly msMax: number;
  private thread: Worker | undefined;
  private line: Promise<unknown> = Promise.resolve();

  constructor(msMax: number) {
    this.msMax = msMax;
  }

  async start(): Promise<void> {
    // The thread is started by the first check.
  }

  async stop(): Promise<void> {
    const { thread } = this;
    this.thread = undefined;
    await thread?.terminate();
  }

  check(schema: JsonSchema, bytes: Uint8Array): Promise<SchemaAnswer> {
    const answer = this.line.then(() => this.ask({ schema, bytes }));
    this.line = answer;
    return answer;
  }

  /** Never rejects: whatever ends the thread is an answer too. */
  private async ask(question: SchemaQuestion): Promise<SchemaAnswer> {
    const { promise, resolve } = Promise.withResolvers<SchemaAnswer>();
    const broken = (why: string) => {
      if (this.thread === thread) this.thread = undefined;
      void thread.terminate();
      resolve({ broken: why });
    };
    // Work takes real time, whatever clock the deadlines go by.
    const within = (ms: number) =>
      systemClock.after(ms, () => broken(`took longer than ${this.msMax} ms`));
    let cancel = within(this.thread ? this.msMax : startupMs);
    const thread = (this.thread ??= this.newThread());
    const told = (message: SchemaAnswer | 'ready') => {
      if (message !== 'ready') return resolve(message);
      cancel();
      cancel = within(this.msMax);
    };
    const failed = (error: Error) => broken(`failed: ${error.message}`);
    const ended = () => broken('was stopped');
    thread.on('message', told).on('error', failed).on('exit', ended).ref();
    thread.postMessage(question);
    const answer = await promise;
    cancel();
    thread.off('message', told).off('error', failed).off('exit', ended).unref();
    return answer;
  }

  private newThread(): Worker {
    const thread = new Worker(new URL(threadFile, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    });
    // Between two checks nobody listens, and an error without a listener would end the server.
    return thread.on('error', () => undefined);
  }
}
