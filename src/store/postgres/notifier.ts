// Wakes other nodes with a NOTIFY after a commit: outside the transaction and coalesced, because a NOTIFY inside it would
// serialize all commits of the cluster. A poll covers lost notifications.
import type { Client, Notification, Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';
import { randomBytes } from 'node:crypto';
import { StoreListeners } from '../listeners.ts';
import { connectionOptions, type Address, type Pg } from './open.ts';

interface NotifierOptions {
  pg: Pg;
  pool: Pool;
  address: Address;
  clock: Clock;
  /** Queues and events are polled at this interval, even without notifications. */
  pollMs: number;
}

/** Minimum time between two notifications: if a queue has work, and if only events were added. */
const coalesceMs = 5;
const eventsOnlyMs = 25;
const checkMs = 10_000;
const maxReconnectMs = 5000;
/** NOTIFY accepts 8000 bytes. Queues that do not fit are found by polling. */
const maxPayloadBytes = 7000;

export class Notifier {
  private readonly options: NotifierOptions;
  private readonly channel: string;
  private readonly self = randomBytes(6).toString('hex');
  readonly listeners = new StoreListeners();
  private readonly queues = new Set<string>();
  private readonly closing = new AbortController();
  private client: Client | undefined;
  private notifiedAt = 0;
  private scheduled: { urgent: boolean; cancel(): void } | undefined;
  /** Consecutive claims that found only entries held by others, and whether another look is scheduled. */
  private misses = 0;
  private lookScheduled = false;
  private cancelPoll: () => void = () => {};
  private cancelCheck: () => void = () => {};

  constructor(options: NotifierOptions) {
    this.options = options;
    this.channel = `${options.address.schema}_wake`;
  }

  async start(): Promise<void> {
    await this.listen();
    this.poll();
  }

  async stop(): Promise<void> {
    this.closing.abort();
    this.cancelPoll();
    this.cancelCheck();
    await this.client?.end().catch(() => {});
  }

  /** Call after a commit: notifies local listeners immediately and other nodes shortly after. */
  committed(queues: Iterable<string>): void {
    const fresh = [...queues];
    for (const queue of fresh) this.queues.add(queue);
    this.emit(fresh);
    if (this.closing.signal.aborted) return;
    const urgent = fresh.length > 0;
    if (this.scheduled && (this.scheduled.urgent || !urgent)) return;
    this.scheduled?.cancel();
    const { clock } = this.options;
    // The first notification after a quiet time leaves immediately; later ones are coalesced.
    const waitMs = this.notifiedAt + (urgent ? coalesceMs : eventsOnlyMs) - clock.now();
    const cancel = clock.after(Math.max(0, waitMs), () => void this.notify());
    this.scheduled = { urgent, cancel };
  }

  /** Notifies local listeners shortly, because a reader stopped at a running transaction. */
  emitSoon(): void {
    if (this.closing.signal.aborted) return;
    this.options.clock.after(2 * coalesceMs, () => this.emit([]));
  }

  /**
   * Call when another node held the entries during a claim. Nodes that take turns skipping a job would keep it from the
   * node that can run it, so that node looks again soon, with exponential backoff and jitter.
   */
  contested(queues: readonly string[]): void {
    if (queues.length === 0) {
      this.misses = 0;
      return;
    }
    if (this.lookScheduled || this.closing.signal.aborted) return;
    const { clock, pollMs } = this.options;
    const waitMs = Math.min(coalesceMs * 2 ** this.misses, pollMs);
    this.misses += 1;
    this.lookScheduled = true;
    clock.after(waitMs * (0.5 + Math.random()), () => {
      this.lookScheduled = false;
      this.emit(queues);
    });
  }

  private emit(queues: readonly string[]): void {
    if (!this.closing.signal.aborted) this.listeners.notify(queues);
  }

  private async notify(): Promise<void> {
    this.scheduled = undefined;
    this.notifiedAt = this.options.clock.now();
    if (this.closing.signal.aborted || !this.client) return;
    const lines = [this.self];
    let bytes = this.self.length;
    for (const queue of this.queues) {
      bytes += Buffer.byteLength(queue) + 1;
      if (bytes > maxPayloadBytes) break;
      lines.push(queue);
    }
    this.queues.clear();
    try {
      await this.client.query('SELECT pg_notify($1, $2)', [this.channel, lines.join('\n')]);
    } catch {
      // The other nodes find it by polling. This connection is being replaced.
    }
  }

  /** One connection serves LISTEN and NOTIFY. When it breaks, it is replaced and everything is checked once. */
  private async listen(): Promise<void> {
    const { pg, address } = this.options;
    const options = { ...connectionOptions(pg, address), pipeline: true };
    const client = new pg.Client(options);
    client.on('notification', (message) => this.onNotification(message));
    client.on('error', () => {});
    // Only the connection in use is replaced when it ends. The reconnect loop handles one that never connected: a
    // second loop for each of them would soon open hundreds of connections.
    client.once('end', () => {
      if (this.client !== client) return;
      this.client = undefined;
      this.cancelCheck();
      if (!this.closing.signal.aborted) void this.reconnect();
    });
    try {
      await client.connect();
      // A notification needs no fsync, because it means nothing after a crash.
      await client.query('SET synchronous_commit = off');
      await client.query(`LISTEN ${this.channel}`);
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
    if (this.closing.signal.aborted) {
      await client.end().catch(() => {});
      return;
    }
    this.client = client;
    this.check(client);
  }

  private async reconnect(): Promise<void> {
    const { clock } = this.options;
    for (
      let waitMs = 100;
      !this.closing.signal.aborted;
      waitMs = Math.min(waitMs * 2, maxReconnectMs)
    ) {
      await clock.sleep(waitMs, this.closing.signal);
      if (this.closing.signal.aborted) return;
      try {
        await this.listen();
        this.emit(['']);
        return;
      } catch {
        // Still unreachable.
      }
    }
  }

  /** A dead peer does not close the connection, so query it from time to time. */
  private check(client: Client): void {
    this.cancelCheck = this.options.clock.after(checkMs, () => {
      client
        .query('SELECT 1')
        .then(() => this.check(client))
        .catch(() => client.end().catch(() => {}));
    });
  }

  private onNotification({ payload }: Notification): void {
    const [sender, ...queues] = (payload ?? '').split('\n');
    if (sender !== this.self) this.emit(queues);
  }

  private poll(): void {
    const { clock, pollMs } = this.options;
    this.cancelPoll = clock.after(pollMs, () => {
      this.emit([]);
      this.poll();
    });
  }
}
