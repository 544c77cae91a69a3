// OpenTelemetry tracing: the tracer that calls and attempts use, and the service that exports spans.
import type { Config } from './config.ts';
import type { Clock } from './runtime/clock.ts';
import type { Egress } from './runtime/egress/index.ts';
import type { Log } from './runtime/log.ts';
import { TraceExport } from './runtime/trace-export.ts';
import { Tracer } from './runtime/trace.ts';
import { version } from './version.ts';

interface Tracing {
  tracer: Tracer;
  service: TraceExport;
}

/** Undefined without `tracing.endpoint`: nothing is recorded or sent. */
export function createTracing(deps: {
  config: Config;
  node: string;
  egress: Egress;
  clock: Clock;
  log: Log;
}): Tracing | undefined {
  const { config, node, egress, clock, log } = deps;
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

/** Parses `key=value,key2=value2`, percent-encoded, as the OpenTelemetry specification defines it. */
function headersOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) return [];
    return [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())] as const];
  });
  return Object.fromEntries(pairs);
}
