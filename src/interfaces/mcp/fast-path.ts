// The bridge's fast path for the most common call: a read-only tool, called without progress by a client that uses a 2025
// protocol revision. The server returns the result as MCP JSON, and the bridge forwards it without parsing. All other
// messages, and calls that fail on the fast path, go to the SDK with the client's original bytes.
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { isRecord, parseJson } from '../../runtime/json.ts';
import type { Connection } from './connection.ts';
import { writeLine } from './bridge-protocol.ts';
import type { OpenCalls } from './open-calls.ts';
import type { JsonObject, ToolDefinition } from './source.ts';

interface FastPathOptions {
  stdin: Readable;
  stdout: Writable;
  /** The open connection to a server, if any. */
  connected(): Connection | undefined;
  open: OpenCalls;
}

/** Longer lines go to the SDK. */
const maxLineBytes = 65_536;
const newline = 10;

interface Call {
  id: string | number;
  name: string;
  args: JsonObject;
}

export class FastPath {
  /** The messages left for the SDK, which reads this instead of stdin. */
  readonly forwarded = new PassThrough();
  private readonly options: FastPathOptions;
  private readonly pending = new Map<
    string | number,
    { connection: Connection; requestId: number }
  >();
  private partial: Buffer[] = [];
  private partialBytes = 0;
  /** More lines follow in the current chunk. */
  private more = false;
  private handshake: 'none' | 'started' | 'done' = 'none';

  constructor(options: FastPathOptions) {
    this.options = options;
    const { stdin } = options;
    stdin.on('data', (chunk: Buffer) => this.readChunk(chunk));
    // The SDK does not see the end of stdin: it would drop calls in progress. The bridge closes it later.
    stdin.on('end', () => this.forwarded.write(this.takePartial()));
    stdin.on('error', (error) => this.forwarded.destroy(error));
  }

  private readChunk(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const piece = chunk.subarray(start, end + 1);
      start = end + 1;
      this.more = start < chunk.length;
      this.handleLine(this.partialBytes === 0 ? piece : Buffer.concat([...this.partial, piece]));
      this.takePartial();
    }
    if (start === chunk.length) return;
    this.partial.push(chunk.subarray(start));
    this.partialBytes += chunk.length - start;
    // Too long for the fast path: the SDK also gets the rest of the line.
    if (this.partialBytes > maxLineBytes) this.forwarded.write(this.takePartial());
  }

  private takePartial(): Buffer {
    const bytes = this.partialBytes === 0 ? Buffer.alloc(0) : Buffer.concat(this.partial);
    this.partial = [];
    this.partialBytes = 0;
    return bytes;
  }

  private handleLine(bytes: Buffer): void {
    if (this.handshake !== 'done') this.trackHandshake(bytes);
    else if (bytes.length <= maxLineBytes) {
      const text = bytes.toString('utf8');
      if (this.pending.size > 0 && text.includes('"notifications/cancelled"') && this.cancel(text))
        return;
      const call = text.includes('"tools/call"') ? parseCall(text) : undefined;
      if (call && this.request(call, bytes)) return;
    }
    this.forwarded.write(bytes);
  }

  /** Only clients of the 2025 revisions and older send `initialize` and then `initialized`. */
  private trackHandshake(bytes: Buffer): void {
    if (this.handshake === 'none' && bytes.includes('"initialize"')) this.handshake = 'started';
    else if (this.handshake === 'started' && bytes.includes('"notifications/initialized"'))
      this.handshake = 'done';
  }

  private request({ id, name, args }: Call, bytes: Buffer): boolean {
    const connection = this.options.connected();
    if (!connection || this.pending.has(id)) return false;
    const definition = connection.tool(name);
    if (!definition || !isEligible(definition)) return false;
    const rawCall = { method: 'rawCall' as const, params: [name, args], more: this.more };
    const requestId = connection.requestRaw(rawCall, (raw) => {
      if (!this.pending.delete(id)) return;
      if (raw === undefined) return void this.forwarded.write(bytes);
      const line = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${raw}}`;
      writeLine(this.options.stdout, line, this.pending.size > 0);
      this.options.open.finished(id);
    });
    this.pending.set(id, { connection, requestId });
    this.options.open.started(id);
    return true;
  }

  /** A cancelled call gets no response, as the protocol requires. */
  private cancel(text: string): boolean {
    const params = parseMessage(text)?.params as { requestId?: string | number } | undefined;
    const call = this.pending.get(params?.requestId as string | number);
    if (!call) return false;
    this.pending.delete(params!.requestId!);
    this.options.open.finished(params!.requestId);
    call.connection.cancel(call.requestId);
    return true;
  }
}

/** The tool is read-only (so it can be repeated), never becomes a task, and its result has the same form for all clients. */
const isEligible = (definition: ToolDefinition): boolean =>
  definition.annotations.readOnlyHint &&
  !definition.startsJob &&
  definition.outputSchema?.type === 'object';

const callKeys: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params']);
const paramKeys: ReadonlySet<string> = new Set(['name', 'arguments']);

/** Accepts only plain calls. The SDK handles all others and reports invalid ones. */
function parseCall(text: string): Call | undefined {
  const message = parseMessage(text);
  if (message?.jsonrpc !== '2.0' || message.method !== 'tools/call') return undefined;
  const { id, params } = message as { id: unknown; params: unknown };
  if (typeof id !== 'string' && !Number.isSafeInteger(id)) return undefined;
  if (!isRecord(params) || typeof params.name !== 'string') return undefined;
  const args = params.arguments ?? {};
  if (!isRecord(args) || !hasOnly(message, callKeys) || !hasOnly(params, paramKeys))
    return undefined;
  return { id: id as string | number, name: params.name, args };
}

function parseMessage(text: string): JsonObject | undefined {
  try {
    const value: unknown = parseJson(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const hasOnly = (value: JsonObject, keys: ReadonlySet<string>): boolean =>
  Object.keys(value).every((key) => keys.has(key));
