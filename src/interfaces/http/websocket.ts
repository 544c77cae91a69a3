// The server side of a send-only WebSocket (RFC 6455): each item becomes one JSON message. When the items end, the socket is
// closed with their return value as the reason. Client messages are ignored, except close and ping.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const opcodes = { text: 1, close: 8, ping: 9, pong: 10 };
const closeCodes = { done: 1000, goingAway: 1001, tooLong: 1009 };
/** Clients only send control frames, which are shorter than this. */
const maxIncomingBytes = 4096;

export const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['sec-websocket-version'] === '13' &&
  typeof headers['sec-websocket-key'] === 'string';

/** The first subprotocol: the only place where a browser's WebSocket client can put a key. */
export function protocolOf({ headers }: IncomingMessage): string | undefined {
  return headers['sec-websocket-protocol']?.split(',')[0]?.trim() || undefined;
}

interface SendOptions {
  signal: AbortSignal;
  /** Formats one message; default JSON. */
  encode?(item: unknown): string;
}

export async function sendMessages(
  request: IncomingMessage,
  socket: Duplex,
  items: AsyncGenerator<unknown, string | void>,
  { signal, encode = JSON.stringify }: SendOptions,
): Promise<void> {
  socket.write(handshake(request));
  socket.on('data', new Incoming(socket).read);
  socket.on('end', () => socket.end());
  let reason = '';
  try {
    for (let next = await items.next(); ; next = await items.next()) {
      if (next.done) reason = next.value ?? '';
      if (next.done || signal.aborted || socket.writableEnded) break;
      if (!socket.write(encodeFrame(opcodes.text, Buffer.from(encode(next.value)))))
        await once(socket, 'drain', { signal }).catch(() => {});
    }
  } finally {
    close(socket, signal.aborted ? closeCodes.goingAway : closeCodes.done, reason);
    await items.return();
  }
}

function handshake(request: IncomingMessage): string {
  const key = request.headers['sec-websocket-key']!;
  const accept = createHash('sha1').update(`${key}${guid}`).digest('base64');
  const protocol = protocolOf(request);
  const chosen = protocol === undefined ? '' : `Sec-WebSocket-Protocol: ${protocol}\r\n`;
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${chosen}\r\n`
  );
}

function close(socket: Duplex, code: number, reason = ''): void {
  if (socket.writableEnded) return;
  const payload = Buffer.from(`  ${reason}`);
  payload.writeUInt16BE(code);
  socket.end(encodeFrame(opcodes.close, payload));
}

/** A single unmasked frame, as servers send it. */
function encodeFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  else if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

class Incoming {
  private readonly socket: Duplex;
  private buffered: Buffer = Buffer.alloc(0);

  constructor(socket: Duplex) {
    this.socket = socket;
  }

  readonly read = (bytes: Buffer): void => {
    this.buffered = Buffer.concat([this.buffered, bytes]);
    for (let size = this.frameBytes(); size !== undefined; size = this.frameBytes()) {
      if (size > maxIncomingBytes) return this.rejectTooLong();
      if (this.buffered.length < size) return;
      this.handleFrame(this.buffered.subarray(0, size));
      this.buffered = this.buffered.subarray(size);
    }
  };

  /** Stops reading and closes without waiting for the client's close frame. */
  private rejectTooLong(): void {
    this.socket.off('data', this.read).pause();
    this.buffered = Buffer.alloc(0);
    this.socket.once('finish', () => this.socket.destroy());
    close(this.socket, closeCodes.tooLong);
  }

  /** Size of the first frame with header and mask; undefined while too little of it has arrived. */
  private frameBytes(): number | undefined {
    const [, second = 0] = this.buffered;
    if (this.buffered.length < 4) return undefined;
    const length = second & 0x7f;
    const mask = (second & 0x80) === 0 ? 0 : 4;
    if (length < 126) return 2 + mask + length;
    return length === 126 ? 4 + mask + this.buffered.readUInt16BE(2) : Infinity;
  }

  private handleFrame(message: Buffer): void {
    const opcode = message[0]! & 0x0f;
    if (opcode === opcodes.close) close(this.socket, closeCodes.done);
    // A client that does not read its pongs gets no more of them: they would accumulate in memory.
    if (opcode !== opcodes.ping || this.socket.writableEnded || this.socket.writableNeedDrain)
      return;
    const payload = Buffer.from(message.subarray(6));
    for (let i = 0; i < payload.length; i++) payload[i]! ^= message[2 + (i % 4)]!;
    this.socket.write(encodeFrame(opcodes.pong, payload));
  }
}
