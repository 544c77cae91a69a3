// Traces in W3C Trace Context. A caller's `traceparent` is carried through the call implicitly and into the jobs that the
// call starts. Spans go to a sink (trace-export.ts); without one, nothing is recorded.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash, randomBytes } from 'node:crypto';

export interface TraceContext {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 hexadecimal digits: the parent of the next span. */
  spanId: string;
  /** False if the caller decided not to record this trace. */
  sampled: boolean;
}

export type Attributes = Record<string, string | number | boolean | undefined>;

export interface Span {
  traceId: string;
  spanId: string;
  parentId: string | undefined;
  name: string;
  kind: 'internal' | 'server' | 'consumer';
  startMs: number;
  endMs: number;
  attributes: Attributes;
  /** Set if the operation failed. */
  error?: string | undefined;
}

const format = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Returns undefined if the text is not a valid `traceparent`. An invalid trace is never an error. */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  const match = typeof text === 'string' ? format.exec(text.trim()) : null;
  if (!match) return undefined;
  const [, traceId, spanId, flags] = match as unknown as [string, string, string, string];
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const formatTraceparent = ({ traceId, spanId, sampled }: TraceContext): string =>
  `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;

const current = new AsyncLocalStorage<TraceContext>();

/** The span of the current call. */
export const currentTrace = (): TraceContext | undefined => current.getStore();

export function withTrace<T>(context: TraceContext | undefined, run: () => T): T {
  return context ? current.run(context, run) : run();
}

/** Deterministic, so that no row is needed to find the id again after a crash. */
export const deriveId = (text: string, digits: 16 | 32): string =>
  createHash('sha256').update(text).digest('hex').slice(0, digits);

interface TracerOptions {
  now(): number;
  /** Share of calls without a trace that start a new one, 0 to 1. */
  ratio: number;
  sink(span: Span): void;
}

export class Tracer {
  private readonly options: TracerOptions;

  constructor(options: TracerOptions) {
    this.options = options;
  }

  record(span: Span): void {
    this.options.sink(span);
  }

  now(): number {
    return this.options.now();
  }

  /** Runs a call as a span of the caller's trace, or of a new trace. */
  async call<T>(name: string, attributes: Attributes, run: () => Promise<T>): Promise<T> {
    const parent = currentTrace();
    const sampled = parent ? parent.sampled : Math.random() < this.options.ratio;
    if (!sampled) return run();
    const context = {
      traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
      spanId: randomBytes(8).toString('hex'),
      sampled,
    };
    const startMs = this.now();
    const end = (error?: string) =>
      this.record({
        traceId: context.traceId,
        spanId: context.spanId,
        parentId: parent?.spanId,
        name,
        kind: 'server',
        startMs,
        endMs: this.now(),
        attributes,
        error,
      });
    try {
      const result = await withTrace(context, run);
      end();
      return result;
    } catch (error) {
      const { code } = error as { code?: unknown };
      end(typeof code === 'string' ? code : 'internal');
      throw error;
    }
  }
}
