// The private protocol between a front and its server: one JSON object per line over one connection of the private
// socket, many calls at once. Additive between versions: unknown fields and methods are answered, never fatal.
import type { Duplex, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { ErrorBody } from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import type { Catalog, JsonObject } from './source.ts';

/** Path and upgrade word of the HTTP request that turns into this protocol. */
export const sessionPath = '/internal/mcp';
export const sessionProtocol = 'errand-mcp/1';

/** A line longer than this ends the connection: no answer of ours is near it. */
const lineCharsMax = 32_000_000;

export type Method =
  | 'hello'
  | 'call'
  /** A call whose answer comes in protocol form, for a front that passes it on unread. */
  | 'rawCall'
  | 'task'
  | 'settledTask'
  | 'cancelTask'
  | 'tasks'
  | 'resources'
  | 'read'
  | 'complete'
  | 'watch';

export interface Hello {
  version: string;
  toolsets: readonly string[];
  dialects: readonly string[];
  origin: Origin;
}

export interface Welcome extends Catalog {
  version: string;
}

/** To the server: a call, or the wish to hear no more of one. */
export type Request =
  | { id: number; method: Method; params: unknown[]; trace?: string }
  | { cancel: number };

/** To the front: zero or more items (progress, changes), then one result or error. */
export type Reply =
  | { id: number; item: JsonObject }
  | { id: number; result: unknown }
  /** JSON of a result, not to be read on the way. */
  | { id: number; raw: string }
  | { id: number; error: ErrorBody };

/** `more`: others are likely to follow in this turn of the event loop. */
export function writeFrame(stream: Writable, frame: Request | Reply, more = false): void {
  const raw = 'raw' in frame;
  const line = raw ? `${rawStart}${frame.id}${rawMiddle}${frame.raw}}` : JSON.stringify(frame);
  writeLine(stream, line, more);
}

const rawStart = '{"id":';
const rawMiddle = ',"raw":';
/** Where it stands at the latest: after a number. */
const rawAtMost = rawStart.length + 17;

const unsent = new WeakMap<Writable, string[]>();

/**
 * A lone line leaves at once, those that follow in the same turn of the event loop in one piece: waking the other
 * process costs more than a line.
 */
export function writeLine(stream: Writable, text: string, more = false): void {
  if (!stream.writable) return;
  const line = `${text}\n`;
  const following = unsent.get(stream);
  if (following) return void following.push(line);
  if (!more) stream.write(line);
  unsent.set(stream, more ? [line] : []);
  setImmediate(() => {
    const lines = unsent.get(stream)!;
    unsent.delete(stream);
    if (lines.length > 0 && stream.writable) stream.write(lines.join(''));
  });
}

/** Reads frames until the stream ends; `head` is what came with the upgrade. A frame that is no JSON ends the stream. */
export function readFrames(stream: Duplex, head: string, onFrame: (frame: unknown) => void): void {
  let rest = head;
  // Not setEncoding: a socket that came from an HTTP server refuses it.
  const decoder = new StringDecoder('utf8');
  const take = (chunk: string | Buffer) => {
    rest += typeof chunk === 'string' ? chunk : decoder.write(chunk);
    let start = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', start)) {
      const frame = parse(rest.slice(start, end));
      start = end + 1;
      if (frame === undefined) return void stream.destroy(new Error('a frame is no JSON'));
      onFrame(frame);
    }
    if (start > 0) rest = rest.slice(start);
    if (rest.length > lineCharsMax) stream.destroy(new Error('a frame is too long'));
  };
  stream.on('data', take);
  if (head) take('');
}

function parse(line: string): unknown {
  const middle = line.indexOf(rawMiddle, rawStart.length);
  if (middle > 0 && middle < rawAtMost && line.startsWith(rawStart)) {
    const raw = line.slice(middle + rawMiddle.length, -1);
    return { id: Number(line.slice(rawStart.length, middle)), raw };
  }
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}
