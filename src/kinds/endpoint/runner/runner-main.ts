// The runner: one worker process. It starts either with its task, or prestarted: then it loads everything but the
// handler, waits, and reads its environment and folder once from stdin. A prestarted runner exits with its server.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

interface Task {
  module?: string;
  perJob?: string[];
  concurrency?: number;
}

const isPrestarted = process.env.ERRAND_RUNNER === undefined;
const preloaded = isPrestarted ? await loadParts() : undefined;
if (isPrestarted) await becomeWorker(await readAssignment());
const task = JSON.parse(process.env.ERRAND_RUNNER ?? '{}') as Task;
/** The handler loads first, because its initialization is often the slowest part of a start. */
const loaded = task.module ? await load(task.module) : undefined;
const { handlers, loop } = preloaded ?? (await loadParts());
try {
  const handler = loaded
    ? handlers.moduleHandler(task.module!, loaded)
    : (await import('./command.ts')).commandHandler(task.perJob ?? [], process.env);
  new loop.WorkerLoop({ handler, concurrency: task.concurrency ?? 1, env: process.env }).start();
} catch (error) {
  fail(error);
}

async function loadParts() {
  const [handlers, loop] = await Promise.all([import('./handlers.ts'), import('./worker-loop.ts')]);
  return { handlers, loop };
}

async function load(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (error) {
    return fail(error);
  }
}

interface Assignment {
  env: Record<string, string>;
  cwd: string;
}

/** Waits for the assignment. If stdin closes without one, this runner is not needed. */
async function readAssignment(): Promise<Assignment> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const part of process.stdin) text += String(part);
  if (text === '') process.exit(0);
  return JSON.parse(text) as Assignment;
}

async function becomeWorker({ env, cwd }: Assignment): Promise<void> {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  try {
    process.chdir(cwd);
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}
