// The stdio transport of the bridge. Unlike the SDK's transport it parses losslessly (integers beyond 2^53 keep their
// digits on the way to the server), and it responds to every request that it cannot pass on.
import type { Readable, Writable } from 'node:stream';
import {
  parseJSONRPCMessage,
  ProtocolErrorCode,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { AppError } from '../../errors.ts';
import { isRecord } from '../../runtime/json.ts';
import { parseMessage, textOfError } from './message.ts';

const newline = 10;

/** The id of a request that could not be parsed as one. JSON.parse itself has no depth limit. */
function requestId(line: string): string | number | undefined {
  const message: unknown = JSON.parse(line);
  if (!isRecord(message) || typeof message.method !== 'string') return undefined;
  const { id } = message;
  return typeof id === 'string' || Number.isSafeInteger(id) ? (id as string | number) : undefined;
}

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  private readonly stdin: Readable;
  private readonly stdout: Writable;
  private readonly maxMessageBytes: number;
  private partial: Buffer[] = [];
  private partialBytes = 0;
  private isClosed = false;

  constructor(stdin: Readable, stdout: Writable, maxMessageBytes: number) {
    this.stdin = stdin;
    this.stdout = stdout;
    this.maxMessageBytes = maxMessageBytes;
  }

  async start(): Promise<void> {
    this.stdin.on('data', this.read);
    this.stdin.on('error', this.report);
    this.stdin.on('end', this.end);
    this.stdin.on('close', this.end);
    // Stays after the end: a late write to a closed pipe must not end the process.
    this.stdout.on('error', this.end);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.stdin.off('data', this.read);
    this.stdin.off('error', this.report);
    this.stdin.off('end', this.end);
    this.stdin.off('close', this.end);
    this.stdin.pause();
    this.partial = [];
    this.onclose?.();
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.isClosed) return Promise.reject(new Error('The connection to the client is closed.'));
    return new Promise((resolve, reject) => {
      this.stdout.write(`${JSON.stringify(message)}\n`, (error) =>
        error ? reject(error) : resolve(),
      );
    });
  }

  private readonly report = (error: Error): void => this.onerror?.(error);
  private readonly end = (): void => void this.close();

  private readonly read = (chunk: Buffer): void => {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      this.partial.push(chunk.subarray(start, end));
      start = end + 1;
      const line = Buffer.concat(this.partial).toString('utf8');
      this.partial = [];
      this.partialBytes = 0;
      this.deliver(line);
      if (this.isClosed) return;
    }
    this.partial.push(chunk.subarray(start));
    this.partialBytes += chunk.length - start;
    if (this.partialBytes <= this.maxMessageBytes) return;
    this.onerror?.(new Error(`A message has more than ${this.maxMessageBytes} bytes.`));
    void this.close();
  };

  /** Lines that are not JSON are skipped. */
  private deliver(line: string): void {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(parseMessage(line));
    } catch (error) {
      if (!(error instanceof SyntaxError)) this.refuse(line, error as Error);
      return;
    }
    this.onmessage?.(message);
  }

  /** A request without a response would make the client wait forever. */
  private refuse(line: string, error: Error): void {
    this.onerror?.(error);
    const id = requestId(line);
    if (id === undefined) return;
    const isLimit = error instanceof AppError;
    const answer = isLimit
      ? { code: ProtocolErrorCode.InvalidParams, message: textOfError(error) }
      : {
          code: ProtocolErrorCode.InvalidRequest,
          message: 'The message is not a valid JSON-RPC request.',
        };
    this.send({ jsonrpc: '2.0', id, error: answer }).catch(this.report);
  }
}
