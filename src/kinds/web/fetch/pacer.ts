// Limits the request rate per host across all crawls and calls of this server: concurrency and delay between requests.
// Hosts on this machine and in private networks are not limited.
import ipaddr from 'ipaddr.js';
import type { Clock } from '../../../runtime/clock.ts';

export interface Pace {
  delayMs: number;
  concurrency: number;
}

interface Turn {
  running: number;
  nextAt: number;
}

const ownConcurrency = 100;
const maxIdleHosts = 20_000;
/** Polling interval, because another caller may get the turn first. */
const lookMs = 100;

export class Pacer {
  private readonly clock: Clock;
  private readonly hosts = new Map<string, Turn>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Returns 0 and counts a request as started, or the ms to wait (Infinity: until a request ends). */
  take(host: string, pace: Pace): number {
    const turn = this.turnOf(host);
    const wait = this.wait(turn, pace);
    if (wait > 0) return wait;
    turn.running++;
    turn.nextAt = this.clock.now() + pace.delayMs;
    return 0;
  }

  /** Delays further requests: the running one started before the host's Crawl-delay was known. */
  delay(host: string, delayMs: number): void {
    const turn = this.turnOf(host);
    turn.nextAt = Math.max(turn.nextAt, this.clock.now() + delayMs);
  }

  /** Runs one request to the host when it is its turn. */
  async turn<T>(
    host: string,
    pace: () => Pace,
    signal: AbortSignal,
    ask: () => Promise<T>,
  ): Promise<T> {
    for (let wait = this.take(host, pace()); wait > 0; wait = this.take(host, pace())) {
      await this.clock.sleep(Math.min(wait, lookMs), signal);
      signal.throwIfAborted();
    }
    try {
      return await ask();
    } finally {
      this.release(host);
    }
  }

  /** Waits before another request within the same turn, and delays the next turn accordingly. */
  async waitWithinTurn(host: string, { delayMs }: Pace, signal: AbortSignal): Promise<void> {
    if (delayMs === 0) return;
    this.delay(host, 2 * delayMs);
    await this.clock.sleep(delayMs, signal);
  }

  release(host: string): void {
    const turn = this.hosts.get(host);
    if (turn) turn.running = Math.max(0, turn.running - 1);
  }

  private wait(turn: Turn, pace: Pace): number {
    if (turn.running >= pace.concurrency) return Infinity;
    return Math.max(0, turn.nextAt - this.clock.now());
  }

  private turnOf(host: string): Turn {
    let turn = this.hosts.get(host);
    if (!turn) {
      if (this.hosts.size >= maxIdleHosts) this.forgetIdle();
      turn = { running: 0, nextAt: 0 };
      this.hosts.set(host, turn);
    }
    return turn;
  }

  private forgetIdle(): void {
    const now = this.clock.now();
    for (const [host, turn] of this.hosts)
      if (turn.running === 0 && turn.nextAt < now) this.hosts.delete(host);
  }
}

/** The request rate for single pages. */
export function hostPace(
  host: string,
  settings: { delayMs: number; hostConcurrency: number },
): Pace {
  return isOwnHost(host)
    ? { delayMs: 0, concurrency: ownConcurrency }
    : { delayMs: settings.delayMs, concurrency: settings.hostConcurrency };
}

/** Whether a host is on this machine or in a private network, judged by name only. */
export function isOwnHost(host: string): boolean {
  const name = host
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return ipaddr.isValid(name) && ipaddr.process(name).range() !== 'unicast';
}
