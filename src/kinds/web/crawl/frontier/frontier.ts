// Chooses the next URL: hosts take turns, each at its own pace, and each host's URLs are ordered by depth. Only a few URLs
// per host are in memory. The rest stays in the store, so millions of queued URLs cost no memory.
import type { Clock } from '../../../../runtime/clock.ts';
import type { Pace, Pacer } from '../../fetch/pacer.ts';
import type { HostRow, Waiting } from '../../store/rows.ts';
import type { WebStore } from '../../store/crawls.ts';

interface FrontierOptions {
  store: WebStore;
  crawl: number;
  clock: Clock;
  pacer: Pacer;
  pace(host: string): Pace;
  /** Breadth first: all pages of one depth are fetched before the next depth. This makes depths exact. */
  levels: boolean;
}

type Next =
  | { row: Waiting }
  /** Nothing may start now. Try again after this time (Infinity: when a request ends). */
  | { waitMs: number }
  /** The queue is empty. */
  | 'empty';

const bufferRows = 64;
const hostsPerRefill = 200;

interface HostBuffer {
  rows: Waiting[];
  /** No request before this time: the host asked for a pause. */
  readyAt: number;
  held: number;
}

export class Frontier {
  private readonly options: FrontierOptions;
  private readonly hosts = new Map<string, HostBuffer>();
  private readonly held = new Map<number, Waiting>();
  private stale = true;
  private emptyUntil = 0;
  /** With `levels`: the only depth that may be fetched now. All URLs of lesser depth have their outcome. */
  private level: number | undefined;

  constructor(options: FrontierOptions) {
    this.options = options;
  }

  /** The store has new queued rows. */
  touch(): void {
    this.stale = true;
  }

  rest(host: string, until: number): void {
    const buffer = this.hosts.get(host);
    if (buffer) buffer.readyAt = Math.max(buffer.readyAt, until);
  }

  async next(accept: (row: Waiting) => boolean): Promise<Next> {
    const first = this.fromBuffers(accept);
    if ('row' in first) return first;
    const now = this.options.clock.now();
    if (!this.stale && now < this.emptyUntil) return this.idleResult(first.waitMs);
    await this.refill();
    const second = this.fromBuffers(accept);
    return 'row' in second ? second : this.idleResult(second.waitMs);
  }

  /** The result of this row is stored. */
  done(row: Waiting): void {
    if (!this.held.delete(row.seq)) return;
    const buffer = this.hosts.get(row.host);
    if (!buffer) return;
    buffer.held--;
    if (buffer.held === 0 && buffer.rows.length === 0) this.stale = true;
  }

  private idleResult(waitMs: number): Next {
    const waiting = [...this.hosts.values()].some(({ rows }) => rows.length > 0);
    const wake = Math.min(waitMs, this.emptyUntil - this.options.clock.now());
    if (!waiting && this.held.size === 0 && this.emptyUntil === Infinity) return 'empty';
    return { waitMs: Math.max(1, wake) };
  }

  private fromBuffers(accept: (row: Waiting) => boolean): { row: Waiting } | { waitMs: number } {
    const { clock, pacer, pace } = this.options;
    const now = clock.now();
    let waitMs = Infinity;
    for (const [host, buffer] of this.hosts) {
      const index = buffer.rows.findIndex(accept);
      if (index === -1) continue;
      if (buffer.readyAt > now) {
        waitMs = Math.min(waitMs, buffer.readyAt - now);
        continue;
      }
      const pause = pacer.take(host, pace(host));
      if (pause > 0) {
        waitMs = Math.min(waitMs, pause);
        continue;
      }
      const [row] = buffer.rows.splice(index, 1);
      buffer.held++;
      this.held.set(row!.seq, row!);
      if (buffer.rows.length === 0) this.stale = true;
      // Moves the host to the end, so that every host gets its turn.
      this.hosts.delete(host);
      this.hosts.set(host, buffer);
      return { row: row! };
    }
    return { waitMs };
  }

  private async refill(): Promise<void> {
    const { store, crawl, clock } = this.options;
    this.stale = false;
    const now = clock.now();
    this.emptyUntil = Infinity;
    if (this.options.levels) await this.findLevel();
    for (const [host, { rows, held }] of this.hosts)
      if (rows.length === 0 && held === 0) this.hosts.delete(host);
    for (const row of await store.readyHosts(crawl, now, hostsPerRefill, this.level))
      await this.fill(row, now);
    this.emptyUntil = Math.min(this.emptyUntil, (await store.nextHostAt(crawl, now)) ?? Infinity);
  }

  private async findLevel(): Promise<void> {
    const { store, crawl } = this.options;
    this.level = await store.leastDepth(crawl);
    // A former duplicate that is queued again may have a lesser depth than the buffered rows.
    for (const buffer of this.hosts.values())
      buffer.rows = buffer.rows.filter(({ depth }) => depth === this.level);
  }

  private async fill({ host, readyAt }: HostRow, now: number): Promise<void> {
    const { store, crawl } = this.options;
    const buffer = this.hosts.get(host) ?? { rows: [], readyAt, held: 0 };
    this.hosts.set(host, buffer);
    if (buffer.rows.length >= bufferRows / 4) return;
    const mine = new Set(buffer.rows.map(({ seq }) => seq));
    const limit = bufferRows + buffer.held + mine.size;
    const rows =
      this.level === undefined
        ? await store.next(crawl, host, now, limit)
        : await store.nextAt(crawl, { host, depth: this.level }, now, limit);
    buffer.rows.push(...rows.filter(({ seq }) => !this.held.has(seq) && !mine.has(seq)));
    if (buffer.rows.length > 0 || buffer.held > 0) return;
    const at = await store.nextUrlAt(crawl, host, this.level);
    if (at !== undefined) this.emptyUntil = Math.min(this.emptyUntil, Math.max(at, now + 1));
  }
}
