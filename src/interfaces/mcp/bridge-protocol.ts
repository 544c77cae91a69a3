// The private protocol between a bridge and its server: one JSON object per line over one private-socket connection, with
// many concurrent calls. Versions stay compatible: unknown fields are ignored, and unknown methods get an error response.
import type { Duplex, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { ErrorBody } from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import { parseLosslessJson } from '../../runtime/json.ts';
import type { Catalog, JsonObject } from './source.ts';

/** Path and upgrade token of the HTTP request that switches to this protocol. */
export const sessionPath = '/internal/mcp';
export const sessionProtocol = 'errand-mcp/1';

/** A longer line ends the connection: all our messages are much shorter. */
const maxLineChars = 32_000_000;

export type Method =
  | 'hello'
  | 'call'
  /** A call whose result is MCP JSON that the bridge forwards without parsing. */
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

/** To the server: a call, or the cancellation of one. */
export type BridgeRequest =
  | { id: number; method: Method; params: unknown[]; trace?: string }
  | { cancel: number };

/** To the bridge: zero or more items (progress, changes), then one result or error. */
export type BridgeResponse =
  | { id: number; item: JsonObject }
  | { id: number; result: unknown }
  /** The result as JSON text, to be forwarded without parsing. */
  | { id: number; raw: string }
  | { id: number; error: ErrorBody };

/** `more`: other messages will probably follow in this turn of the event loop. */
export function writeMessage(
  stream: Writable,
  message: BridgeRequest | BridgeResponse,
  more = false,
): void {
  const line =
    'raw' in message
      ? `${rawStart}${message.id}${rawMiddle}${message.raw}}`
      : JSON.stringify(message);
  writeLine(stream, line, more);
}

const rawStart = '{"id":';
const rawMiddle = ',"raw":';
/** The last possible position of `rawMiddle`: after the longest id. */
const maxRawOffset = rawStart.length + 17;

const unsentLines = new WeakMap<Writable, string[]>();

/**
 * Writes the first line immediately and joins the lines that follow in the same turn of the event loop into one write:
 * waking the other process costs more than a line.
 */
export function writeLine(stream: Writable, text: string, more = false): void {
  if (!stream.writable) return;
  const line = `${text}\n`;
  const following = unsentLines.get(stream);
  if (following) return void following.push(line);
  if (!more) stream.write(line);
  unsentLines.set(stream, more ? [line] : []);
  setImmediate(() => {
    const lines = unsentLines.get(stream)!;
    unsentLines.delete(stream);
    if (lines.length > 0 && stream.writable) stream.write(lines.join(''));
  });
}

/** Reads messages until the stream ends; `head` arrived with the upgrade. A message that is not JSON ends the stream. */
export function readMessages(
  stream: Duplex,
  head: string,
  onMessage: (message: unknown) => void,
): void {
  let rest = head;
  // An HTTP server's socket does not support setEncoding.
  const decoder = new StringDecoder('utf8');
  const take = (chunk: string | Buffer) => {
    rest += typeof chunk === 'string' ? chunk : decoder.write(chunk);
    let start = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', start)) {
      const message = parse(rest.slice(start, end));
      start = end + 1;
      if (message === undefined) return void stream.destroy(new Error('a message is not JSON'));
      onMessage(message);
    }
    if (start > 0) rest = rest.slice(start);
    if (rest.length > maxLineChars) stream.destroy(new Error('a message is too long'));
  };
  stream.on('data', take);
  if (head) take('');
}

function parse(line: string): unknown {
  const middle = line.indexOf(rawMiddle, rawStart.length);
  if (middle > 0 && middle < maxRawOffset && line.startsWith(rawStart)) {
    const raw = line.slice(middle + rawMiddle.length, -1);
    return { id: Number(line.slice(rawStart.length, middle)), raw };
  }
  try {
    return parseLosslessJson(line);
  } catch {
    return undefined;
  }
}
