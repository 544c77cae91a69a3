// Sends spans to the operator's collector as OTLP over HTTP in JSON, in batches, through egress. A collector that is away
// costs spans, never a job: what does not fit in the buffer is counted and dropped.
import type { Clock } from './clock.ts';
import type { Egress } from './egress/index.ts';
import type { Log } from './log.ts';
import { Loop, type Service } from './service.ts';
import type { Attributes, Span } from './trace.ts';

export interface TraceExportOptions {
  /** The whole address: …/v1/traces */
  url: string;
  headers: Record<string, string>;
  /** What the spans are about: service.name, service.version, service.instance.id */
  resource: Attributes;
  egress: Egress;
  clock: Clock;
  log: Log;
}

const everyMs = 2000;
const batchMax = 512;
const bufferMax = 8192;
const sendMsMax = 10_000;
const answerBytesMax = 64 * 1024;
const kinds = { internal: 1, server: 2, consumer: 5 } as const;
const statusError = 2;

export class TraceExport implements Service {
  readonly name = 'traces';
  private readonly options: TraceExportOptions;
  private readonly loop: Loop;
  private waiting: Span[] = [];
  private dropped = 0;

  constructor(options: TraceExportOptions) {
    this.options = options;
    const { clock, log } = options;
    this.loop = new Loop({ name: this.name, everyMs, clock, log, run: () => this.flush() });
  }

  add(span: Span): void {
    if (this.waiting.length >= bufferMax) {
      this.dropped += 1;
      return;
    }
    this.waiting.push(span);
    if (this.waiting.length === batchMax) this.loop.wake();
  }

  async start(): Promise<void> {
    await this.loop.start();
  }

  /** What is there goes out once more; a collector that is away does not hold up the end. */
  async stop(): Promise<void> {
    await this.loop.stop();
    await this.flush();
  }

  private async flush(): Promise<void> {
    const { log } = this.options;
    while (this.waiting.length > 0) {
      const batch = this.waiting.slice(0, batchMax);
      try {
        await this.send(batch);
      } catch (error) {
        log.warn('traces could not be sent; they are tried again', { spans: batch.length, error });
        return;
      }
      this.waiting.splice(0, batch.length);
    }
    if (this.dropped > 0) {
      log.warn('traces were dropped while the collector was away', { spans: this.dropped });
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
      timeoutMs: sendMsMax,
      bytesMax: answerBytesMax,
    });
    response.body.discard();
    // What the collector will never take is not worth keeping; everything else may work later.
    if (response.status === 400 || response.status === 413) {
      this.options.log.warn('the collector refused spans', { status: response.status });
    } else if (response.status >= 300) {
      throw new Error(`the collector answered ${response.status}`);
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
