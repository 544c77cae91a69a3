// Manners per host, shared by every crawl and call of this server: how many requests at once and how long between them.
// Hosts of this machine and private networks are the user's own and are not slowed down.
import ipaddr from 'ipaddr.js';
import type { Clock } from '../../../runtime/clock.ts';

export interface Manners {
  delayMs: number;
  concurrency: number;
}

interface Turn {
  running: number;
  nextAt: number;
}

const ownConcurrency = 100;
const idleHostsMax = 20_000;
/** Somebody else may have the turn first. */
const lookMs = 100;

export class Pacer {
  private readonly clock: Clock;
  private readonly hosts = new Map<string, Turn>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** 0: a request to the host may start now, and counts as started; else ms to wait (Infinity: until one ends). */
  take(host: string, manners: Manners): number {
    const turn = this.turnOf(host);
    const wait = this.wait(turn, manners);
    if (wait > 0) return wait;
    turn.running++;
    turn.nextAt = this.clock.now() + manners.delayMs;
    return 0;
  }

  /** No further request for so long: the one under way was let through before its host's wish was known. */
  hold(host: string, delayMs: number): void {
    const turn = this.turnOf(host);
    turn.nextAt = Math.max(turn.nextAt, this.clock.now() + delayMs);
  }

  /** One request to the host, when it is its turn. */
  async turn<T>(
    host: string,
    manners: () => Manners,
    signal: AbortSignal,
    ask: () => Promise<T>,
  ): Promise<T> {
    for (let wait = this.take(host, manners()); wait > 0; wait = this.take(host, manners())) {
      await this.clock.sleep(Math.min(wait, lookMs), signal);
      signal.throwIfAborted();
    }
    try {
      return await ask();
    } finally {
      this.release(host);
    }
  }

  /** One more request within a turn: as long after the one before as any other, and as long before the next. */
  async again(host: string, { delayMs }: Manners, signal: AbortSignal): Promise<void> {
    if (delayMs === 0) return;
    this.hold(host, 2 * delayMs);
    await this.clock.sleep(delayMs, signal);
  }

  release(host: string): void {
    const turn = this.hosts.get(host);
    if (turn) turn.running = Math.max(0, turn.running - 1);
  }

  private wait(turn: Turn, manners: Manners): number {
    if (turn.running >= manners.concurrency) return Infinity;
    return Math.max(0, turn.nextAt - this.clock.now());
  }

  private turnOf(host: string): Turn {
    let turn = this.hosts.get(host);
    if (!turn) {
      if (this.hosts.size >= idleHostsMax) this.forgetIdle();
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

/** How a host is asked for single pages. */
export function hostManners(
  host: string,
  settings: { delayMs: number; hostConcurrency: number },
): Manners {
  return isOwnHost(host)
    ? { delayMs: 0, concurrency: ownConcurrency }
    : { delayMs: settings.delayMs, concurrency: settings.hostConcurrency };
}

/** This machine or a private network, by its name alone. */
export function isOwnHost(host: string): boolean {
  const name = host
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return ipaddr.isValid(name) && ipaddr.process(name).range() !== 'unicast';
}
