// An event that carries bytes, as base64 in its JSON. Written piece by piece into memory that is used again: large strings
// and buffers made anew for every event would cost the kernel more, in fresh pages, than sending them does.
import { itemHead, type StreamItem } from '../../operation.ts';

/** A multiple of three, so that the pieces join; small enough for strings that die young. */
const pieceBytes = 24_576;
const tail = '"}\n\n';

export class BytesFrame {
  private room = Buffer.alloc(0);

  /** Valid until the next call. `head`: the lines before the data. */
  of(head: string, { data, bytes }: StreamItem & { bytes: Buffer }): Buffer {
    const start = `${head}data: ${itemHead(data)}"base64":"`;
    const size = Buffer.byteLength(start) + Math.ceil(bytes.length / 3) * 4 + tail.length;
    if (this.room.length < size) this.room = Buffer.allocUnsafe(size);
    let at = this.room.write(start);
    for (let from = 0; from < bytes.length; from += pieceBytes)
      at += this.room.write(bytes.toString('base64', from, from + pieceBytes), at, 'latin1');
    at += this.room.write(tail, at, 'latin1');
    return this.room.subarray(0, at);
  }
}
