// The global event cursor over several writers. Cursors are given out before a transaction commits, so a gap in them is
// either a transaction still under way or one that was rolled back. A reader stops before a gap until every transaction
// that had started when it saw the gap is over; then the gap is empty for good. Writers pay nothing for this.
import type { Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';
import type { EventRow } from '../store.ts';
import { prepare } from './sql.ts';

const pageSize = 1000;
/** A transaction of ours lasts milliseconds: at start one is waited for, then the rest is taken as settled but for this tail. */
const settleMsMax = 1000;
const tailMax = 10_000;

export class EventReader {
  private readonly pool: Pool;
  private readonly clock: Clock;
  /** Called when a reader stands before a gap and should look again soon. */
  private readonly waiting: () => void;
  /** Up to here nothing will ever be added. */
  private settled = 0;
  /** Up to this cursor nothing is added once every transaction numbered below `next` is over. */
  private mark: { cursor: number; next: number } | undefined;

  constructor(pool: Pool, clock: Clock, waiting: () => void) {
    this.pool = pool;
    this.clock = clock;
    this.waiting = waiting;
  }

  async read(after: number, limit: number): Promise<EventRow[]> {
    const { rows, xmin } = await this.page(after, limit);
    this.settle(xmin);
    let last = after;
    for (const [i, { cursor }] of rows.entries()) {
      if (cursor > this.settled && cursor !== last + 1) {
        await this.markGap(rows.at(-1)!.cursor);
        this.waiting();
        return rows.slice(0, i);
      }
      // Without a gap from a settled place on: settled as far as it goes.
      if (last <= this.settled) this.settled = Math.max(this.settled, cursor);
      last = cursor;
    }
    return rows;
  }

  /** The newest event that can be read: a reader that starts here misses nothing. */
  async newest(): Promise<number> {
    const last = await this.last();
    if (last > this.settled + pageSize) await this.settleUpTo(last);
    let cursor = Math.min(this.settled, last);
    for (;;) {
      const rows = await this.read(cursor, pageSize);
      if (rows.length === 0) return cursor;
      cursor = rows.at(-1)!.cursor;
    }
  }

  private async settleUpTo(last: number): Promise<void> {
    this.mark = undefined;
    await this.markGap(last);
    const end = this.clock.now() + settleMsMax;
    while (this.settled < last && this.clock.now() < end) {
      this.settle((await this.page(last, 1)).xmin);
      if (this.settled < last) await this.clock.sleep(10);
    }
    this.settled = Math.max(this.settled, last - tailMax);
  }

  private settle(xmin: number): void {
    if (!this.mark || xmin < this.mark.next) return;
    this.settled = Math.max(this.settled, this.mark.cursor);
    this.mark = undefined;
  }

  /** A writer has its transaction number before it takes a cursor, so whoever may still fill the gap is numbered below ours. */
  private async markGap(cursor: number): Promise<void> {
    if (this.mark) return;
    const { rows } = await this.pool.query('SELECT pg_current_xact_id()::text::bigint AS next');
    this.mark = { cursor, next: (rows[0] as { next: number }).next };
  }

  private async page(after: number, limit: number): Promise<{ rows: EventRow[]; xmin: number }> {
    // One statement, one snapshot: the rows and the oldest transaction under way belong together.
    const { rows } = await this.pool.query({
      ...prepare(
        `SELECT s.xmin, e.cursor, e.job_id AS "jobId", e.n, e.type, e.at, e.data FROM
           (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin) AS s
         LEFT JOIN (SELECT * FROM events WHERE cursor > ? ORDER BY cursor LIMIT ?) AS e ON true
         ORDER BY e.cursor`,
      ),
      values: [after, limit],
    });
    const found = rows as (EventRow & { xmin: number })[];
    const events = found
      .filter(({ cursor }) => cursor !== null)
      .map(({ cursor, jobId, n, type, at, data }) => ({ cursor, jobId, n, type, at, data }));
    return { rows: events, xmin: found[0]!.xmin };
  }

  private async last(): Promise<number> {
    const { rows } = await this.pool.query('SELECT coalesce(max(cursor), 0) AS last FROM events');
    return (rows[0] as { last: number }).last;
  }
}
