// From a recipe to a command line and an environment: every kind of worker is a process that speaks the RunPod worker
// protocol; handlers and per-job commands do so through our runner.
import { extname, join } from 'node:path';
import { setOwn } from '../../runtime/by-name.ts';
import type { Recipe } from './spec.ts';
import type { EndpointRow } from './store.ts';

export interface LaunchNeeds {
  /** A named variable of the server's environment or home/env. */
  secret(name: string): string | undefined;
  baseUrl: string;
  /** Where the runner may keep compiled code between starts. */
  cacheFolder: string;
  home: string;
  engine: string | undefined;
  platform?: NodeJS.Platform;
}

export interface Launch {
  command: string[];
  cwd: string;
  env: Record<string, string>;
}

/** Everything a program usually needs and nothing that is secret. */
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SHELL'];
const pingIntervalMs = 10_000;

export function launchOf(
  endpoint: EndpointRow,
  worker: { id: string; key: string },
  needs: LaunchNeeds,
): Launch {
  const { recipe } = endpoint.spec;
  if (!recipe) throw new Error(`endpoint ${endpoint.id} has no recipe`);
  if ('image' in recipe) {
    const there = protocol(endpoint, worker, { ...needs, baseUrl: containerUrl(needs) });
    const env = { ...ownEnvironment(endpoint, needs), ...there };
    return container(endpoint.id, worker.id, recipe, { ...needs, env });
  }
  // What Python prints is in the log when it is printed, also if the worker is killed.
  const base = { PYTHONUNBUFFERED: '1', ...variables(passedOn, needs) };
  const own = { ...base, ...ownEnvironment(endpoint, needs) };
  const env = { ...own, ...protocol(endpoint, worker, needs) };
  if ('worker' in recipe) return { command: recipe.worker, cwd: recipe.cwd ?? needs.home, env };
  const memory =
    'module' in recipe && recipe.memoryMb ? [`--max-old-space-size=${recipe.memoryMb}`] : [];
  const task = 'module' in recipe ? { module: recipe.module } : { perJob: recipe.perJob };
  return {
    command: [process.execPath, ...memory, runnerPath()],
    cwd: recipe.cwd ?? needs.home,
    env: {
      NODE_COMPILE_CACHE: needs.cacheFolder,
      ...env,
      ERRAND_RUNNER: JSON.stringify({ ...task, concurrency: endpoint.spec.concurrency }),
    },
  };
}

/** A runner that will be told what to run: no endpoint, no key, no secret. */
export function spareLaunch(
  needs: Pick<LaunchNeeds, 'secret' | 'home'> & { folder: string },
): Launch {
  const cache = { NODE_COMPILE_CACHE: cacheFolder(needs.folder) };
  const env = { ...cache, ...variables(passedOn, needs) };
  return { command: [process.execPath, runnerPath()], cwd: needs.home, env };
}

/** Where runners keep compiled code between starts. */
export const cacheFolder = (folder: string): string => join(folder, 'compiled');

/** What the endpoint's owner asked for. */
function ownEnvironment({ spec }: EndpointRow, needs: LaunchNeeds): Record<string, string> {
  return { ...variables(spec.envFrom, needs), ...spec.env };
}

function variables(
  names: readonly string[],
  { secret }: Pick<LaunchNeeds, 'secret'>,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of names) {
    const value = secret(name);
    if (value !== undefined) setOwn(env, name, value);
  }
  return env;
}

/** What the unmodified `runpod` package reads. */
function protocol(
  endpoint: EndpointRow,
  worker: { id: string; key: string },
  needs: LaunchNeeds,
): Record<string, string> {
  const root = `${needs.baseUrl}/v2/${endpoint.id}`;
  return {
    ERRAND_WORKER_ID: worker.id,
    RUNPOD_POD_ID: worker.id,
    RUNPOD_ENDPOINT_ID: endpoint.id,
    RUNPOD_AI_API_KEY: worker.key,
    RUNPOD_WEBHOOK_GET_JOB: `${root}/job-take/$ID?gpu=CPU`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${root}/job-done/$RUNPOD_POD_ID/$ID?gpu=CPU`,
    RUNPOD_WEBHOOK_POST_STREAM: `${root}/job-stream/$RUNPOD_POD_ID/$ID?gpu=CPU`,
    RUNPOD_WEBHOOK_PING: `${root}/ping/$RUNPOD_POD_ID?gpu=CPU`,
    RUNPOD_PING_INTERVAL: String(pingIntervalMs),
    RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true',
    RUNPOD_SKIP_GPU_CHECK: 'true',
  };
}

function container(
  endpointId: string,
  workerId: string,
  recipe: Extract<Recipe, { image: string }>,
  needs: LaunchNeeds & { env: Record<string, string> },
): Launch {
  const { env, engine = 'docker', platform = process.platform } = needs;
  // Elsewhere the engine runs in a virtual machine, whose network is not that of this machine.
  const isHere = platform === 'linux';
  return {
    command: [
      engine,
      'run',
      '--rm',
      '--init',
      ...(isHere ? ['--network=host'] : []),
      `--name=${containerName(workerId)}`,
      `--label=errand.endpoint=${endpointId}`,
      // Values stay out of the command line, where everybody on the machine could read them. Those of the few names
      // that the engine's own program reads are no secrets.
      ...Object.entries(env).map(([name, value]) =>
        passedOn.includes(name) ? `--env=${name}=${value}` : `--env=${name}`,
      ),
      ...(recipe.options ?? []),
      recipe.image,
      ...(recipe.args ?? []),
    ],
    cwd: needs.home,
    env: { ...engineEnvironment(needs), ...env, ...variables(passedOn, needs) },
  };
}

/** How a container reaches this machine. */
function containerUrl({ baseUrl, engine, platform = process.platform }: LaunchNeeds): string {
  if (platform === 'linux') return baseUrl;
  const name = engine === 'podman' ? 'host.containers.internal' : 'host.docker.internal';
  return baseUrl.replace(/\/\/(127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)/, `//${name}`);
}

/** What docker and podman read to find their engine, their store and their way to a registry. */
export function engineEnvironment(needs: Pick<LaunchNeeds, 'secret'>): Record<string, string> {
  return variables(engineNames, needs);
}

const engineNames = [
  'PATH',
  'HOME',
  'USER',
  'TMPDIR',
  'XDG_RUNTIME_DIR',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'DBUS_SESSION_BUS_ADDRESS',
  'SSH_AUTH_SOCK',
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
  'DOCKER_CERT_PATH',
  'DOCKER_TLS_VERIFY',
  'CONTAINER_HOST',
  'CONTAINER_CONNECTION',
  'CONTAINERS_CONF',
  'REGISTRY_AUTH_FILE',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
];

export const containerName = (workerId: string): string => `errand-${workerId}`;

/** In a clone the runner is TypeScript beside this file, in a package JavaScript. */
function runnerPath(): string {
  return join(import.meta.dirname, 'runner', `runner-main${extname(import.meta.filename)}`);
}
