// All server settings with their defaults, units and limits. Only this file reads config.json. Together with config-place.ts it is
// the only reader of the environment.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ownValue } from './runtime/by-name.ts';
import { environment, homePlace, logLevelOf, readEnvFile } from './config-place.ts';
import { onEndSettings } from './config-on-end.ts';
import { upgradeConfigText } from './config-upgrade.ts';
import { AppError } from './errors.ts';
import { issueText } from './issue-text.ts';
import type { LogLevel } from './runtime/log.ts';

const second = 1000;
const day = 86_400 * second;

export const serverSettings = z.strictObject({
  port: z.number().int().min(0).max(65_535).default(7411).describe('TCP port of `errand serve`'),
  host: z.string().default('127.0.0.1').describe('Address it listens on'),
  publicUrl: z.url().optional().describe('URL of this server as clients see it, behind a proxy'),
  allowedHosts: z
    .array(z.string())
    .default([])
    .describe('Additional host names and origins that requests may use'),
  leaseMs: z
    .number()
    .int()
    .min(1000)
    .default(30 * second)
    .describe('An attempt is lost if its holder is silent for this long'),
  sweepMs: z
    .number()
    .int()
    .min(50)
    .default(1 * second)
    .describe('Interval of the sweep for timeouts, leases and due jobs'),
  maxStopMs: z
    .number()
    .int()
    .min(0)
    .default(30 * second)
    .describe('A stopping server waits at most this long for its attempts'),
  idleExitMs: z
    .number()
    .int()
    .min(0)
    .default(60 * second)
    .describe('An auto-started server exits after being idle for this long'),
  maxWaitMs: z
    .number()
    .int()
    .min(1000)
    .max(55 * second)
    .default(50 * second)
    .describe('Maximum wait of one call'),
});

const retentionSettings = z.strictObject({
  maxAgeMs: z
    .number()
    .int()
    .min(0)
    .default(30 * day)
    .describe('Ended jobs are deleted after this time'),
  maxCount: z.number().int().min(0).default(100_000).describe('Maximum number of ended jobs'),
  maxBytes: z
    .number()
    .int()
    .min(0)
    .default(16 * 1024 ** 3)
    .describe('Size of database and output above which the oldest ended jobs are deleted'),
});

const egressSettings = z.strictObject({
  allow: z
    .array(z.string())
    .default([])
    .describe('Private hosts, host:port or CIDRs that guarded requests may reach'),
  trustCertificates: z
    .record(z.string().min(1), z.string().regex(/^(?:any|(?:[0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2})$/))
    .default({})
    .describe(
      'Accepted certificates per host or host:port without a trusted issuer: the SHA-256 fingerprint (AA:BB:…), or `any`',
    ),
});

const count = (value: number, what: string) => z.number().min(0).default(value).describe(what);

export const httpSettings = z.strictObject({
  maxBodyBytes: count(10 * 1024 ** 2, 'Maximum request body'),
  keyRate: count(1000, 'Calls per second of one key over TCP; 0 means no limit'),
  keyBurst: count(2000, 'Burst of calls of one key'),
  addressRate: count(20, 'Calls per second of one address without a valid key; 0 means no limit'),
  addressBurst: count(60, 'Burst of calls of one address without a valid key'),
  headersTimeoutMs: count(20 * second, 'Time for a client to send its headers'),
  requestTimeoutMs: count(120 * second, 'Time for a client to send the whole request'),
  idleTimeoutMs: count(65 * second, 'How long an idle connection is kept'),
  maxConnections: count(2000, 'Open connections over TCP'),
  maxKeyConnections: count(1500, 'Open connections of one key'),
  maxAddressConnections: count(1200, 'Open connections of one address that have not sent a key'),
  maxKeyStreams: count(200, 'Concurrent event streams of one key'),
  maxAddressCalls: count(64, 'Concurrent calls of one address without a key, including streams'),
  maxAnonymousBodyBytes: count(64 * 1024, 'Maximum request body without a key'),
  maxAnonymousBytes: count(4 * 1024 ** 2, 'Total size of request bodies without a key in memory'),
  maxKeyBytes: count(
    128 * 1024 ** 2,
    'Total size of request bodies of one key in memory; further ones wait',
  ),
  sseKeepAliveMs: count(15 * second, 'Interval of keep-alive comments on an idle event stream'),
  maxSessionMs: count(30 * day, 'Lifetime of a dashboard session'),
  stopTimeoutMs: count(10 * second, 'How long a stopping server waits for running calls'),
});

const clusterSettings = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,60}$/)
    .default('errand')
    .describe('Name of the cluster; a schema belongs to one cluster'),
  labels: z
    .array(z.string().regex(/^[\w.-]{1,60}(=[\w.-]{0,60})?$/))
    .default([])
    .describe('Labels of this node that jobs may require: gpu, zone=eu'),
  nodeUrl: z
    .url()
    .optional()
    .describe(
      'URL at which other nodes reach this one; default: its listening address, or its address towards the database',
    ),
  goneMs: z
    .number()
    .int()
    .min(second)
    .default(day)
    .describe('A node silent for this long is gone; other nodes delete its expired jobs'),
  archive: z
    .strictObject({
      endpoint: z.url().describe('S3 endpoint with the bucket: http://minio:9000/errand'),
      region: z.string().default('auto').describe('Region of the bucket'),
      prefix: z.string().default('output/').describe('Prefix of object keys'),
    })
    .optional()
    .describe('Object storage for the output of ended jobs'),
});

const tracingSettings = z.strictObject({
  endpoint: z
    .url()
    .optional()
    .describe('OTLP collector over HTTP: http://collector:4318, or the full URL …/v1/traces'),
  ratio: z
    .number()
    .min(0)
    .max(1)
    .default(1)
    .describe('Share of calls without a trace parent that are traced'),
  serviceName: z.string().min(1).max(200).default('errand').describe('service.name of the spans'),
});

const core = {
  tracing: tracingSettings.prefault({}),
  cluster: clusterSettings.prefault({}),
  server: serverSettings.prefault({}),
  http: httpSettings.prefault({}),
  retention: retentionSettings.prefault({}),
  egress: egressSettings.prefault({}),
  onEnd: onEndSettings.prefault({}),
};

interface Section {
  name: string;
  settings?: z.ZodType;
}

export interface Config {
  home: string;
  /** A postgres:// address, or `sqlite` for the home's own database. Undefined means `sqlite` by default. */
  store: string | undefined;
  server: z.infer<typeof serverSettings>;
  http: z.infer<typeof httpSettings>;
  retention: z.infer<typeof retentionSettings>;
  egress: z.infer<typeof egressSettings>;
  onEnd: z.infer<typeof onEndSettings>;
  cluster: z.infer<typeof clusterSettings>;
  tracing: z.infer<typeof tracingSettings>;
  /** The kinds' sections, parsed with their own schemas. */
  sections: Record<string, unknown>;
  logLevel: LogLevel;
  socketPath: string;
  /** A value from the environment or from home/env (0600). */
  secret(name: string): string | undefined;
  /** A value from home/env only. Callers may name these. */
  homeSecret(name: string): string | undefined;
}

interface ConfigOptions {
  home?: string;
  store?: string;
  port?: number;
  host?: string;
  labels?: readonly string[];
  sections?: readonly Section[];
}

export function loadConfig(
  options: ConfigOptions = {},
  env: Record<string, string | undefined> = environment(),
): Config {
  const { home, socketPath } = homePlace(options.home, env);
  const file = readConfigFile(join(home, 'config.json'), options.sections ?? []);
  const overrides = {
    ...numberOverride('port', options.port ?? env.ERRAND_PORT),
    ...stringOverride('host', options.host ?? env.ERRAND_HOST),
    ...stringOverride('publicUrl', env.ERRAND_PUBLIC_URL),
    ...numberOverride('leaseMs', env.ERRAND_LEASE_MS),
    ...numberOverride('sweepMs', env.ERRAND_SWEEP_MS),
    ...numberOverride('idleExitMs', env.ERRAND_IDLE_EXIT_MS),
  };
  const server = serverSettings.safeParse({ ...file.server, ...overrides });
  if (!server.success) {
    throw badOverride(server.error, {
      port: options.port === undefined ? 'ERRAND_PORT' : '--port',
      host: options.host === undefined ? 'ERRAND_HOST' : '--host',
      publicUrl: 'ERRAND_PUBLIC_URL',
      leaseMs: 'ERRAND_LEASE_MS',
      sweepMs: 'ERRAND_SWEEP_MS',
      idleExitMs: 'ERRAND_IDLE_EXIT_MS',
    });
  }
  return {
    home,
    store: storeAddress(options, env),
    server: server.data,
    http: file.http,
    retention: file.retention,
    egress: file.egress,
    onEnd: file.onEnd,
    cluster: clusterOf(file.cluster, options, env),
    tracing: tracingOf(file.tracing, env),
    sections: file.sections,
    logLevel: logLevelOf(env.ERRAND_LOG),
    socketPath,
    secret: (name) => ownValue(env, name) ?? ownValue(readEnvFile(join(home, 'env')), name),
    homeSecret: (name) => ownValue(readEnvFile(join(home, 'env')), name),
  };
}

/** Settings that environment variables override, with the variable. */
export function environmentSettings(
  env: Record<string, string | undefined>,
): ReadonlyMap<string, string> {
  const variables: [setting: string, variable: string][] = [
    ['server.port', 'ERRAND_PORT'],
    ['server.host', 'ERRAND_HOST'],
    ['server.publicUrl', 'ERRAND_PUBLIC_URL'],
    ['server.leaseMs', 'ERRAND_LEASE_MS'],
    ['server.sweepMs', 'ERRAND_SWEEP_MS'],
    ['server.idleExitMs', 'ERRAND_IDLE_EXIT_MS'],
    ['cluster.labels', 'ERRAND_LABELS'],
    ['cluster.name', 'ERRAND_CLUSTER'],
    ['cluster.nodeUrl', 'ERRAND_NODE_URL'],
    ['tracing.endpoint', 'OTEL_EXPORTER_OTLP_ENDPOINT'],
    ['tracing.endpoint', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'],
    ['tracing.serviceName', 'OTEL_SERVICE_NAME'],
  ];
  return new Map(variables.filter(([, variable]) => env[variable] !== undefined));
}

/** From the options, the environment or home/env. An unknown address is rejected, because falling back would split the data. */
export function storeAddress(
  options: Pick<ConfigOptions, 'home' | 'store'> = {},
  env: Record<string, string | undefined> = environment(),
): string | undefined {
  const { home } = homePlace(options.home, env);
  const address = options.store ?? env.ERRAND_STORE ?? readEnvFile(join(home, 'env')).ERRAND_STORE;
  if (address === undefined || address === 'sqlite' || isPostgres(address)) return address;
  throw new AppError('invalidInput', 'The store address must be postgres://… or sqlite.', {
    hint: 'Use postgres://user:password@host:5432/database, or sqlite for the database of the home (ERRAND_HOME).',
  });
}

export const isPostgres = (address: string | undefined): address is string =>
  address !== undefined && /^postgres(ql)?:/i.test(address);

function clusterOf(
  file: Config['cluster'],
  options: ConfigOptions,
  env: Record<string, string | undefined>,
): Config['cluster'] {
  const labels = options.labels ?? env.ERRAND_LABELS?.split(',').filter((label) => label !== '');
  const parsed = clusterSettings.safeParse({
    ...file,
    ...(labels === undefined ? {} : { labels }),
    ...stringOverride('name', env.ERRAND_CLUSTER),
    ...stringOverride('nodeUrl', env.ERRAND_NODE_URL),
  });
  if (!parsed.success) {
    throw badOverride(parsed.error, {
      labels: options.labels === undefined ? 'ERRAND_LABELS' : '--label',
      name: 'ERRAND_CLUSTER',
      nodeUrl: 'ERRAND_NODE_URL',
    });
  }
  return parsed.data;
}

/** The standard OpenTelemetry variables override the file. */
function tracingOf(
  file: Config['tracing'],
  env: Record<string, string | undefined>,
): Config['tracing'] {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const parsed = tracingSettings.safeParse({
    ...file,
    ...stringOverride('endpoint', endpoint),
    ...stringOverride('serviceName', env.OTEL_SERVICE_NAME),
  });
  if (!parsed.success) {
    throw badOverride(parsed.error, {
      endpoint: 'OTEL_EXPORTER_OTLP_ENDPOINT',
      serviceName: 'OTEL_SERVICE_NAME',
    });
  }
  return parsed.data;
}

function readConfigFile(path: string, sections: readonly Section[]) {
  const known: Record<string, z.ZodType> = { ...core };
  for (const { name, settings } of sections)
    known[name] = settings ?? z.strictObject({}).prefault({});
  let raw: unknown = {};
  if (existsSync(path)) {
    try {
      const text = readFileSync(path, 'utf8');
      raw = JSON.parse(upgradeConfigText(text, () => configSchema(sections)));
    } catch (error) {
      throw new AppError('invalidInput', `${path} is not JSON: ${(error as Error).message}`, {
        hint: 'Correct the file. The server was not started.',
        cause: error,
      });
    }
  }
  const parsed = z.strictObject({ $schema: z.string().optional(), ...known }).safeParse(raw);
  if (!parsed.success) throw badConfig(path, parsed.error);
  const {
    server,
    http,
    retention,
    egress,
    onEnd,
    cluster,
    tracing,
    $schema: _schema,
    ...rest
  } = parsed.data as Record<string, unknown>;
  return {
    server: server as Config['server'],
    http: http as Config['http'],
    retention: retention as Config['retention'],
    egress: egress as Config['egress'],
    onEnd: onEnd as Config['onEnd'],
    cluster: cluster as Config['cluster'],
    tracing: tracing as Config['tracing'],
    sections: rest,
  };
}

/** The file is valid, so the error is in a flag or variable. Names it. */
function badOverride(error: z.ZodError, names: Record<string, string>): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const [field] = issue.path;
    return `${names[String(field)] ?? issue.path.join('.')}: ${issueText(issue)}`;
  });
  return new AppError('invalidInput', issues.join('; '), { hint: 'The server was not started.' });
}

/** A wrong setting prevents the start: guessing could disable a protection. */
function badConfig(where: string, error: z.ZodError): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const text = issueText(issue);
    return issue.path.length > 0 ? `${issue.path.join('.')}: ${text}` : text;
  });
  return new AppError('invalidInput', `Invalid settings in ${where}: ${issues.join('; ')}`, {
    hint: 'Correct them. The server was not started.',
  });
}

/** The published JSON Schema of config.json. */
export function configSchema(sections: readonly Section[]): unknown {
  const shape: Record<string, z.ZodType> = { ...core };
  for (const { name, settings } of sections) if (settings) shape[name] = settings;
  return z.toJSONSchema(z.strictObject({ $schema: z.string().optional(), ...shape }), {
    io: 'input',
  });
}

const stringOverride = (name: string, value: string | undefined) =>
  value === undefined ? {} : { [name]: value };
const numberOverride = (name: string, value: string | number | undefined) =>
  value === undefined ? {} : { [name]: Number(value) };
