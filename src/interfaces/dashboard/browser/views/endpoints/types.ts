// The parts of endpoint operations that these views show.
export interface Endpoint {
  id: string;
  version: number;
  source: string;
  spec: {
    name?: string;
    recipe?: Record<string, unknown>;
    remote?: { baseUrl: string; endpointId: string };
    minWorkers: number;
    maxWorkers: number;
    concurrency: number;
    [field: string]: unknown;
  };
  health: { jobs: Record<string, number>; workers: Record<string, number> };
  trouble?: string;
  createdAt: string;
}

export interface Worker {
  id: string;
  status: string;
  origin: string;
  version: number;
  isStale: boolean;
  jobs: string[];
  startedAt: string;
  startMs?: number;
  unhealthy?: string;
}

export interface EndedWorker {
  id: string;
  reason: string | null;
  version?: number;
  exitCode?: number | null;
  exitSignal?: string | null;
  startMs?: number;
  endedAt: string;
}

export interface Workers {
  version: number;
  workers: Worker[];
  ended: EndedWorker[];
  starts?: { count: number; p50Ms: number; p95Ms: number };
}

/** What runs the jobs, in a few words. */
export function recipeText({ spec: { recipe, remote } }: Endpoint): string {
  if (remote) return `remote ${remote.baseUrl}`;
  if (!recipe) return 'workers connect from outside';
  if ('module' in recipe) return String(recipe.module);
  if ('image' in recipe) return `image ${String(recipe.image)}`;
  return ((recipe.worker ?? recipe.perJob ?? []) as string[]).join(' ');
}
