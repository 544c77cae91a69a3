// Translates endpoints to RunPod's format (REST v2) and back. Settings that this machine does not support (GPUs, data
// centers, disks) are stored and shown without effect.
import { fileURLToPath, pathToFileURL } from 'node:url';
import { AppError } from '../../errors.ts';
import type { EndpointView } from '../../kinds/endpoint/contracts/endpoints.ts';
import { objectOf } from './translate.ts';

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
  const { details = {} } = spec;
  const recipe: Record<string, unknown> = spec.recipe ?? {};
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
      min: spec.minWorkers,
      max: spec.maxWorkers,
      idleTimeout: Math.round(spec.idleTimeoutMs / 1000),
    },
    scaling: spec.scaling,
    timeout: spec.executionTimeoutMs,
    version: view.version,
    ...(view.trouble === undefined ? {} : { trouble: view.trouble }),
    createdAt: view.createdAt,
  };
}

/** A handler file on this machine is a `file:` image. A worker command has no image. */
function imageOf(recipe: Record<string, unknown>): string | null {
  if (typeof recipe.image === 'string') return recipe.image;
  if (typeof recipe.module === 'string') return pathToFileURL(recipe.module).href;
  return null;
}

/** Fields of save_endpoint from a create or (partial) update body. */
export function endpointFields(
  body: Record<string, unknown>,
  before?: EndpointView,
): Record<string, unknown> {
  refuseUnknown(body);
  const { type, scaling, workers, image, args, env, timeout, name } = body;
  if (type !== undefined && type !== 'QUEUE') {
    throw new AppError('invalidInput', 'This server supports only endpoints of type QUEUE.', {
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
    ...(min === undefined ? {} : { minWorkers: min }),
    ...(max === undefined ? {} : { maxWorkers: max }),
    ...(typeof idleTimeout === 'number' ? { idleTimeoutMs: idleTimeout * 1000 } : {}),
    ...(timeout === undefined ? {} : { executionTimeoutMs: timeout }),
    ...(Object.keys(details).length === 0
      ? {}
      : { details: { ...before?.spec.details, ...details } }),
  };
}

function recipeOf(image: unknown, args: unknown, before: EndpointView | undefined) {
  const current: Record<string, unknown> = before?.spec.recipe ?? {};
  const present = image ?? current.image;
  if (typeof present !== 'string' || present === '') {
    const needed = image === undefined ? "'args' require an 'image'" : 'image: not an image name';
    throw wrongField(needed);
  }
  if (present.startsWith('file:')) return { module: pathOf(present) };
  const { args: old, options } = current;
  const given = args ?? old ?? [];
  const list = typeof given === 'string' ? given.split(' ').filter((word) => word !== '') : given;
  return {
    image: present,
    ...(Array.isArray(list) && list.length === 0 ? {} : { args: list }),
    // Recipes that RunPod does not know. An update from its clients must not change them.
    ...(options === undefined ? {} : { options }),
  };
}

function pathOf(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    throw wrongField(`image: ${url} is not a file on this machine; use file:///path/handler.ts`);
  }
}

/** In seconds, as in RunPod's API. */
const maxIdleTimeout = 3600;

function checkIdleTimeout(idleTimeout: unknown, scaling: unknown): void {
  if (idleTimeout === undefined) return;
  const isWhole = typeof idleTimeout === 'number' && Number.isInteger(idleTimeout);
  if (!isWhole || idleTimeout < 1 || idleTimeout > maxIdleTimeout)
    throw wrongField(
      `workers.idleTimeout: must be a number of seconds from 1 to ${maxIdleTimeout}`,
    );
  if ((scaling as { type?: string } | undefined)?.type !== 'REQUEST_COUNT') return;
  throw new AppError('invalidInput', 'workers.idleTimeout requires QUEUE_DELAY scaling.', {
    hint: 'Omit idleTimeout.',
  });
}

function wrongField(message: string): AppError {
  const issues = [{ path: '', message }];
  return new AppError('invalidInput', message, { data: { issues } });
}

function refuseUnknown(body: Record<string, unknown>): void {
  const unknown = Object.keys(body).filter((field) => !known.has(field));
  if (unknown.length === 0) return;
  throw new AppError('invalidInput', 'The body contains unknown fields.', {
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

/** Counts workers by state. */
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
