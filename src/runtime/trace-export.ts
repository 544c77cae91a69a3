// Sends spans to the operator's collector in batches, as OTLP/JSON over HTTP through egress. An unreachable collector loses
// spans but never affects a job: when the buffer is full, spans are counted and dropped.
import type { Clock } from './clock.ts';
import type { Egress } from './egress/index.ts';
import type { Log } from './log.ts';
import { Loop, type Service } from './service.ts';
import type { Attributes, Span } from './trace.ts';

interface TraceExportOptions {
  /** The full address: …/v1/traces */
  url: string;
  headers: Record<string, string>;
  /** Describes the source: service.name, service.version, service.instance.id */
  resource: Attributes;
  egress: Egress;
  clock: Clock;
  log: Log;
}

const everyMs = 2000;
const maxBatch = 512;
const maxBuffer = 8192;
const maxSendMs = 10_000;
const maxResponseBytes = 64 * 1024;
const kinds = { internal: 1, server: 2, consumer: 5 } as const;
const statusError = 2;

export class TraceExport implements Service {
  readonly name = 'traces';
  private readonly options: TraceExportOptions;
  private readonly loop: Loop;
  private buffer: Span[] = [];
  private dropped = 0;

  constructor(options: TraceExportOptions) {
    this.options = options;
    const { clock, log } = options;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.flush() });
  }

  add(span: Span): void {
    if (this.buffer.length >= maxBuffer) {
      this.dropped += 1;
      return;
    }
    this.buffer.push(span);
    if (this.buffer.length === maxBatch) this.loop.wake();
  }

  async start(): Promise<void> {
    await this.loop.start();
  }

  /** Sends buffered spans once more. An unreachable collector does not delay the shutdown. */
  async stop(): Promise<void> {
    await this.loop.stop();
    await this.flush();
  }

  private async flush(): Promise<void> {
    const { log } = this.options;
    while (this.buffer.length > 0) {
      const batch = this.buffer.slice(0, maxBatch);
      try {
        await this.send(batch);
      } catch (error) {
        log.warn('failed to send traces; will retry', { spans: batch.length, error });
        return;
      }
      this.buffer.splice(0, batch.length);
    }
    if (this.dropped > 0) {
      log.warn('dropped traces because the collector was unreachable', { spans: this.dropped });
      this.dropped = 0;
    }
  }

  private async send(spans: readonly Span[]): Promise<void> {
    const { url, headers, egress, resource } = this.options;
    const scopeSpans = [{ scope: { name: 'errand' }, spans: spans.map(spanJson) }];
    const response = await egress.request({
      url,
      method: 'POST',
      trust: 'trusted',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({
        resourceSpans: [{ resource: { attributes: attributeList(resource) }, scopeSpans }],
      }),
      timeoutMs: maxSendMs,
      maxBytes: maxResponseBytes,
    });
    response.body.discard();
    // Drop what the collector will never accept. Everything else may succeed later.
    if (response.status === 400 || response.status === 413) {
      this.options.log.warn('the collector rejected spans', { status: response.status });
    } else if (response.status >= 300) {
      throw new Error(`the collector responded with status ${response.status}`);
    }
  }
}

const nanoseconds = (ms: number): string => `${Math.round(ms)}000000`;

function spanJson(span: Span): Record<string, unknown> {
  const { traceId, spanId, parentId, name, kind, startMs, endMs, attributes, error } = span;
  return {
    traceId,
    spanId,
    ...(parentId === undefined ? {} : { parentSpanId: parentId }),
    name,
    kind: kinds[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(Math.max(endMs, startMs)),
    attributes: attributeList(attributes),
    status: error === undefined ? {} : { code: statusError, message: error },
  };
}

function attributeList(attributes: Attributes): { key: string; value: object }[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: attributeValue(value) }],
  );
}

function attributeValue(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
