// What an endpoint is, as its owner writes it: recipe of its workers, scaling, times and limits, each with its default.
// The same schema checks operations, the `endpoints` section of config.json and its published JSON Schema.
import { z } from 'zod';
import { AppError } from '../../errors.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Paths of the RunPod dialect and of its cloud: an endpoint of that name could never be reached. */
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
const cwd = z.string().max(4000).optional().describe('Working folder; default: that of the server');

/** Of several forms the one that was meant: that with the fewest faults says what they are. */
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

/** Keyed by what the worker is; exactly one of them. */
export const recipe = z
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
          .regex(/^[^-\s]\S*$/, 'not the name of an image')
          .describe('A container image with such a worker'),
        args: z.array(z.string().max(10_000)).max(100).optional(),
        options: z
          .array(z.string().regex(/^-/, 'not an option').max(10_000))
          .max(100)
          .optional()
          .describe('More options of docker run or podman run: --gpus=all, --volume=…'),
      }),
    ],
    { error: nearest },
  )
  .describe('How workers are started; none: they come from outside with a worker key');
export type Recipe = z.infer<typeof recipe>;

export const scaling = z
  .union(
    [
      z.strictObject({
        type: z.literal('QUEUE_DELAY'),
        queueDelay: z.number().min(0).max(3600).default(4).describe('Seconds a job may wait'),
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
      .describe('How long the remote may take to answer one call'),
    callbackUrl: z
      .url()
      .optional()
      .describe('How the remote reaches this server; without it results are polled for'),
  })
  .describe('Jobs go there instead of to workers of this server');
export type Remote = z.infer<typeof remote>;

const times = {
  executionTimeoutMs: z
    .number()
    .int()
    .min(5 * second)
    .max(7 * day)
    .default(10 * minute)
    .describe('Running time of one attempt'),
  ttlMs: z
    .number()
    .int()
    .min(10 * second)
    .max(7 * day)
    .default(day)
    .describe('Life of a job from its submit, waiting and running'),
  retentionMs: z
    .number()
    .int()
    .min(minute)
    .max(365 * day)
    .optional()
    .describe("Ended jobs are forgotten after this; default: the home's retention"),
  idleTimeoutMs: z
    .number()
    .int()
    .min(0)
    .max(hour)
    .default(10 * second)
    .describe('An idle worker above the minimum is stopped after this'),
  startTimeoutMs: z
    .number()
    .int()
    .min(second)
    .max(hour)
    .default(7 * minute)
    .describe('A worker that has not asked for work after this is unhealthy'),
  leaseMs: z
    .number()
    .int()
    .min(2 * second)
    .max(10 * minute)
    .default(40 * second)
    .describe('A silent worker loses its jobs after this'),
  stopMs: z
    .number()
    .int()
    .min(100)
    .max(10 * minute)
    .default(10 * second)
    .describe('Time to stop after a cancel, a timeout or SIGTERM before it is forced'),
};

export const endpointSpec = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  recipe: recipe.optional(),
  remote: remote.optional(),
  scaling: scaling.prefault({ type: 'QUEUE_DELAY' }),
  workersMin: z.number().int().min(0).max(1000).default(0),
  workersMax: z.number().int().min(0).max(1000).default(3),
  concurrency: z.number().int().min(1).max(1000).default(1).describe('Jobs at once per worker'),
  ...times,
  redeliveries: z
    .number()
    .int()
    .min(0)
    .max(10)
    .default(1)
    .describe('How often a job is handed out again after its worker was lost'),
  env: env.default({}).describe('Environment of its workers'),
  envFrom: z
    .array(envName)
    .max(100)
    .default([])
    .describe("Names of the server's own environment (or home/env) to pass on"),
  spareRunner: z
    .boolean()
    .default(true)
    .describe('A runner without a handler is kept started for module recipes, for a quick start'),
  queueMax: z
    .number()
    .int()
    .min(0)
    .default(1_000_000)
    .describe('More waiting jobs are refused (429)'),
  runsPer10s: z
    .number()
    .int()
    .min(1)
    .default(100_000)
    .describe('More submits within ten seconds are refused (429)'),
  details: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Kept and shown, not acted on: gpu, cpu, disk … of a RunPod endpoint'),
});
export type EndpointSpec = z.infer<typeof endpointSpec>;

type Shape = typeof endpointSpec.shape;
/** Null takes them away: then an endpoint can change from a recipe to a remote and back. */
const removable: ReadonlySet<string> = new Set(['recipe', 'remote', 'retentionMs']);

/** The fields of a change: none has a default, because what is left out stays as it is. */
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

/** The section of config.json: endpoints by id. */
export const endpointsSection = z.record(endpointId, endpointSpec).prefault({});
export type EndpointsSection = z.infer<typeof endpointsSection>;

export function checkEndpoint(id: string, spec: EndpointSpec): void {
  if (reservedIds.has(id.toLowerCase())) {
    throw new AppError('invalidInput', `An endpoint cannot be called ${id}: it is a route.`, {
      hint: `Choose another id; taken by routes are ${[...reservedIds].join(', ')}.`,
    });
  }
  if (spec.recipe && spec.remote) {
    throw new AppError('invalidInput', 'An endpoint has a recipe or a remote, not both.', {
      hint: 'Leave one of them out.',
    });
  }
  if (spec.workersMin > spec.workersMax) {
    throw new AppError('invalidInput', 'workersMin is larger than workersMax.', {
      hint: 'Raise workersMax or lower workersMin.',
    });
  }
}

/** What a worker is made of: when this changes, workers are replaced. */
const releaseFields = ['recipe', 'env', 'envFrom', 'concurrency', 'details'] as const;

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
