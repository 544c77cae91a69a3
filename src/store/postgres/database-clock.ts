// A clock that follows the database time. Nodes compare leases, delays and TTLs. A node whose clock is minutes off would
// declare all other nodes lost.
import type { Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';

const intervalMs = 30_000;
/** Smaller differences are measurement noise and do not move the clock. */
const noiseMs = 50;

export class DatabaseClock implements Clock {
  private readonly base: Clock;
  private readonly pool: Pool;
  private offsetMs = 0;
  private cancel: () => void = () => {};

  constructor(base: Clock, pool: Pool) {
    this.base = base;
    this.pool = pool;
  }

  /** How far this machine's clock is behind the database clock. */
  get skewMs(): number {
    return this.offsetMs;
  }

  now(): number {
    return this.base.now() + this.offsetMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.base.sleep(ms, signal);
  }

  after(ms: number, fn: () => void): () => void {
    return this.base.after(ms, fn);
  }

  async start(): Promise<void> {
    await this.measure();
    this.scheduleNext();
  }

  stop(): void {
    this.cancel();
  }

  private scheduleNext(): void {
    this.cancel = this.base.after(intervalMs, () => {
      // While the database is unreachable, the last measurement applies.
      this.measure()
        .catch(() => {})
        .finally(() => this.scheduleNext());
    });
  }

  private async measure(): Promise<void> {
    const before = this.base.now();
    const { rows } = await this.pool.query(
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now',
    );
    const after = this.base.now();
    const offset = Math.round((rows[0] as { now: number }).now - (before + after) / 2);
    if (Math.abs(offset - this.offsetMs) > noiseMs + (after - before)) this.offsetMs = offset;
  }
}
