// The connection from a relay to the server of its home: the private socket, which no other user can listen on. The
// server records its path. A missing record or a refused connection means that the server is away.
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { systemClock } from '../../../runtime/clock.ts';

export interface Reply {
  status: number;
  body: Buffer;
}

interface Call {
  method: 'GET' | 'POST';
  path: string;
  body?: Buffer;
  signal?: AbortSignal;
}

/** Interval of checks for a server that is away. */
const lookMs = 500;
/** Longer than any long poll of the server. */
const replyTimeoutMs = 120_000;

export class Upstream {
  private readonly home: string;
  private readonly key: string;
  private readonly agent = new Agent({ keepAlive: true });
  private open = 0;
  private heardAt = systemClock.now();
  /** The check that all waiting calls share. */
  private looking: Promise<boolean> | undefined;

  constructor({ home, key }: { home: string; key: string }) {
    this.home = home;
    this.key = key;
  }

  /** Time since the last contact with the server. An open request counts as contact. */
  silentMs(): number {
    return this.open > 0 ? 0 : systemClock.now() - this.heardAt;
  }

  /** Rejects if there is no response: the server is away, or exited in the meantime. */
  async call(call: Call): Promise<Reply> {
    const socketPath = this.socketPath();
    let isOpen = false;
    const opened = () => {
      isOpen = true;
      this.open += 1;
    };
    try {
      return await this.send(call, socketPath, opened);
    } finally {
      // A broken connection counts as contact until now.
      if (isOpen) this.heardAt = systemClock.now();
      if (isOpen) this.open -= 1;
    }
  }

  /** Resolves to true when the server responds, to false when the signal aborts first. */
  async waitUntilReachable(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (await this.isReachable()) return true;
      await systemClock.sleep(lookMs, signal);
    }
    return false;
  }

  isReachable(): Promise<boolean> {
    return (this.looking ??= this.look().finally(() => (this.looking = undefined)));
  }

  private async look(): Promise<boolean> {
    try {
      return (await this.call({ method: 'GET', path: '/health' })).status === 200;
    } catch {
      return false;
    }
  }

  private socketPath(): string {
    return readFileSync(join(this.home, 'server.socket'), 'utf8').split('\n')[0]!;
  }

  private send(
    { method, path, body, signal }: Call,
    socketPath: string,
    opened: () => void,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'content-length': body.length };
      const call = request({
        socketPath,
        path,
        method,
        agent: this.agent,
        timeout: replyTimeoutMs,
        headers: { authorization: this.key, ...length },
        ...(signal ? { signal } : {}),
      });
      call.on('socket', (socket) => {
        if (socket.connecting) socket.once('connect', opened);
        else opened();
      });
      call.on('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }),
        );
      });
      call.on('timeout', () => call.destroy(new Error('no response in time')));
      call.on('error', reject);
      call.end(body);
    });
  }
}
