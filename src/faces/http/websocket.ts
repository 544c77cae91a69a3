// The server's end of a WebSocket (RFC 6455) on which only we speak: each item is one JSON message, the end of the items
// closes it. Of what the client sends, only closes and pings are answered.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const opcodes = { text: 1, close: 8, ping: 9, pong: 10 };
const closeCodes = { done: 1000, goingAway: 1001, tooLong: 1009 };
/** Nobody has anything longer to tell us. */
const incomingBytesMax = 4096;

export const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['sec-websocket-version'] === '13' &&
  typeof headers['sec-websocket-key'] === 'string';

/** The first sub-protocol: the one place where a WebSocket client can put a key. */
export function protocolOf({ headers }: IncomingMessage): string | undefined {
  return headers['sec-websocket-protocol']?.split(',')[0]?.trim() || undefined;
}

export async function sendMessages(
  request: IncomingMessage,
  socket: Duplex,
  items: AsyncIterable<unknown>,
  signal: AbortSignal,
): Promise<void> {
  socket.write(greeting(request));
  socket.on('data', new Incoming(socket).read);
  socket.on('end', () => socket.end());
  try {
    for await (const item of items) {
      if (signal.aborted || socket.writableEnded) break;
      if (!socket.write(frame(opcodes.text, Buffer.from(JSON.stringify(item)))))
        await once(socket, 'drain', { signal }).catch(() => {});
    }
  } finally {
    close(socket, signal.aborted ? closeCodes.goingAway : closeCodes.done);
  }
}

function greeting(request: IncomingMessage): string {
  const key = request.headers['sec-websocket-key']!;
  const accept = createHash('sha1').update(`${key}${guid}`).digest('base64');
  const protocol = protocolOf(request);
  const chosen = protocol === undefined ? '' : `Sec-WebSocket-Protocol: ${protocol}\r\n`;
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${chosen}\r\n`
  );
}

function close(socket: Duplex, code: number): void {
  if (socket.writableEnded) return;
  const payload = Buffer.alloc(2);
  payload.writeUInt16BE(code);
  socket.end(frame(opcodes.close, payload));
}

/** Whole and unmasked, as a server sends. */
function frame(opcode: number, payload: Buffer): Buffer {
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
  private waiting: Buffer = Buffer.alloc(0);

  constructor(socket: Duplex) {
    this.socket = socket;
  }

  readonly read = (bytes: Buffer): void => {
    this.waiting = Buffer.concat([this.waiting, bytes]);
    for (let size = this.frameBytes(); size !== undefined; size = this.frameBytes()) {
      if (size > incomingBytesMax) return this.refuse();
      if (this.waiting.length < size) return;
      this.answer(this.waiting.subarray(0, size));
      this.waiting = this.waiting.subarray(size);
    }
  };

  /** Nothing more is read, and nobody waits for the client to agree. */
  private refuse(): void {
    this.socket.off('data', this.read).pause();
    this.waiting = Buffer.alloc(0);
    this.socket.once('finish', () => this.socket.destroy());
    close(this.socket, closeCodes.tooLong);
  }

  /** Of the first frame, head and mask included; undefined: not enough of it is here to tell. */
  private frameBytes(): number | undefined {
    const [, second = 0] = this.waiting;
    if (this.waiting.length < 4) return undefined;
    const length = second & 0x7f;
    const mask = (second & 0x80) === 0 ? 0 : 4;
    if (length < 126) return 2 + mask + length;
    return length === 126 ? 4 + mask + this.waiting.readUInt16BE(2) : Infinity;
  }

  private answer(whole: Buffer): void {
    const opcode = whole[0]! & 0x0f;
    if (opcode === opcodes.close) close(this.socket, closeCodes.done);
    // Whoever does not read our answers gets no more of them: they would pile up here.
    if (opcode !== opcodes.ping || this.socket.writableEnded || this.socket.writableNeedDrain)
      return;
    const payload = Buffer.from(whole.subarray(6));
    for (let i = 0; i < payload.length; i++) payload[i]! ^= whole[2 + (i % 4)]!;
    this.socket.write(frame(opcodes.pong, payload));
  }
}
