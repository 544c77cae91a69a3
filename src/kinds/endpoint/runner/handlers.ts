// Turns a module into a function from a job to the post body. command.ts does the same for per-job commands.
export interface WorkerJob {
  id: string;
  input: unknown;
  [key: string]: unknown;
}

export interface JobContext {
  /** Aborted when the job is cancelled or exceeds its execution timeout. */
  signal: AbortSignal;
  /** Shown as the job's output while it runs. */
  progress(update: unknown): Promise<void>;
}

/** The body of the post: the fields of job-done. */
export type Posted = Record<string, unknown>;

export interface Handler {
  /** Parses a job from JSON. Default: JSON.parse. */
  parse?(text: string): unknown;
  /** `emit` receives chunks as they are yielded. */
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
    throw new Error(`${path} has no handler. Export a function as default or as \`handler\``);
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

/** Like RunPod's worker: an `error` in the result fails the job and keeps the rest as output. */
export function postedOf(result: unknown): Posted {
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
