// An endpoint in RunPod's shape (REST v2) and back. What RunPod has and this machine has not (GPUs, data centers, disks)
// is kept and shown, not acted on.
import { fileURLToPath, pathToFileURL } from 'node:url';
import { AppError } from '../../errors.ts';
import { objectOf } from './words.ts';

export interface EndpointView {
  id: string;
  version: number;
  spec: {
    name?: string;
    recipe?: Record<string, unknown>;
    scaling: Record<string, unknown>;
    workersMin: number;
    workersMax: number;
    idleTimeoutMs: number;
    executionTimeoutMs: number;
    env: Record<string, string>;
    details?: Record<string, unknown>;
  };
  health: { jobs: Record<string, number>; workers: Record<string, number> };
  trouble?: string;
  createdAt: string;
}

const kept = [
  'disk',
  'ports',
  'registry',
  'gpu',
  'cpu',
  'dataCenterIds',
  'networkVolumes',
  'flashboot',
  'templateId',
] as const;
const known = new Set<string>([
  ...kept,
  'name',
  'type',
  'scaling',
  'image',
  'args',
  'env',
  'workers',
  'timeout',
]);

export function endpointBody(view: EndpointView, baseUrl: string): Record<string, unknown> {
  const { id, spec } = view;
  const root = `${baseUrl}/v2/${id}`;
  const { recipe = {}, details = {} } = spec;
  return {
    id,
    name: spec.name ?? id,
    type: 'QUEUE',
    requestUrls: {
      run: `${root}/run`,
      runSync: `${root}/runsync`,
      status: `${root}/status/{jobId}`,
      stream: `${root}/stream/{jobId}`,
      cancel: `${root}/cancel/{jobId}`,
      retry: `${root}/retry/{jobId}`,
      purgeQueue: `${root}/purge-queue`,
      health: `${root}/health`,
    },
    image: imageOf(recipe),
    args: Array.isArray(recipe.args) ? recipe.args : [],
    env: spec.env,
    gpu: null,
    cpu: null,
    disk: null,
    ports: [],
    registry: null,
    dataCenterIds: [],
    networkVolumes: [],
    flashboot: 'OFF',
    ...details,
    workers: {
      min: spec.workersMin,
      max: spec.workersMax,
      idleTimeout: Math.round(spec.idleTimeoutMs / 1000),
    },
    scaling: spec.scaling,
    timeout: spec.executionTimeoutMs,
    version: view.version,
    ...(view.trouble === undefined ? {} : { trouble: view.trouble }),
    createdAt: view.createdAt,
  };
}

/** A handler file on this machine is a `file:` image; a worker command has no image. */
function imageOf(recipe: Record<string, unknown>): string | null {
  if (typeof recipe.image === 'string') return recipe.image;
  if (typeof recipe.module === 'string') return pathToFileURL(recipe.module).href;
  return null;
}

/** Fields of save_endpoint from a create or (sparse) update body. */
export function endpointFields(
  body: Record<string, unknown>,
  before?: EndpointView,
): Record<string, unknown> {
  refuseUnknown(body);
  const { type, scaling, workers, image, args, env, timeout, name } = body;
  if (type !== undefined && type !== 'QUEUE') {
    throw new AppError('invalidInput', 'Only endpoints of type QUEUE are served here.', {
      hint: 'Create it with "type": "QUEUE".',
    });
  }
  const details = Object.fromEntries(
    kept.flatMap((field) => (body[field] === undefined ? [] : [[field, body[field]]])),
  );
  const { min, max, idleTimeout } = objectOf(workers ?? {}, '`workers`');
  checkIdleTimeout(idleTimeout, scaling ?? before?.spec.scaling);
  const recipe =
    image === undefined && args === undefined ? undefined : recipeOf(image, args, before);
  return {
    ...(name === undefined ? {} : { name }),
    ...(scaling === undefined ? {} : { scaling }),
    ...(recipe === undefined ? {} : { recipe }),
    ...(env === undefined ? {} : { env }),
    ...(min === undefined ? {} : { workersMin: min }),
    ...(max === undefined ? {} : { workersMax: max }),
    ...(typeof idleTimeout === 'number' ? { idleTimeoutMs: idleTimeout * 1000 } : {}),
    ...(timeout === undefined ? {} : { executionTimeoutMs: timeout }),
    ...(Object.keys(details).length === 0
      ? {}
      : { details: { ...before?.spec.details, ...details } }),
  };
}

function recipeOf(image: unknown, args: unknown, before: EndpointView | undefined) {
  const present = image ?? before?.spec.recipe?.image;
  if (typeof present !== 'string' || present === '') {
    const needed = image === undefined ? "'args' go with an 'image'" : 'image: not the name of one';
    throw wrongField(needed);
  }
  if (present.startsWith('file:')) return { module: pathOf(present) };
  const { args: old, options } = before?.spec.recipe ?? {};
  const given = args ?? old ?? [];
  const list = typeof given === 'string' ? given.split(' ').filter((word) => word !== '') : given;
  return {
    image: present,
    ...(Array.isArray(list) && list.length === 0 ? {} : { args: list }),
    // Ours alone: an update from there does not know them.
    ...(options === undefined ? {} : { options }),
  };
}

function pathOf(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    throw wrongField(`image: ${url} is not a file of this machine; write file:///path/handler.ts`);
  }
}

/** Seconds, as RunPod counts them. */
const idleTimeoutMax = 3600;

function checkIdleTimeout(idleTimeout: unknown, scaling: unknown): void {
  if (idleTimeout === undefined) return;
  const isWhole = typeof idleTimeout === 'number' && Number.isInteger(idleTimeout);
  if (!isWhole || idleTimeout < 1 || idleTimeout > idleTimeoutMax)
    throw wrongField(`workers.idleTimeout: not a number of seconds from 1 to ${idleTimeoutMax}`);
  if ((scaling as { type?: string } | undefined)?.type !== 'REQUEST_COUNT') return;
  throw new AppError('invalidInput', 'workers.idleTimeout goes with QUEUE_DELAY scaling only.', {
    hint: 'Leave idleTimeout out.',
  });
}

function wrongField(message: string): AppError {
  const issues = [{ path: '', message }];
  return new AppError('invalidInput', message, { data: { issues } });
}

function refuseUnknown(body: Record<string, unknown>): void {
  const unknown = Object.keys(body).filter((field) => !known.has(field));
  if (unknown.length === 0) return;
  throw new AppError('invalidInput', 'The body has fields this does not know.', {
    data: {
      issues: unknown.map((field) => ({
        path: '',
        message: `additional properties '${field}' not allowed`,
      })),
    },
  });
}

export interface WorkerView {
  id: string;
  status: string;
  version: number;
  isStale: boolean;
  uptimeSeconds: number;
  startedAt: string;
}

export function workersBody(view: { version: number; workers: WorkerView[] }, image: unknown) {
  return {
    workers: view.workers.map((worker) => ({
      id: worker.id,
      status: worker.status,
      isStale: worker.isStale,
      version: worker.version,
      gpuCount: 0,
      image,
      uptimeSeconds: worker.uptimeSeconds,
      gpuTypeId: null,
      dataCenterId: null,
      startedAt: worker.startedAt,
    })),
    summary: workerSummary(view.workers),
    endpointVersion: view.version,
  };
}

/** How many are in which state. */
export function workerSummary(workers: readonly { status: string }[]) {
  const of = (word: string) => workers.filter(({ status }) => status === word).length;
  return {
    running: of('RUNNING'),
    idle: of('IDLE'),
    initializing: of('INITIALIZING'),
    throttled: of('THROTTLED'),
    unhealthy: of('UNHEALTHY'),
    total: workers.length,
  };
}
