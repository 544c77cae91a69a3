// The time of the database as this node's clock. Leases, delays and times to live of one cluster are compared across
// nodes; with a clock that is minutes off, a node would declare everybody else lost.
import type { Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';

const everyMs = 30_000;
/** Less than this is the noise of the measurement, and time should not jump for it. */
const noiseMs = 50;

export class SkewClock implements Clock {
  private readonly base: Clock;
  private readonly pool: Pool;
  private offsetMs = 0;
  private cancel: () => void = () => {};

  constructor(base: Clock, pool: Pool) {
    this.base = base;
    this.pool = pool;
  }

  /** How far this machine's own clock is behind the database's. */
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
    this.again();
  }

  stop(): void {
    this.cancel();
  }

  private again(): void {
    this.cancel = this.base.after(everyMs, () => {
      // While the database is away the last measurement holds.
      this.measure()
        .catch(() => {})
        .finally(() => this.again());
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
