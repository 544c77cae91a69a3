// Turns a recipe into a command line and an environment. Every worker is a process that speaks the RunPod worker
// protocol. Handlers and per-job commands use our runner for this.
import { statSync } from 'node:fs';
import { extname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setOwn } from '../../../runtime/by-name.ts';
import { machineVariables, thisMachine } from './machine.ts';
import type { Recipe } from '../spec.ts';
import type { EndpointRow } from '../store/endpoints.ts';

/** A clone contains TypeScript programs, a package contains JavaScript. */
const runnerMain = fileURLToPath(
  new URL(`../runner/runner-main${extname(import.meta.filename)}`, import.meta.url),
);
const relayMain = fileURLToPath(
  new URL(`../relay/relay-main${extname(import.meta.filename)}`, import.meta.url),
);

export interface LaunchDeps {
  /** Returns a variable of the server's environment or of home/env. */
  secret(name: string): string | undefined;
  baseUrl: string;
  /** Where the runner may cache compiled code between starts. */
  cacheFolder: string;
  home: string;
  /** A folder for this worker alone, if the recipe sets none. */
  scratch: string;
  engine: string | undefined;
  platform?: NodeJS.Platform;
}

export interface Launch {
  command: string[];
  cwd: string;
  env: Record<string, string>;
}

/** What most programs need, without secrets. */
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SHELL'];
const pingIntervalMs = 10_000;

export function launchOf(
  endpoint: EndpointRow,
  worker: { id: string; key: string },
  deps: LaunchDeps,
): Launch {
  const { recipe } = endpoint.spec;
  if (!recipe) throw new Error(`endpoint ${endpoint.id} has no recipe`);
  if ('image' in recipe) {
    const there = protocol(endpoint, worker, { ...deps, baseUrl: containerUrl(deps) });
    const env = { ...ownEnvironment(endpoint, deps), ...there };
    return container(endpoint.id, worker.id, recipe, { ...deps, env });
  }
  // Unbuffered, so that Python's output is in the log even if the worker is killed.
  const base = { PYTHONUNBUFFERED: '1', ...variables(passedOn, deps) };
  const own = { ...base, ...ownEnvironment(endpoint, deps) };
  const env = { ...own, ...protocol(endpoint, worker, deps) };
  const { cwd = deps.scratch } = recipe;
  const command = (words: readonly string[]) =>
    recipe.cwd === undefined ? withFiles(words, deps.home) : [...words];
  if ('worker' in recipe) return { command: command(recipe.worker), cwd, env };
  const memory =
    'module' in recipe && recipe.memoryMb ? [`--max-old-space-size=${recipe.memoryMb}`] : [];
  const task =
    'module' in recipe
      ? { module: resolve(recipe.cwd ?? deps.home, recipe.module) }
      : { perJob: command(recipe.perJob) };
  return {
    command: [process.execPath, ...memory, runnerMain],
    cwd,
    env: {
      NODE_COMPILE_CACHE: deps.cacheFolder,
      ...env,
      ERRAND_RUNNER: JSON.stringify({ ...task, concurrency: endpoint.spec.concurrency }),
    },
  };
}

/** Files in a command are resolved relative to this folder, regardless of where the command runs. */
export function withFiles(command: readonly string[], folder: string): string[] {
  return command.map((word, i) => {
    const isName = isAbsolute(word) || word.startsWith('-') || (i === 0 && !word.includes('/'));
    const path = isName ? undefined : resolve(folder, word);
    return path !== undefined && isFile(path) ? path : word;
  });
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    // not found, or not a file name: a script passed as one argument
    return false;
  }
}

/** Whether its workers have relays: programs that RunPod wrote do not survive a server restart without one. */
export function isRelayed({ spec }: EndpointRow): boolean {
  const { recipe, relay } = spec;
  return relay && recipe !== undefined && ('worker' in recipe || 'image' in recipe);
}

/** The relay process. It knows its worker and reads the rest from stdin. */
export function relayLaunch(
  workerId: string,
  deps: Pick<LaunchDeps, 'secret' | 'cacheFolder'>,
): Launch {
  const env = { ...variables(['PATH', 'TMPDIR'], deps), ERRAND_WORKER_ID: workerId };
  return {
    command: [process.execPath, ...relayOptions, relayMain],
    cwd: '/',
    env: { ...env, NODE_COMPILE_CACHE: deps.cacheFolder },
  };
}

/** Keeps memory small, because every worker has a relay. */
const relayOptions = ['--max-semi-space-size=1', '--v8-pool-size=0'];

/** A runner that receives its assignment later: no endpoint, no key, no secret. */
export function prestartLaunch(
  deps: Pick<LaunchDeps, 'secret' | 'home'> & { folder: string },
): Launch {
  const cache = { NODE_COMPILE_CACHE: cacheFolder(deps.folder) };
  const env = { ...cache, ...variables(passedOn, deps) };
  const command = [process.execPath, runnerMain];
  return { command, cwd: deps.home, env };
}

/** Where runners cache compiled code between starts. */
export const cacheFolder = (folder: string): string => join(folder, 'compiled');

/** Variables that the endpoint's owner set. */
function ownEnvironment({ spec }: EndpointRow, deps: LaunchDeps): Record<string, string> {
  return { ...variables(spec.envFrom, deps), ...spec.env };
}

function variables(
  names: readonly string[],
  { secret }: Pick<LaunchDeps, 'secret'>,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of names) {
    const value = secret(name);
    if (value !== undefined) setOwn(env, name, value);
  }
  return env;
}

/** Variables that the unmodified `runpod` package reads. */
function protocol(
  endpoint: EndpointRow,
  worker: { id: string; key: string },
  deps: LaunchDeps,
): Record<string, string> {
  const root = `${deps.baseUrl}/v2/${endpoint.id}`;
  const machine = machineVariables(thisMachine(), ownEnvironment(endpoint, deps));
  const gpu = encodeURIComponent(machine.RUNPOD_GPU_TYPE_ID ?? 'CPU');
  return {
    ...machine,
    ERRAND_WORKER_ID: worker.id,
    RUNPOD_POD_ID: worker.id,
    RUNPOD_ENDPOINT_ID: endpoint.id,
    RUNPOD_AI_API_KEY: worker.key,
    RUNPOD_WEBHOOK_GET_JOB: `${root}/job-take/$ID?gpu=${gpu}`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${root}/job-done/$RUNPOD_POD_ID/$ID?gpu=${gpu}`,
    RUNPOD_WEBHOOK_POST_STREAM: `${root}/job-stream/$RUNPOD_POD_ID/$ID?gpu=${gpu}`,
    RUNPOD_WEBHOOK_PING: `${root}/ping/$RUNPOD_POD_ID?gpu=${gpu}`,
    RUNPOD_PING_INTERVAL: String(pingIntervalMs),
    RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true',
    RUNPOD_SKIP_GPU_CHECK: 'true',
  };
}

function container(
  endpointId: string,
  workerId: string,
  recipe: Extract<Recipe, { image: string }>,
  deps: LaunchDeps & { env: Record<string, string> },
): Launch {
  const { env, engine = 'docker', platform = process.platform } = deps;
  // On other systems the engine runs in a virtual machine with a separate network.
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
      // Values stay off the command line, which every user of the machine can read. The few variables that the
      // engine's client itself reads are not secret.
      ...Object.entries(env).map(([name, value]) =>
        passedOn.includes(name) ? `--env=${name}=${value}` : `--env=${name}`,
      ),
      ...(recipe.options ?? []),
      recipe.image,
      ...(recipe.args ?? []),
    ],
    cwd: deps.home,
    env: { ...engineEnvironment(deps), ...env, ...variables(passedOn, deps) },
  };
}

/** The host name under which a container reaches this machine. */
function containerUrl({ baseUrl, engine, platform = process.platform }: LaunchDeps): string {
  if (platform === 'linux') return baseUrl;
  const name = engine === 'podman' ? 'host.containers.internal' : 'host.docker.internal';
  return baseUrl.replace(/\/\/(127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)/, `//${name}`);
}

/** Variables that docker and podman read to find their engine, their store and their registries. */
export function engineEnvironment(deps: Pick<LaunchDeps, 'secret'>): Record<string, string> {
  return variables(engineNames, deps);
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
