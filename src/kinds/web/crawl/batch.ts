// What one command of a crawl will do, gathered while results are decided.
import type { Step } from '../../../store/store.ts';
import type { Candidate } from './discovery.ts';

export class Batch {
  readonly steps: Step[] = [];
  readonly counts = new Map<string, number>();
  readonly queued = new Map<string, number>();
  readonly fresh = new Map<string, Candidate>();
  readonly texts = new Map<string, string>();
  /** Pages that step back in this command, by the address they step back for. */
  readonly aliases = new Map<string, { seq: number; host: string }[]>();
  /** Rows that redirect in this command, by where to. */
  readonly redirected = new Map<string, { seq: number; host: string }[]>();
  /** Rows that were sent away and back, and wait again: their hosts. */
  readonly sentAway = new Map<number, string>();
  readonly spent = { calls: 0, credits: 0, pages: 0, bytes: 0, browserMs: 0 };

  count(name: string, delta: number): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + delta);
  }

  wait(host: string, delta: number): void {
    this.queued.set(host, (this.queued.get(host) ?? 0) + delta);
    this.count('queued', delta);
  }
}
