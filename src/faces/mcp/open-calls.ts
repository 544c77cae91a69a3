// Which questions of the client are not answered yet. A script that pipes its questions in and closes the pipe still gets
// the answers that do not take long.
import type { Clock } from '../../runtime/clock.ts';
import type { JsonObject } from './source.ts';
import type { Tap } from './tap.ts';

export class OpenCalls implements Tap {
  private readonly ids = new Set<unknown>();
  private readonly clock: Clock;
  private none = () => {};

  constructor(clock: Clock) {
    this.clock = clock;
  }

  received({ id, method, params }: JsonObject): void {
    // A listening client is never answered, only told.
    if (id !== undefined && method !== undefined && method !== 'subscriptions/listen')
      this.asked(id);
    if (method === 'notifications/cancelled') this.answered((params as JsonObject)?.requestId);
  }

  sent({ id, method }: JsonObject): void {
    if (method === undefined) this.answered(id);
  }

  asked(id: unknown): void {
    this.ids.add(id);
  }

  answered(id: unknown): void {
    this.ids.delete(id);
    if (this.ids.size === 0) this.none();
  }

  /** Resolves when nothing is open, or when the time is up. */
  async settled(timeoutMs: number): Promise<void> {
    // The last line may be on its way to the SDK still.
    await this.clock.sleep(0);
    if (this.ids.size === 0) return;
    const enough = new AbortController();
    const none = new Promise<void>((resolve) => (this.none = resolve));
    await Promise.race([none, this.clock.sleep(timeoutMs, enough.signal)]);
    enough.abort();
  }
}
