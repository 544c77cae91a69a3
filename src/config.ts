// Every setting of the server with its default, unit and limit. The only reader of config.json (and, with
// config-place.ts, of the environment).
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ownValue } from './runtime/by-name.ts';
import { environment, homePlace, logLevelOf, readEnvFile } from './config-place.ts';
import { AppError } from './errors.ts';
import { issueText } from './issue-text.ts';
import type { LogLevel } from './runtime/log.ts';

const second = 1000;
const day = 86_400 * second;

export const serverSettings = z.strictObject({
  port: z.number().int().min(0).max(65_535).default(7411).describe('TCP port of `errand serve`'),
  host: z.string().default('127.0.0.1').describe('Address it listens on'),
  publicUrl: z
    .url()
    .optional()
    .describe('How others reach this server, when a proxy stands before it'),
  allowedHosts: z
    .array(z.string())
    .default([])
    .describe('Host names beyond this machine, for Host and Origin checks'),
  leaseMs: z
    .number()
    .int()
    .min(1000)
    .default(30 * second)
    .describe('A silent holder loses its attempt after this'),
  sweepMs: z
    .number()
    .int()
    .min(50)
    .default(1 * second)
    .describe('How often time-driven changes are looked for'),
  stopMsMax: z
    .number()
    .int()
    .min(0)
    .default(30 * second)
    .describe('A stopped attempt is given up after this'),
  idleExitMs: z
    .number()
    .int()
    .min(0)
    .default(60 * second)
    .describe('A server started by a front ends after so long without anything to do'),
  waitMsMax: z
    .number()
    .int()
    .min(1000)
    .max(55 * second)
    .default(50 * second)
    .describe('Longest wait in one call'),
});

const retentionSettings = z.strictObject({
  ageMsMax: z
    .number()
    .int()
    .min(0)
    .default(30 * day)
    .describe('Ended jobs are forgotten after this'),
  countMax: z.number().int().min(0).default(100_000).describe('At most so many ended jobs'),
  bytesMax: z
    .number()
    .int()
    .min(0)
    .default(16 * 1024 ** 3)
    .describe('Database and output of ended jobs above which the oldest ended jobs go'),
});

const egressSettings = z.strictObject({
  allow: z
    .array(z.string())
    .default([])
    .describe(
      'Hosts, host:port or CIDRs that guarded requests may reach although they are private',
    ),
});

const count = (value: number, what: string) => z.number().min(0).default(value).describe(what);

export const httpSettings = z.strictObject({
  bodyBytesMax: count(10 * 1024 ** 2, 'Largest body of a call'),
  keyRate: count(1000, 'Calls per second of one key over TCP; 0: no limit'),
  keyBurst: count(2000, 'Calls of one key at once after a pause'),
  addressRate: count(20, 'Calls per second of one address without a valid key; 0: no limit'),
  addressBurst: count(60, 'Calls of one address at once after a pause'),
  headersTimeoutMs: count(20 * second, 'Time for a client to send its headers'),
  requestTimeoutMs: count(120 * second, 'Time for a client to send the whole request'),
  idleTimeoutMs: count(65 * second, 'How long an idle connection is kept'),
  connectionsMax: count(2000, 'Open connections over TCP'),
  keyConnectionsMax: count(1500, 'Open connections of one key'),
  addressConnectionsMax: count(
    1200,
    'Open connections of one address that have not sent a key yet',
  ),
  keyStreamsMax: count(200, 'Event streams of one key that are open at the same time'),
  addressCallsMax: count(
    64,
    'Calls of one address without a key that are under way, streams included',
  ),
  anonymousBodyBytesMax: count(64 * 1024, 'Largest body of a call without a key'),
  anonymousBytesMax: count(4 * 1024 ** 2, 'Bodies of all calls without a key that are in memory'),
  keyBytesMax: count(128 * 1024 ** 2, 'Bodies of one key in memory; further ones wait'),
  sseKeepAliveMs: count(15 * second, 'Comments on a silent event stream'),
  stopTimeoutMs: count(10 * second, 'How long a stop waits for calls under way'),
});

const clusterSettings = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,60}$/)
    .default('errand')
    .describe('Name of the cluster; a schema belongs to one'),
  labels: z
    .array(z.string().regex(/^[\w.-]{1,60}(=[\w.-]{0,60})?$/))
    .default([])
    .describe('What jobs may ask of this node: gpu, zone=eu'),
  nodeUrl: z
    .url()
    .optional()
    .describe(
      'How other nodes reach this one; default: where it listens, or its address towards the database',
    ),
  goneMs: z
    .number()
    .int()
    .min(second)
    .default(day)
    .describe('A node that was silent for so long is gone: its jobs are forgotten by the others'),
  archive: z
    .strictObject({
      endpoint: z.url().describe('S3 endpoint with the bucket: http://minio:9000/errand'),
      region: z.string().default('auto').describe('Region of the bucket'),
      prefix: z.string().default('output/').describe('What the keys of objects begin with'),
    })
    .optional()
    .describe('Where output of ended jobs is kept, so that it outlives its node'),
});

const tracingSettings = z.strictObject({
  endpoint: z
    .url()
    .optional()
    .describe('OTLP over HTTP: http://collector:4318 (or the whole address …/v1/traces)'),
  ratio: z
    .number()
    .min(0)
    .max(1)
    .default(1)
    .describe('Share of calls without a trace of their own that start one'),
  serviceName: z.string().min(1).max(200).default('errand').describe('service.name of the spans'),
});

const core = {
  tracing: tracingSettings.prefault({}),
  cluster: clusterSettings.prefault({}),
  server: serverSettings.prefault({}),
  http: httpSettings.prefault({}),
  retention: retentionSettings.prefault({}),
  egress: egressSettings.prefault({}),
};

export interface Section {
  name: string;
  settings?: z.ZodType;
}

export interface Config {
  home: string;
  /** A postgres:// address or `sqlite`, the home's own database; undefined: nobody said, which means the same. */
  store: string | undefined;
  server: z.infer<typeof serverSettings>;
  http: z.infer<typeof httpSettings>;
  retention: z.infer<typeof retentionSettings>;
  egress: z.infer<typeof egressSettings>;
  cluster: z.infer<typeof clusterSettings>;
  tracing: z.infer<typeof tracingSettings>;
  /** Sections of the kinds, parsed with their own schemas. */
  sections: Record<string, unknown>;
  logLevel: LogLevel;
  socketPath: string;
  /** A named value of the environment or of home/env (0600). */
  secret(name: string): string | undefined;
  /** The same of home/env alone: what callers may name. */
  homeSecret(name: string): string | undefined;
}

export interface ConfigWish {
  home?: string;
  store?: string;
  port?: number;
  host?: string;
  labels?: readonly string[];
  sections?: readonly Section[];
}

export function loadConfig(
  wish: ConfigWish = {},
  env: Record<string, string | undefined> = environment(),
): Config {
  const { home, socketPath } = homePlace(wish.home, env);
  const file = readConfigFile(join(home, 'config.json'), wish.sections ?? []);
  const overrides = {
    ...numberOverride('port', wish.port ?? env.ERRAND_PORT),
    ...stringOverride('host', wish.host ?? env.ERRAND_HOST),
    ...stringOverride('publicUrl', env.ERRAND_PUBLIC_URL),
    ...numberOverride('leaseMs', env.ERRAND_LEASE_MS),
    ...numberOverride('sweepMs', env.ERRAND_SWEEP_MS),
    ...numberOverride('idleExitMs', env.ERRAND_IDLE_EXIT_MS),
  };
  const server = serverSettings.safeParse({ ...file.server, ...overrides });
  if (!server.success) {
    throw badOverride(server.error, {
      port: wish.port === undefined ? 'ERRAND_PORT' : '--port',
      host: wish.host === undefined ? 'ERRAND_HOST' : '--host',
      publicUrl: 'ERRAND_PUBLIC_URL',
      leaseMs: 'ERRAND_LEASE_MS',
      sweepMs: 'ERRAND_SWEEP_MS',
      idleExitMs: 'ERRAND_IDLE_EXIT_MS',
    });
  }
  return {
    home,
    store: storeAddress(wish, env),
    server: server.data,
    http: file.http,
    retention: file.retention,
    egress: file.egress,
    cluster: clusterOf(file.cluster, wish, env),
    tracing: tracingOf(file.tracing, env),
    sections: file.sections,
    logLevel: logLevelOf(env.ERRAND_LOG),
    socketPath,
    secret: (name) => ownValue(env, name) ?? ownValue(readEnvFile(join(home, 'env')), name),
    homeSecret: (name) => ownValue(readEnvFile(join(home, 'env')), name),
  };
}

/** Which settings the environment sets, and by which variable. */
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

/** Of the wish, the environment or home/env. What is no store is refused: the home's own would be a second truth. */
export function storeAddress(
  wish: Pick<ConfigWish, 'home' | 'store'> = {},
  env: Record<string, string | undefined> = environment(),
): string | undefined {
  const { home } = homePlace(wish.home, env);
  const address = wish.store ?? env.ERRAND_STORE ?? readEnvFile(join(home, 'env')).ERRAND_STORE;
  if (address === undefined || address === 'sqlite' || isPostgres(address)) return address;
  throw new AppError('invalidInput', 'The store address is neither postgres://… nor sqlite.', {
    hint: 'Write postgres://user:password@host:5432/database, or sqlite for the home itself (ERRAND_HOME says which).',
  });
}

/** Everything else is the home's own database, or a mistake. */
export const isPostgres = (address: string | undefined): address is string =>
  address !== undefined && /^postgres(ql)?:/i.test(address);

function clusterOf(
  file: Config['cluster'],
  wish: ConfigWish,
  env: Record<string, string | undefined>,
): Config['cluster'] {
  const labels = wish.labels ?? env.ERRAND_LABELS?.split(',').filter((label) => label !== '');
  const parsed = clusterSettings.safeParse({
    ...file,
    ...(labels === undefined ? {} : { labels }),
    ...stringOverride('name', env.ERRAND_CLUSTER),
    ...stringOverride('nodeUrl', env.ERRAND_NODE_URL),
  });
  if (!parsed.success) {
    throw badOverride(parsed.error, {
      labels: wish.labels === undefined ? 'ERRAND_LABELS' : '--label',
      name: 'ERRAND_CLUSTER',
      nodeUrl: 'ERRAND_NODE_URL',
    });
  }
  return parsed.data;
}

/** The variables that every OpenTelemetry program reads. */
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
      raw = JSON.parse(readFileSync(path, 'utf8'));
    } catch (error) {
      throw new AppError('invalidInput', `${path} is not JSON: ${(error as Error).message}`, {
        hint: 'Correct the file; nothing was started.',
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
    cluster: cluster as Config['cluster'],
    tracing: tracing as Config['tracing'],
    sections: rest,
  };
}

/** What the file says was good: it is the flag or the variable over it, by the name it was given with. */
function badOverride(error: z.ZodError, names: Record<string, string>): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const [field] = issue.path;
    return `${names[String(field)] ?? issue.path.join('.')}: ${issueText(issue)}`;
  });
  return new AppError('invalidInput', issues.join('; '), { hint: 'Nothing was started.' });
}

/** A wrong setting stops the start: guessing what was meant could switch a guard off. */
function badConfig(where: string, error: z.ZodError): AppError {
  const issues = error.issues.slice(0, 5).map((issue) => {
    const text = issueText(issue);
    return issue.path.length > 0 ? `${issue.path.join('.')}: ${text}` : text;
  });
  return new AppError('invalidInput', `Wrong settings in ${where}: ${issues.join('; ')}`, {
    hint: 'Correct them; nothing was started.',
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
