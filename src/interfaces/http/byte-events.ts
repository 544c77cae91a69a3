// Encodes stream items with bytes as server-sent events, with the bytes as base64 in the JSON. The encoder reuses one
// buffer: allocating large strings and buffers for every event would cost more, in fresh pages, than sending them.
import { itemHead, type StreamItem } from '../../operation.ts';

/** A multiple of three, so that base64 pieces join without padding. Small, so that the strings are collected early. */
const pieceBytes = 24_576;
const tail = '"}\n\n';

export class ByteEventEncoder {
  private buffer = Buffer.alloc(0);

  /** Returns the event; valid until the next call. `head` contains the lines before the data. */
  encode(head: string, { data, bytes }: StreamItem & { bytes: Buffer }): Buffer {
    const start = `${head}data: ${itemHead(data)}"base64":"`;
    const size = Buffer.byteLength(start) + Math.ceil(bytes.length / 3) * 4 + tail.length;
    if (this.buffer.length < size) this.buffer = Buffer.allocUnsafe(size);
    let at = this.buffer.write(start);
    for (let from = 0; from < bytes.length; from += pieceBytes)
      at += this.buffer.write(bytes.toString('base64', from, from + pieceBytes), at, 'latin1');
    at += this.buffer.write(tail, at, 'latin1');
    return this.buffer.subarray(0, at);
  }
}
