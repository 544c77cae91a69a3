// The two things the runner can run: a handler of a module, and a command per job. Both become one function from a job
// to what is posted back.
import { spawn } from 'node:child_process';
import { systemClock } from '../../../runtime/clock.ts';

export interface WorkerJob {
  id: string;
  input: unknown;
  [key: string]: unknown;
}

export interface JobContext {
  /** Aborted when the job was cancelled or ran too long. */
  signal: AbortSignal;
  /** Shown as the job's output while it runs. */
  progress(update: unknown): Promise<void>;
}

/** What is posted: the fields of job-done. */
export type Posted = Record<string, unknown>;

export interface Handler {
  /** Chunks go to `emit` as they come. */
  run(
    job: WorkerJob,
    context: JobContext,
    emit: (chunk: unknown) => Promise<void>,
  ): Promise<Posted>;
}

type Result = unknown;
type HandlerFunction = (job: WorkerJob, context: JobContext) => Result;

export function moduleHandler(path: string, module: Record<string, unknown>): Handler {
  const found = module.default ?? module.handler;
  if (typeof found !== 'function') {
    throw new Error(`${path} has no handler: export a function as default or as \`handler\``);
  }
  const aggregate = module.returnAggregateStream === true;
  const handler = found as HandlerFunction;
  return {
    run: async (job, context, emit) => {
      const result = await handler(job, context);
      if (!isIterable(result)) return postedOf(result);
      const all: unknown[] = [];
      for await (const chunk of result) {
        if (context.signal.aborted) break;
        await emit(chunk);
        if (aggregate) all.push(chunk);
      }
      return { output: all, isStream: true };
    },
  };
}

/** As RunPod's own worker does: an `error` in the result fails the job and keeps the rest as output. */
function postedOf(result: unknown): Posted {
  if (result === null || typeof result !== 'object' || Array.isArray(result))
    return { output: result ?? null };
  const { error, refresh_worker: refresh, ...rest } = result as Record<string, unknown>;
  const stop = refresh === true ? { stopPod: true } : {};
  if (error !== undefined)
    return { error, ...(Object.keys(rest).length > 0 ? { output: rest } : {}), ...stop };
  return { output: refresh === undefined ? result : rest, ...stop };
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return value !== null && typeof value === 'object' && Symbol.asyncIterator in value;
}

const stdoutBytesMax = 256 * 1024 * 1024;
const stderrCharsMax = 4000;
const killAfterMs = 5000;

export function commandHandler(
  command: readonly string[],
  env: Record<string, string | undefined>,
): Handler {
  return {
    run: (job, { signal }) =>
      new Promise<Posted>((done) => {
        const [file, ...args] = command;
        const child = spawn(file!, args, {
          detached: true,
          stdio: ['pipe', 'pipe', 'pipe'],
          env: { ...env, ERRAND_JOB_ID: job.id },
        });
        const out: Buffer[] = [];
        let bytes = 0;
        let errors = '';
        const group = (name: NodeJS.Signals) => killGroup(child.pid, name);
        const stop = () => {
          group('SIGTERM');
          systemClock.after(killAfterMs, () => group('SIGKILL'));
        };
        signal.addEventListener('abort', stop, { once: true });
        child.stdout.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes <= stdoutBytesMax) out.push(chunk);
          else group('SIGKILL');
        });
        child.stderr.on('data', (chunk: Buffer) => {
          errors = (errors + chunk.toString('utf8')).slice(-stderrCharsMax);
          process.stderr.write(chunk);
        });
        child.stdin.on('error', () => {});
        child.stdin.end(JSON.stringify(job.input ?? null));
        child.on('error', (error) =>
          done({ error: `${file} could not be started: ${error.message}` }),
        );
        // `exit`, not `close`: a process that it left behind may hold the pipes open for ever.
        child.on('exit', (code, name) =>
          setImmediate(() => {
            signal.removeEventListener('abort', stop);
            group('SIGKILL');
            done(commandResult({ code, name, errors, text: Buffer.concat(out).toString('utf8') }));
          }),
        );
      }),
  };
}

function commandResult(end: {
  code: number | null;
  name: NodeJS.Signals | null;
  text: string;
  errors: string;
}): Posted {
  const value = lastJson(end.text);
  const kept = value === undefined ? {} : { output: value };
  if (end.code !== 0) {
    const how = end.code === null ? `was ended by ${end.name}` : `exited with code ${end.code}`;
    return { error: `The command ${how}. ${end.errors.trim()}`.trim(), ...kept };
  }
  if (value !== undefined) return postedOf(value);
  if (end.text.trim() === '') return { error: 'The command exited 0 without a result on stdout.' };
  const shown = end.text.slice(0, 500);
  return { error: `The command exited 0 but its stdout is not JSON: ${shown}`, output: end.text };
}

/** The whole output if it is JSON; else its last line, so that a chatty program still has a result. */
function lastJson(text: string): unknown {
  for (const part of [text, text.trimEnd().split('\n').at(-1) ?? '']) {
    try {
      return JSON.parse(part) as unknown;
    } catch {
      // the next part may be
    }
  }
  return undefined;
}

function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // nobody is left
  }
}
