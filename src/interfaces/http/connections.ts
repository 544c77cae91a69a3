// Counts TCP connections per holder. A connection belongs to its remote address until a request on it carries a key;
// then it belongs to that key. No holder can use up the connections of the others.
import type { Socket } from 'node:net';
import { AppError } from '../../errors.ts';
import type { HttpLimits } from './settings.ts';

type ConnectionLimits = Pick<
  HttpLimits,
  'maxConnections' | 'maxKeyConnections' | 'maxAddressConnections'
>;

/** Extra connections beyond maxConnections, so that /health and rejections still get a response. */
const reservedConnections = 64;

interface Held {
  holder: string;
  /** Requests in progress. */
  active: number;
}

export class Connections {
  private readonly limits: ConnectionLimits;
  private readonly held = new Map<Socket, Held>();
  /** Oldest first. */
  private readonly byHolder = new Map<string, Set<Socket>>();

  constructor(limits: ConnectionLimits) {
    this.limits = limits;
  }

  add(socket: Socket): void {
    const holder = `address ${socket.remoteAddress ?? ''}`;
    this.held.set(socket, { holder, active: 0 });
    this.group(holder).add(socket);
    socket.once('close', () => this.remove(socket));
    // A client that sends a key is soon counted under that key, so the oldest connections are the ones to close.
    if (this.group(holder).size > this.limits.maxAddressConnections) this.evictOldest(holder);
    if (this.held.size > this.limits.maxConnections) this.makeRoom(socket);
  }

  /** Assigns the connection to a key; throws when the key has too many connections. */
  attribute(socket: Socket, key: string): void {
    const held = this.held.get(socket);
    const holder = `key ${key}`;
    if (!held || held.holder === holder) return;
    const max = this.limits.maxKeyConnections;
    if (this.group(holder).size >= max)
      throw new AppError('limitExceeded', `This key already has ${max} open connections.`, {
        hint: 'Reuse connections or close some. The limit is the setting `http.maxKeyConnections`.',
        data: { limit: 'http.maxKeyConnections', retryAfterMs: 1000 },
      });
    this.leave(socket, held.holder);
    held.holder = holder;
    this.group(holder).add(socket);
  }

  /** Marks a request as in progress; call the returned function when it ends. */
  begin(socket: Socket): () => void {
    const held = this.held.get(socket);
    if (!held) return () => {};
    held.active += 1;
    return () => (held.active -= 1);
  }

  /** All regular connections are in use. A connection from the reserve only serves /health. */
  isFull(): boolean {
    return this.held.size > this.limits.maxConnections;
  }

  /** Closes an idle connection of the holder with the most connections. If none is idle, the newest one uses the reserve. */
  private makeRoom(newest: Socket): void {
    const groups = [...this.byHolder.values()].toSorted((a, b) => b.size - a.size);
    for (const group of groups)
      for (const socket of group)
        if (socket !== newest && this.held.get(socket)?.active === 0) return void socket.destroy();
    if (this.held.size > this.limits.maxConnections + reservedConnections) newest.destroy();
  }

  private evictOldest(holder: string): void {
    const group = this.group(holder);
    const idle = [...group].find((socket) => this.held.get(socket)?.active === 0);
    const [oldest] = group;
    (idle ?? oldest)?.destroy();
  }

  private remove(socket: Socket): void {
    const held = this.held.get(socket);
    if (held) this.leave(socket, held.holder);
    this.held.delete(socket);
  }

  private leave(socket: Socket, holder: string): void {
    const group = this.byHolder.get(holder);
    group?.delete(socket);
    if (group?.size === 0) this.byHolder.delete(holder);
  }

  private group(holder: string): Set<Socket> {
    let group = this.byHolder.get(holder);
    if (!group) this.byHolder.set(holder, (group = new Set()));
    return group;
  }
}
