// Checks deliveries against JSON Schemas in a separate thread, one at a time. Callers supply both schema and delivery, and
// together these can require any amount of work.
import { extname } from 'node:path';
import { systemClock } from '../../../runtime/clock.ts';
import type { Service } from '../../../runtime/service.ts';
import { ThreadPool } from '../../../runtime/thread-pool.ts';
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

const memoryMb = 256;

export class SchemaChecks implements Service {
  readonly name = 'escrow schema checks';
  private readonly pool: ThreadPool<SchemaRequest>;

  constructor(maxMs: number) {
    this.pool = new ThreadPool({
      name: this.name,
      // A check takes real time, even when tests control the clock of the deadlines.
      clock: systemClock,
      file: new URL(`./schema-thread${extname(import.meta.filename)}`, import.meta.url),
      threads: 1,
      memoryMb,
      maxMs,
    });
  }

  start(): Promise<void> {
    return this.pool.start();
  }

  stop(): Promise<void> {
    return this.pool.stop();
  }

  /** Never rejects: if the thread ends, that is reported as a broken check. */
  async check(schema: JsonSchema, bytes: Uint8Array): Promise<SchemaResult> {
    try {
      return (await this.pool.run({ schema, bytes })) as SchemaResult;
    } catch (error) {
      return { broken: (error as Error).message };
    }
  }
}
