// The runner: one worker process. It is started with what it is to run; or as a spare, which loads everything but the
// handler, waits, and is then given endpoint, environment and folder on stdin, once. A spare whose server ends ends too.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

interface Task {
  module?: string;
  perJob?: string[];
  concurrency?: number;
}

const isSpare = process.env.ERRAND_RUNNER === undefined;
const preloaded = isSpare ? await parts() : undefined;
if (isSpare) await turnInto(await given());
const task = JSON.parse(process.env.ERRAND_RUNNER ?? '{}') as Task;
/** The handler loads before anything else of the runner: what it does first is often the slow part of a start. */
const loaded = task.module ? await load(task.module) : undefined;
const { handlers, loop } = preloaded ?? (await parts());
try {
  const handler = loaded
    ? handlers.moduleHandler(task.module!, loaded)
    : (await import('./command.ts')).commandHandler(task.perJob ?? [], process.env);
  new loop.WorkerLoop({ handler, concurrency: task.concurrency ?? 1, env: process.env }).start();
} catch (error) {
  fail(error);
}

async function parts() {
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

interface Given {
  env: Record<string, string>;
  cwd: string;
}

/** Until there is work. Nothing came and stdin ended: nobody needs this spare any more. */
async function given(): Promise<Given> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const part of process.stdin) text += String(part);
  if (text === '') process.exit(0);
  return JSON.parse(text) as Given;
}

async function turnInto({ env, cwd }: Given): Promise<void> {
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
