// The settings of an endpoint: recipe, scaling, timeouts and limits, each with its default. The same schema validates
// operations, the `endpoint` section of config.json and its published JSON Schema.
import { z } from 'zod';
import { AppError } from '../../errors.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Paths of the RunPod dialect and of RunPod's cloud. An endpoint with such an id could not be reached. */
const reservedIds: ReadonlySet<string> = new Set([
  'serverless',
  'pods',
  'clusters',
  'templates',
  'network-volumes',
  'registries',
  'catalog',
  'billing',
  'account',
  'openapi',
  'hooks',
]);

export const endpointId = z
  .string()
  .regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$/, 'letters, digits, - and _ only, at most 63')
  .describe('Endpoint id, the {endpointId} of its URLs');

const envName = z.string().regex(/^[A-Za-z_]\w*$/, 'not a variable name');
const env = z.record(envName, z.string().max(100_000));
const command = z.array(z.string().min(1).max(10_000)).min(1).max(100);
const cwd = z
  .string()
  .max(4000)
  .optional()
  .describe('Working folder; default: an empty folder per worker');

/** Of several forms, reports the one with the fewest faults, because it is most likely the intended one. */
function nearest(issue: { errors?: readonly (readonly z.core.$ZodIssue[])[] }): string {
  const forms = issue.errors ?? [];
  const fewest = Math.min(...forms.map((faults) => faults.length));
  const texts = forms
    .filter((faults) => faults.length === fewest)
    .map((faults) => faults.map(faultText).join(', '));
  return [...new Set(texts)].join('; or ');
}

const faultText = ({ path, message }: z.core.$ZodIssue): string =>
  path.length === 0 ? message : `${path.join('.')}: ${message}`;

/** Exactly one form; its key names the type of worker. */
const recipe = z
  .union(
    [
      z.strictObject({
        module: z
          .string()
          .min(1)
          .max(4000)
          .describe('A .js/.ts file whose default export (or `handler`) is the handler'),
        cwd,
        memoryMb: z.number().int().min(32).max(1_048_576).optional().describe('Heap limit'),
      }),
      z.strictObject({
        worker: command.describe('A program that speaks the RunPod worker protocol'),
        cwd,
      }),
      z.strictObject({
        perJob: command.describe('Run once per job: JSON on stdin, JSON on stdout'),
        cwd,
      }),
      z.strictObject({
        image: z
          .string()
          .max(500)
          .regex(/^[^-\s]\S*$/, 'is not an image name')
          .describe('A container image that contains such a worker'),
        args: z.array(z.string().max(10_000)).max(100).optional(),
        options: z
          .array(z.string().regex(/^-/, 'is not an option').max(10_000))
          .max(100)
          .optional()
          .describe('Additional options of docker run or podman run: --gpus=all, --volume=…'),
      }),
    ],
    { error: nearest },
  )
  .describe(
    'How workers are started. Without a recipe they connect from outside with a worker key',
  );
export type Recipe = z.infer<typeof recipe>;

const scaling = z
  .union(
    [
      z.strictObject({
        type: z.literal('QUEUE_DELAY'),
        queueDelay: z.number().min(0).max(3600).default(4).describe('Seconds that a job may wait'),
      }),
      z.strictObject({
        type: z.literal('REQUEST_COUNT'),
        requestCount: z.number().int().min(1).max(10_000).default(4).describe('Jobs per worker'),
      }),
    ],
    { error: nearest },
  )
  .describe('When another worker is started');

export const remote = z
  .strictObject({
    baseUrl: z.url().describe('https://api.runpod.ai/v2, or another Errand: http://host:7411/v2'),
    endpointId: z.string().regex(/^[a-zA-Z0-9_-]{1,100}$/),
    keyEnv: envName.describe('Name of the environment variable with its key'),
    timeoutMs: z
      .number()
      .int()
      .min(second)
      .max(10 * minute)
      .default(30 * second)
      .describe('Timeout of one call to the remote'),
    callbackUrl: z
      .url()
      .optional()
      .describe('URL at which the remote reaches this server. Without it, results are polled'),
  })
  .describe('Sends jobs to this service instead of workers of this server');
export type Remote = z.infer<typeof remote>;

const times = {
  executionTimeoutMs: z
    .number()
    .int()
    .min(5 * second)
    .max(7 * day)
    .default(10 * minute)
    .describe('Maximum running time of one attempt'),
  ttlMs: z
    .number()
    .int()
    .min(10 * second)
    .max(7 * day)
    .default(day)
    .describe('Maximum lifetime of a job from its submission, waiting and running'),
  retentionMs: z
    .number()
    .int()
    .min(minute)
    .max(365 * day)
    .optional()
    .describe('Ended jobs are deleted after this time; default: the retention of the home'),
  idleTimeoutMs: z
    .number()
    .int()
    .min(0)
    .max(hour)
    .default(10 * second)
    .describe('Idle workers above minWorkers are stopped after this time'),
  startTimeoutMs: z
    .number()
    .int()
    .min(second)
    .max(hour)
    .default(7 * minute)
    .describe('A worker that has not polled for work within this time is unhealthy'),
  askTimeoutMs: z
    .number()
    .int()
    .min(second)
    .max(hour)
    .default(30 * second)
    .describe(
      'An idle worker that does not poll for work while jobs wait is replaced after this time',
    ),
  leaseMs: z
    .number()
    .int()
    .min(2 * second)
    .max(10 * minute)
    .default(40 * second)
    .describe('A worker that is silent for this long loses its jobs'),
  stopMs: z
    .number()
    .int()
    .min(100)
    .max(10 * minute)
    .default(10 * second)
    .describe('Time to stop after a cancel, a timeout or SIGTERM before the worker is killed'),
  outageMs: z
    .number()
    .int()
    .min(second)
    .max(7 * day)
    .default(hour)
    .describe('Workers are stopped if the server is away for this long. Their results are kept'),
};

export const endpointSpec = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  recipe: recipe.optional(),
  remote: remote.optional(),
  scaling: scaling.prefault({ type: 'QUEUE_DELAY' }),
  minWorkers: z.number().int().min(0).max(1000).default(0),
  maxWorkers: z.number().int().min(0).max(1000).default(3),
  concurrency: z.number().int().min(1).max(1000).default(1).describe('Concurrent jobs per worker'),
  ...times,
  redeliveries: z
    .number()
    .int()
    .min(0)
    .max(10)
    .default(1)
    .describe('How often a job is redelivered after its worker was lost'),
  env: env.default({}).describe('Environment variables of the workers'),
  envFrom: z
    .array(envName)
    .max(100)
    .default([])
    .describe("Names of variables of the server's environment (or home/env) to pass to workers"),
  spareRunner: z
    .boolean()
    .default(true)
    .describe('Keeps one runner without a handler started, so that module recipes start quickly'),
  relay: z
    .boolean()
    .default(true)
    .describe(
      'Workers of worker and image recipes connect through a relay process that survives server restarts',
    ),
  cancelOnDisconnect: z
    .enum(['never', 'streams', 'always'])
    .default('streams')
    .describe(
      'Cancel a job when its caller disconnects: `streams` for OpenAI streams, `always` also for /runsync and every /openai request',
    ),
  maxOutboxBytes: z
    .number()
    .int()
    .min(0)
    .default(1024 * 1024 * 1024)
    .describe(
      'Maximum size of results stored per worker while the server is away; further posts wait',
    ),
  maxQueue: z
    .number()
    .int()
    .min(0)
    .default(1_000_000)
    .describe('Maximum number of waiting jobs; further ones are rejected (429)'),
  runsPer10s: z
    .number()
    .int()
    .min(1)
    .default(100_000)
    .describe('Maximum number of submissions within ten seconds; further ones are rejected (429)'),
  details: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Stored and shown without effect: gpu, cpu, disk … of a RunPod endpoint'),
});
export type EndpointSpec = z.infer<typeof endpointSpec>;

type Shape = typeof endpointSpec.shape;
/** Null removes them, so that an endpoint can change from a recipe to a remote and back. */
const removable: ReadonlySet<string> = new Set(['recipe', 'remote', 'retentionMs']);

/** The fields of a change. None has a default, because omitted fields stay unchanged. */
export const endpointChanges = Object.fromEntries(
  Object.entries(endpointSpec.shape).map(([name, field]) => [name, changeOf(name, field)]),
) as { [K in keyof Shape]: z.ZodOptional<z.ZodType<z.output<Shape[K]> | null>> };

function changeOf(name: string, field: z.ZodType): z.ZodType {
  const text = field.description;
  const hasDefault = field instanceof z.ZodDefault || field instanceof z.ZodPrefault;
  const bare = hasDefault || field instanceof z.ZodOptional ? (field.unwrap() as z.ZodType) : field;
  const named = text === undefined ? bare : bare.describe(text);
  return removable.has(name) ? named.nullable().optional() : named.optional();
}

export function checkEndpoint(id: string, spec: EndpointSpec): void {
  if (reservedIds.has(id.toLowerCase())) {
    throw new AppError('invalidInput', `The id ${id} is reserved for a route.`, {
      hint: `Choose another id. Reserved ids: ${[...reservedIds].join(', ')}.`,
    });
  }
  if (spec.recipe && spec.remote) {
    throw new AppError('invalidInput', 'An endpoint cannot have both a recipe and a remote.', {
      hint: 'Omit one of them.',
    });
  }
  if (spec.minWorkers > spec.maxWorkers) {
    throw new AppError('invalidInput', 'minWorkers is larger than maxWorkers.', {
      hint: 'Raise maxWorkers or lower minWorkers.',
    });
  }
}

/** What workers run. When one of these fields changes, workers are replaced. */
const releaseFields = ['recipe', 'env', 'envFrom', 'concurrency', 'relay', 'details'] as const;

export interface FieldChange {
  field: string;
  old: unknown;
  new: unknown;
}

export function releaseDiff(before: EndpointSpec, after: EndpointSpec): FieldChange[] {
  return releaseFields
    .filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))
    .map((field) => ({ field, old: before[field] ?? null, new: after[field] ?? null }));
}
