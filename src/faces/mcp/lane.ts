// The short way through a front for the commonest call: a tool that only reads, asked without progress by a client of
// the 2025 era. Its answer comes from the server in protocol form and is passed on unread. Everything else, and every
// call that does not go smoothly, takes the long way through the SDK, which gets the very bytes of the client.
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { isRecord, parseJson } from '../../runtime/json.ts';
import type { Connection } from './connection.ts';
import { writeLine } from './frames.ts';
import type { OpenCalls } from './open-calls.ts';
import type { JsonObject, ToolCard } from './source.ts';

export interface LaneOptions {
  stdin: Readable;
  stdout: Writable;
  /** The open connection with a server, if there is one now. */
  connected(): Connection | undefined;
  open: OpenCalls;
}

/** A longer line takes the long way. */
const lineBytesMax = 65_536;
const newline = 10;

interface Call {
  id: string | number;
  name: string;
  args: JsonObject;
}

export class Lane {
  /** What the SDK reads instead of stdin. */
  readonly rest = new PassThrough();
  private readonly options: LaneOptions;
  private readonly pending = new Map<string | number, { connection: Connection; ask: number }>();
  private partial: Buffer[] = [];
  private partialBytes = 0;
  /** The client sent more with the line that is looked at. */
  private more = false;
  private greeted: 'no' | 'asked' | 'yes' = 'no';

  constructor(options: LaneOptions) {
    this.options = options;
    const { stdin } = options;
    stdin.on('data', (chunk: Buffer) => this.take(chunk));
    // The SDK is not told of the end: it would drop what it is asked. Whoever made this closes it.
    stdin.on('end', () => this.rest.write(this.flushed()));
    stdin.on('error', (error) => this.rest.destroy(error));
  }

  private take(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const piece = chunk.subarray(start, end + 1);
      start = end + 1;
      this.more = start < chunk.length;
      this.line(this.partialBytes === 0 ? piece : Buffer.concat([...this.partial, piece]));
      this.flushed();
    }
    if (start === chunk.length) return;
    this.partial.push(chunk.subarray(start));
    this.partialBytes += chunk.length - start;
    // Too long to be ours: the rest of the line follows on the same way.
    if (this.partialBytes > lineBytesMax) this.rest.write(this.flushed());
  }

  private flushed(): Buffer {
    const bytes = this.partialBytes === 0 ? Buffer.alloc(0) : Buffer.concat(this.partial);
    this.partial = [];
    this.partialBytes = 0;
    return bytes;
  }

  private line(bytes: Buffer): void {
    if (this.greeted !== 'yes') this.greet(bytes);
    else if (bytes.length <= lineBytesMax) {
      const text = bytes.toString('utf8');
      if (this.pending.size > 0 && text.includes('"notifications/cancelled"') && this.cancel(text))
        return;
      const call = text.includes('"tools/call"') ? callOf(text) : undefined;
      if (call && this.ask(call, bytes)) return;
    }
    this.rest.write(bytes);
  }

  /** A client of the 2025 era says `initialize`, then `initialized`; no other ever does. */
  private greet(bytes: Buffer): void {
    if (this.greeted === 'no' && bytes.includes('"initialize"')) this.greeted = 'asked';
    else if (this.greeted === 'asked' && bytes.includes('"notifications/initialized"'))
      this.greeted = 'yes';
  }

  private ask({ id, name, args }: Call, bytes: Buffer): boolean {
    const connection = this.options.connected();
    if (!connection || this.pending.has(id)) return false;
    const card = connection.card(name);
    if (!card || !isSmooth(card)) return false;
    const question = { method: 'rawCall' as const, params: [name, args], more: this.more };
    const ask = connection.askRaw(question, (raw) => {
      if (!this.pending.delete(id)) return;
      if (raw === undefined) return void this.rest.write(bytes);
      const line = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${raw}}`;
      writeLine(this.options.stdout, line, this.pending.size > 0);
      this.options.open.answered(id);
    });
    this.pending.set(id, { connection, ask });
    this.options.open.asked(id);
    return true;
  }

  /** A cancelled call is not answered, as the protocol wants it. */
  private cancel(text: string): boolean {
    const params = parsed(text)?.params as { requestId?: string | number } | undefined;
    const call = this.pending.get(params?.requestId as string | number);
    if (!call) return false;
    this.pending.delete(params!.requestId!);
    this.options.open.answered(params!.requestId);
    call.connection.cancel(call.ask);
    return true;
  }
}

/** It reads only (so it may be asked again), never becomes a task, and its structure needs no wrapping for any client. */
const isSmooth = (card: ToolCard): boolean =>
  card.annotations.readOnlyHint && !card.startsJob && card.outputSchema?.type === 'object';

const callKeys: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params']);
const paramKeys: ReadonlySet<string> = new Set(['name', 'arguments']);

/** Only what has nothing unusual about it; the SDK answers the rest, and what is wrong. */
function callOf(text: string): Call | undefined {
  const message = parsed(text);
  if (message?.jsonrpc !== '2.0' || message.method !== 'tools/call') return undefined;
  const { id, params } = message as { id: unknown; params: unknown };
  if (typeof id !== 'string' && !Number.isSafeInteger(id)) return undefined;
  if (!isRecord(params) || typeof params.name !== 'string') return undefined;
  const args = params.arguments ?? {};
  if (!isRecord(args) || !hasOnly(message, callKeys) || !hasOnly(params, paramKeys))
    return undefined;
  return { id: id as string | number, name: params.name, args };
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = parseJson(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const hasOnly = (value: JsonObject, keys: ReadonlySet<string>): boolean =>
  Object.keys(value).every((key) => keys.has(key));
