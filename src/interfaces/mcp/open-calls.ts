// Tracks client requests without a response. A script that pipes requests into the bridge and closes the pipe still receives
// the responses that arrive soon.
import type { Clock } from '../../runtime/clock.ts';
import type { JsonObject } from './source.ts';
import type { TransportObserver } from './transport-observer.ts';

export class OpenCalls implements TransportObserver {
  /** Request ids with their start times. */
  private readonly startTimes = new Map<unknown, number>();
  private readonly clock: Clock;
  private onFinished = () => {};

  constructor(clock: Clock) {
    this.clock = clock;
  }

  received({ id, method, params }: JsonObject): void {
    // `subscriptions/listen` has no response, only notifications.
    if (id !== undefined && method !== undefined && method !== 'subscriptions/listen')
      this.started(id);
    if (method === 'notifications/cancelled') this.finished((params as JsonObject)?.requestId);
  }

  sent({ id, method }: JsonObject): void {
    if (method === undefined) this.finished(id);
  }

  started(id: unknown): void {
    this.startTimes.set(id, this.clock.now());
  }

  finished(id: unknown): void {
    if (this.startTimes.delete(id)) this.onFinished();
  }

  /**
   * Resolves when no open call is worth waiting for. Calls older than `quietMs` are dropped: their client has probably left.
   * Then it waits until no response arrives for `quietMs`, and at most `timeoutMs` in total.
   */
  async drain({ quietMs, timeoutMs }: { quietMs: number; timeoutMs: number }): Promise<void> {
    // The SDK may not have read the last line yet.
    await this.clock.sleep(0);
    const end = this.clock.now();
    for (const [id, startedAt] of this.startTimes)
      if (end - startedAt > quietMs) this.startTimes.delete(id);
    while (this.startTimes.size > 0 && this.clock.now() - end < timeoutMs) {
      const before = this.startTimes.size;
      const woken = new AbortController();
      const finished = new Promise<void>((resolve) => (this.onFinished = resolve));
      await Promise.race([finished, this.clock.sleep(quietMs, woken.signal)]);
      woken.abort();
      if (this.startTimes.size === before) return;
    }
  }
}
