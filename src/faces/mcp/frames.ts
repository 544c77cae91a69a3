// The private protocol between a front and its server: one JSON object per line over one connection of the private
// socket, many calls at once. Additive between versions: unknown fields and methods are answered, never fatal.
import type { Duplex } from 'node:stream';
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
export type Request = { id: number; method: Method; params: unknown[] } | { cancel: number };

/** To the front: zero or more items (progress, changes), then one result or error. */
export type Reply =
  | { id: number; item: JsonObject }
  | { id: number; result: unknown }
  | { id: number; error: ErrorBody };

export function writeFrame(stream: Duplex, frame: Request | Reply): void {
  if (stream.writable) stream.write(`${JSON.stringify(frame)}\n`);
}

/** Reads frames until the stream ends; `head` is what came with the upgrade. A frame that is no JSON ends the stream. */
export function readFrames<T>(stream: Duplex, head: string, onFrame: (frame: T) => void): void {
  let rest = head;
  const take = (chunk: string) => {
    rest += chunk;
    let end = rest.indexOf('\n');
    if (end < 0) {
      if (rest.length > lineCharsMax) stream.destroy(new Error('a frame is too long'));
      return;
    }
    let start = 0;
    for (; end >= 0; end = rest.indexOf('\n', start)) {
      const frame = parse<T>(rest.slice(start, end));
      start = end + 1;
      if (frame === undefined) return void stream.destroy(new Error('a frame is no JSON'));
      onFrame(frame);
    }
    rest = rest.slice(start);
  };
  stream.setEncoding('utf8');
  stream.on('data', take);
  if (head) take('');
}

function parse<T>(line: string): T | undefined {
  try {
    return JSON.parse(line) as T;
  } catch {
    return undefined;
  }
}
