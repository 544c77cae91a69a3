// Hooks of the jobs: what parts of the server that are created later contribute.
import type { Tracer } from '../runtime/trace.ts';
import type { Job } from './job.ts';

/** What parts that are created after the jobs contribute. Each hook is read when it is needed. */
export interface JobsHooks {
  /** Whether this server accepts new work. A drained node does not. */
  acceptsWork?(): boolean;
  /** Explains why no server accepts this queued job now. Undefined if one may. */
  explainWait?(job: Job): Promise<string | undefined>;
  /** Undefined unless tracing is enabled. */
  tracer?(): Tracer | undefined;
}
