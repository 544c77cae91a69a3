// The stdio transport of the bridge. Unlike the SDK's transport it parses losslessly: integers beyond 2^53 keep their
// digits on the way to the server.
import type { Readable, Writable } from 'node:stream';
import {
  parseJSONRPCMessage,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { parseLosslessJson } from '../../runtime/json.ts';

const newline = 10;

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
    try {
      this.onmessage?.(parseJSONRPCMessage(parseLosslessJson(line)));
    } catch (error) {
      if (!(error instanceof SyntaxError)) this.onerror?.(error as Error);
    }
  }
}
