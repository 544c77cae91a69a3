// The global event cursor with several concurrent writers. Cursors are assigned before a transaction commits, so a gap
// belongs to a transaction that is still running or was rolled back. A reader stops at a gap until every transaction that
// was running when it saw the gap has ended; then the gap stays empty. Writers pay nothing for this.
import type { Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';
import type { EventRow } from '../store.ts';
import { prepare } from './sql.ts';

const pageSize = 1000;
/** Our transactions take milliseconds. At start the reader waits this long, then treats all but the last `maxTail` as settled. */
const maxSettleMs = 1000;
const maxTail = 10_000;

export class EventReader {
  private readonly pool: Pool;
  private readonly clock: Clock;
  /** Called when a reader stopped at a gap and should read again soon. */
  private readonly onGap: () => void;
  /** No event will be added at or before this cursor. */
  private settled = 0;
  /** No event will be added at or before `cursor` once all transactions below `next` have ended. */
  private mark: { cursor: number; next: number } | undefined;

  constructor(pool: Pool, clock: Clock, onGap: () => void) {
    this.pool = pool;
    this.clock = clock;
    this.onGap = onGap;
  }

  async read(after: number, limit: number): Promise<EventRow[]> {
    const { rows, xmin } = await this.page(after, limit);
    this.settle(xmin);
    let last = after;
    for (const [i, { cursor }] of rows.entries()) {
      if (cursor > this.settled && cursor !== last + 1) {
        await this.markGap(rows.at(-1)!.cursor);
        this.onGap();
        return rows.slice(0, i);
      }
      // No gap since a settled cursor: everything up to here is settled.
      if (last <= this.settled) this.settled = Math.max(this.settled, cursor);
      last = cursor;
    }
    return rows;
  }

  /** The newest readable event. A reader that starts here misses nothing. */
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
    const end = this.clock.now() + maxSettleMs;
    while (this.settled < last && this.clock.now() < end) {
      this.settle((await this.page(last, 1)).xmin);
      if (this.settled < last) await this.clock.sleep(10);
    }
    this.settled = Math.max(this.settled, last - maxTail);
  }

  private settle(xmin: number): void {
    if (!this.mark || xmin < this.mark.next) return;
    this.settled = Math.max(this.settled, this.mark.cursor);
    this.mark = undefined;
  }

  /** A writer gets its transaction id before its cursors, so every transaction that may fill the gap has a lower id than ours. */
  private async markGap(cursor: number): Promise<void> {
    if (this.mark) return;
    const { rows } = await this.pool.query('SELECT pg_current_xact_id()::text::bigint AS next');
    this.mark = { cursor, next: (rows[0] as { next: number }).next };
  }

  private async page(after: number, limit: number): Promise<{ rows: EventRow[]; xmin: number }> {
    // One statement uses one snapshot, so the rows and the oldest running transaction are consistent.
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
