// Collects the statements, counter changes and spending of one crawl transaction while results are processed.
import type { Step } from '../../../../store/store.ts';
import type { Candidate } from '../frontier/discovery.ts';

export class Batch {
  readonly steps: Step[] = [];
  readonly counts = new Map<string, number>();
  readonly queued = new Map<string, number>();
  readonly fresh = new Map<string, Candidate>();
  readonly texts = new Map<string, string>();
  /** Pages recorded as duplicates in this transaction, by their canonical URL. */
  readonly aliases = new Map<string, { seq: number; host: string }[]>();
  /** Rows that redirect in this transaction, by target URL. */
  readonly redirected = new Map<string, { seq: number; host: string }[]>();
  /** Hosts of rows whose redirect led back to them. They are queued again. */
  readonly redirectedBack = new Map<number, string>();
  readonly spent = { calls: 0, credits: 0, pages: 0, bytes: 0, browserMs: 0 };

  count(name: string, delta: number): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + delta);
  }

  wait(host: string, delta: number): void {
    this.queued.set(host, (this.queued.get(host) ?? 0) + delta);
    this.count('queued', delta);
  }
}
