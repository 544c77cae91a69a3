// Results on their way to the store: one command at a time, a few gathered first, none thrown away while the disk is full.
import type { Clock } from '../../../runtime/clock.ts';
import { patient } from './patience.ts';
import type { Result } from './result.ts';

export interface BatchesNeeds {
  clock: Clock;
  /** The job must stop: a write that fails is not tried again. */
  signal: AbortSignal;
  /** More results are under way, so it pays to wait a moment. */
  moreComing(): boolean;
  write(batch: readonly Result[]): Promise<void>;
  written(batch: readonly Result[]): void;
  onDelayed(error: unknown): void;
  onFailure(error: unknown): void;
  onChange(): void;
}

const resultsMax = 400;
const bytesMax = 64 * 1024 * 1024;
const batchResults = 100;
const gatheredResults = 16;
const gatherMs = 25;

export class Batches {
  private readonly needs: BatchesNeeds;
  private readonly results: Result[] = [];
  private writing: Promise<void> | undefined;
  private cancelGather: (() => void) | undefined;
  private failed = false;
  private bytes = 0;

  constructor(needs: BatchesNeeds) {
    this.needs = needs;
  }

  get waiting(): number {
    return this.results.length;
  }

  /** As much as may be held in memory waits already: nothing more is to be fetched. */
  get isFull(): boolean {
    return this.results.length >= resultsMax || this.bytes >= bytesMax;
  }

  get isWriting(): boolean {
    return this.writing !== undefined;
  }

  push(result: Result): void {
    this.results.push(result);
    this.bytes += result.bytes;
  }

  /**
   * One command at a time; what comes in meanwhile is the next one. A command costs a sync of the disk, so a few
   * results are gathered first while more are under way.
   */
  flush(atOnce = false): void {
    if (this.writing || this.results.length === 0 || this.failed) return;
    if (!atOnce && this.needs.moreComing() && this.results.length < gatheredResults) {
      this.cancelGather ??= this.needs.clock.after(gatherMs, () => {
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
        this.needs.onFailure(error);
      })
      .then(() => {
        this.writing = undefined;
        this.flush();
        this.needs.onChange();
      });
  }

  private async writeBatch(): Promise<void> {
    const { clock, signal, write, onDelayed } = this.needs;
    const batch = this.results.slice(0, batchResults);
    await patient(() => write(batch), { clock, signal, onDelayed });
    this.results.splice(0, batch.length);
    for (const { bytes } of batch) this.bytes -= bytes;
    this.needs.written(batch);
  }
}
