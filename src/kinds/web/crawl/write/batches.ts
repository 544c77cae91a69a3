// Buffers crawl results and writes them in batches, one transaction at a time. Results stay buffered while the disk is full.
import type { Clock } from '../../../../runtime/clock.ts';
import { retryWhileUnavailable } from './retry-writes.ts';
import type { Result } from '../visit/result.ts';

interface BatchesDeps {
  clock: Clock;
  /** Aborted when the job must stop: failed writes are not retried. */
  signal: AbortSignal;
  /** Whether more results are expected, so that waiting fills the batch. */
  moreComing(): boolean;
  write(batch: readonly Result[]): Promise<void>;
  written(batch: readonly Result[]): void;
  onDelayed(error: unknown): void;
  onFailure(error: unknown): void;
  onChange(): void;
}

const maxResults = 400;
const maxBytes = 64 * 1024 * 1024;
const batchResults = 100;
const gatheredResults = 16;
const gatherMs = 25;

export class Batches {
  private readonly deps: BatchesDeps;
  private readonly results: Result[] = [];
  private writing: Promise<void> | undefined;
  private cancelGather: (() => void) | undefined;
  private failed = false;
  private bytes = 0;

  constructor(deps: BatchesDeps) {
    this.deps = deps;
  }

  get waiting(): number {
    return this.results.length;
  }

  /** The buffer is full: the crawl must not fetch more. */
  get isFull(): boolean {
    return this.results.length >= maxResults || this.bytes >= maxBytes;
  }

  get isWriting(): boolean {
    return this.writing !== undefined;
  }

  push(result: Result): void {
    this.results.push(result);
    this.bytes += result.bytes;
  }

  /**
   * Starts writing the next batch unless a write is running. Each transaction costs a disk sync, so a batch waits a
   * moment for more results unless `immediately` is set.
   */
  flush(immediately = false): void {
    if (this.writing || this.results.length === 0 || this.failed) return;
    if (!immediately && this.deps.moreComing() && this.results.length < gatheredResults) {
      this.cancelGather ??= this.deps.clock.after(gatherMs, () => {
        this.cancelGather = undefined;
        this.flush(true);
      });
      return;
    }
    this.cancelGather?.();
    this.cancelGather = undefined;
    this.writing = this.writeBatch()
      .catch((error: unknown) => {
        this.failed = true;
        this.deps.onFailure(error);
      })
      .then(() => {
        this.writing = undefined;
        this.flush();
        this.deps.onChange();
      });
  }

  private async writeBatch(): Promise<void> {
    const { clock, signal, write, onDelayed } = this.deps;
    const batch = this.results.slice(0, batchResults);
    await retryWhileUnavailable(() => write(batch), { clock, signal, onDelayed });
    this.results.splice(0, batch.length);
    for (const { bytes } of batch) this.bytes -= bytes;
    this.deps.written(batch);
  }
}
