// Who holds the connections over TCP. A connection belongs to the address it came from until a request on it brings a key;
// then it belongs to that key. No holder can take the room of the others.
import type { Socket } from 'node:net';
import { AppError } from '../../errors.ts';
import type { HttpLimits } from './settings.ts';

export type ConnectionLimits = Pick<
  HttpLimits,
  'connectionsMax' | 'keyConnectionsMax' | 'addressConnectionsMax'
>;

/** Beyond connectionsMax, so that /health and refusals are still answered. */
const reserveMax = 64;

interface Held {
  holder: string;
  /** Requests that are under way on it. */
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
    // A client that sends a request is soon counted for its key: those that wait longest make room.
    if (this.group(holder).size > this.limits.addressConnectionsMax) this.evictOldest(holder);
    if (this.held.size > this.limits.connectionsMax) this.makeRoom(socket);
  }

  /** Counts a request of this key on the connection; throws when the key holds too many connections. */
  attribute(socket: Socket, key: string): void {
    const held = this.held.get(socket);
    const holder = `key ${key}`;
    if (!held || held.holder === holder) return;
    const max = this.limits.keyConnectionsMax;
    if (this.group(holder).size >= max)
      throw new AppError('limitExceeded', `This key has ${max} open connections already.`, {
        hint: 'Reuse connections, or close some; the setting `http.keyConnectionsMax` is the limit.',
        data: { limit: 'http.keyConnectionsMax', retryAfterMs: 1000 },
      });
    this.leave(socket, held.holder);
    held.holder = holder;
    this.group(holder).add(socket);
  }

  /** Marks a request under way; the answer marks its end. */
  begin(socket: Socket): () => void {
    const held = this.held.get(socket);
    if (!held) return () => {};
    held.active += 1;
    return () => (held.active -= 1);
  }

  /** All regular room is taken: only /health is answered here. */
  isFull(): boolean {
    return this.held.size > this.limits.connectionsMax;
  }

  /** An idle connection of whoever holds most gives way; without one, the newest uses the reserve. */
  private makeRoom(newest: Socket): void {
    const groups = [...this.byHolder.values()].toSorted((a, b) => b.size - a.size);
    for (const group of groups)
      for (const socket of group)
        if (socket !== newest && this.held.get(socket)?.active === 0) return void socket.destroy();
    if (this.held.size > this.limits.connectionsMax + reserveMax) newest.destroy();
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
