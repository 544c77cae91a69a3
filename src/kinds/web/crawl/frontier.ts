// Which address next: hosts in turn, each at its own pace, each host's addresses in order of depth. Holds a few
// addresses per host in memory; the rest stays in the store, so that a million waiting ones cost nothing.
import type { Clock } from '../../../runtime/clock.ts';
import type { Manners, Pacer } from '../fetch/pacer.ts';
import type { HostRow, Waiting } from './rows.ts';
import type { WebStore } from '../store.ts';

export interface FrontierOptions {
  store: WebStore;
  crawl: number;
  clock: Clock;
  pacer: Pacer;
  manners(host: string): Manners;
  /** Depth by depth: no page is fetched before all of lesser depth are. Then depths are exact. */
  levels: boolean;
}

export type Next =
  | { row: Waiting }
  /** Nothing may start now; look again after this (Infinity: when a request ends). */
  | { waitMs: number }
  /** Nothing waits at all. */
  | 'empty';

const bufferRows = 64;
const hostsAtOnce = 200;

interface HostBuffer {
  rows: Waiting[];
  /** Not asked before: a rest the host wanted. */
  readyAt: number;
  held: number;
}

export class Frontier {
  private readonly options: FrontierOptions;
  private readonly hosts = new Map<string, HostBuffer>();
  private readonly held = new Map<number, Waiting>();
  private stale = true;
  private emptyUntil = 0;
  /** The only depth that may be asked now, with `levels`: all of lesser depth have their fate. */
  private level: number | undefined;

  constructor(options: FrontierOptions) {
    this.options = options;
  }

  /** The store has new waiting rows. */
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
    if (!this.stale && now < this.emptyUntil) return this.idleAnswer(first.waitMs);
    await this.refill();
    const second = this.fromBuffers(accept);
    return 'row' in second ? second : this.idleAnswer(second.waitMs);
  }

  /** Its result is written. */
  done(row: Waiting): void {
    if (!this.held.delete(row.seq)) return;
    const buffer = this.hosts.get(row.host);
    if (!buffer) return;
    buffer.held--;
    if (buffer.held === 0 && buffer.rows.length === 0) this.stale = true;
  }

  private idleAnswer(waitMs: number): Next {
    const waiting = [...this.hosts.values()].some(({ rows }) => rows.length > 0);
    const wake = Math.min(waitMs, this.emptyUntil - this.options.clock.now());
    if (!waiting && this.held.size === 0 && this.emptyUntil === Infinity) return 'empty';
    return { waitMs: Math.max(1, wake) };
  }

  private fromBuffers(accept: (row: Waiting) => boolean): { row: Waiting } | { waitMs: number } {
    const { clock, pacer, manners } = this.options;
    const now = clock.now();
    let waitMs = Infinity;
    for (const [host, buffer] of this.hosts) {
      const index = buffer.rows.findIndex(accept);
      if (index === -1) continue;
      if (buffer.readyAt > now) {
        waitMs = Math.min(waitMs, buffer.readyAt - now);
        continue;
      }
      const pause = pacer.take(host, manners(host));
      if (pause > 0) {
        waitMs = Math.min(waitMs, pause);
        continue;
      }
      const [row] = buffer.rows.splice(index, 1);
      buffer.held++;
      this.held.set(row!.seq, row!);
      if (buffer.rows.length === 0) this.stale = true;
      // To the end of the line: every host gets its turn.
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
    for (const row of await store.readyHosts(crawl, now, hostsAtOnce, this.level))
      await this.fill(row, now);
    this.emptyUntil = Math.min(this.emptyUntil, (await store.nextHostAt(crawl, now)) ?? Infinity);
  }

  private async findLevel(): Promise<void> {
    const { store, crawl } = this.options;
    this.level = await store.leastDepth(crawl);
    // A page that was given up for another one and is asked after all may stand above the rest.
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
        : await store.nextAt(crawl, host, this.level, now, limit);
    buffer.rows.push(...rows.filter(({ seq }) => !this.held.has(seq) && !mine.has(seq)));
    if (buffer.rows.length > 0 || buffer.held > 0) return;
    const at = await store.nextUrlAt(crawl, host, this.level);
    if (at !== undefined) this.emptyUntil = Math.min(this.emptyUntil, Math.max(at, now + 1));
  }
}
