// How the nodes wake each other: a NOTIFY after the commit, outside its transaction and at most one per moment (a NOTIFY
// inside would make all commits of the cluster wait in one line), and a poll as the floor when one gets lost.
import type { Client, Notification, Pool } from 'pg';
import type { Clock } from '../../runtime/clock.ts';
import { randomBytes } from 'node:crypto';
import { StoreListeners } from '../listeners.ts';
import { connectionOptions, type Address, type Pg } from './open.ts';

export interface WakeOptions {
  pg: Pg;
  pool: Pool;
  address: Address;
  clock: Clock;
  /** Without any notification the queues and the log are looked at this often. */
  pollMs: number;
}

/** Least time between two notifications: when work waits for somebody, and when there is only news. */
const coalesceMs = 5;
const newsMs = 25;
const checkMs = 10_000;
const reconnectMsMax = 5000;
/** NOTIFY takes 8000 bytes; more queues than fit are found by the poll of their nodes. */
const payloadBytesMax = 7000;

export class Wake {
  private readonly options: WakeOptions;
  private readonly channel: string;
  private readonly self = randomBytes(6).toString('hex');
  readonly listeners = new StoreListeners();
  private readonly queues = new Set<string>();
  private readonly closing = new AbortController();
  private client: Client | undefined;
  private toldAt = 0;
  private telling: { soon: boolean; cancel(): void } | undefined;
  /** Claims in a row that met only what others held, and whether another is planned already. */
  private misses = 0;
  private looking = false;
  private cancelPoll: () => void = () => {};
  private cancelCheck: () => void = () => {};

  constructor(options: WakeOptions) {
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

  /** After a commit of ours: here at once, elsewhere a moment later. */
  committed(queues: Iterable<string>): void {
    const fresh = [...queues];
    for (const queue of fresh) this.queues.add(queue);
    this.emit(fresh);
    if (this.closing.signal.aborted) return;
    const soon = fresh.length > 0;
    if (this.telling && (this.telling.soon || !soon)) return;
    this.telling?.cancel();
    const { clock } = this.options;
    // The first after a quiet time goes at once; those that follow share one.
    const waitMs = this.toldAt + (soon ? coalesceMs : newsMs) - clock.now();
    const cancel = clock.after(Math.max(0, waitMs), () => void this.tell());
    this.telling = { soon, cancel };
  }

  /** Look again in a moment: a reader stands before a commit under way. */
  again(): void {
    if (this.closing.signal.aborted) return;
    this.options.clock.after(2 * coalesceMs, () => this.emit([]));
  }

  /**
   * Another node held what there was while we looked. Nodes that take turns at refusing a job would keep it from the one
   * that may have it, so that one looks again soon, a little later each time, and at no fixed moment.
   */
  contested(queues: readonly string[]): void {
    if (queues.length === 0) {
      this.misses = 0;
      return;
    }
    if (this.looking || this.closing.signal.aborted) return;
    const { clock, pollMs } = this.options;
    const waitMs = Math.min(coalesceMs * 2 ** this.misses, pollMs);
    this.misses += 1;
    this.looking = true;
    clock.after(waitMs * (0.5 + Math.random()), () => {
      this.looking = false;
      this.emit(queues);
    });
  }

  private emit(queues: readonly string[]): void {
    if (!this.closing.signal.aborted) this.listeners.tell(queues);
  }

  private async tell(): Promise<void> {
    this.telling = undefined;
    this.toldAt = this.options.clock.now();
    if (this.closing.signal.aborted || !this.client) return;
    const lines = [this.self];
    let bytes = this.self.length;
    for (const queue of this.queues) {
      bytes += Buffer.byteLength(queue) + 1;
      if (bytes > payloadBytesMax) break;
      lines.push(queue);
    }
    this.queues.clear();
    try {
      await this.client.query('SELECT pg_notify($1, $2)', [this.channel, lines.join('\n')]);
    } catch {
      // The others find it with their poll; our connection is being replaced.
    }
  }

  /** One connection for LISTEN and NOTIFY; when it breaks it is replaced, and everything is looked at once. */
  private async listen(): Promise<void> {
    const { pg, address } = this.options;
    const options = { ...connectionOptions(pg, address), pipeline: true };
    const client = new pg.Client(options);
    client.on('notification', (message) => this.heard(message));
    client.on('error', () => {});
    // Only the connection in use is replaced when it ends: one that never came up is the reconnecting loop's business,
    // and a second loop for each of them would soon be hundreds of connections.
    client.once('end', () => {
      if (this.client !== client) return;
      this.client = undefined;
      this.cancelCheck();
      if (!this.closing.signal.aborted) void this.reconnect();
    });
    try {
      await client.connect();
      // A notification needs no fsync: it means nothing after a crash.
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
      waitMs = Math.min(waitMs * 2, reconnectMsMax)
    ) {
      await clock.sleep(waitMs, this.closing.signal);
      if (this.closing.signal.aborted) return;
      try {
        await this.listen();
        this.emit(['']);
        return;
      } catch {
        // still away
      }
    }
  }

  /** A dead peer does not close the connection: ask it something from time to time. */
  private check(client: Client): void {
    this.cancelCheck = this.options.clock.after(checkMs, () => {
      client
        .query('SELECT 1')
        .then(() => this.check(client))
        .catch(() => client.end().catch(() => {}));
    });
  }

  private heard({ payload }: Notification): void {
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
