// Traces, where the operator has a collector: the tracer that calls and attempts report to, and the service that sends.
import type { Config } from './config.ts';
import type { Clock } from './runtime/clock.ts';
import type { Egress } from './runtime/egress/index.ts';
import type { Log } from './runtime/log.ts';
import { TraceExport } from './runtime/trace-export.ts';
import { Tracer } from './runtime/trace.ts';
import { version } from './version.ts';

export interface Tracing {
  tracer: Tracer;
  service: TraceExport;
}

/** Undefined without `tracing.endpoint`: then nothing is recorded and nothing is sent. */
export function createTracing(needs: {
  config: Config;
  node: string;
  egress: Egress;
  clock: Clock;
  log: Log;
}): Tracing | undefined {
  const { config, node, egress, clock, log } = needs;
  const { endpoint, ratio, serviceName } = config.tracing;
  if (endpoint === undefined) return undefined;
  const service = new TraceExport({
    url: tracesUrl(endpoint),
    headers: headersOf(config.secret('OTEL_EXPORTER_OTLP_HEADERS')),
    resource: {
      'service.name': serviceName,
      'service.version': version,
      'service.instance.id': node,
    },
    egress,
    clock,
    log,
  });
  const sink = (span: Parameters<TraceExport['add']>[0]) => service.add(span);
  return { tracer: new Tracer({ now: () => clock.now(), ratio, sink }), service };
}

const tracesUrl = (endpoint: string): string =>
  endpoint.endsWith('/v1/traces') ? endpoint : `${endpoint.replace(/\/$/, '')}/v1/traces`;

/** `key=value,key2=value2`, percent-encoded, as the OpenTelemetry specification has it. */
function headersOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) return [];
    return [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())] as const];
  });
  return Object.fromEntries(pairs);
}
