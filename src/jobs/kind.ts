// The contract of a kind of work. A kind says how an attempt runs and how it goes on after a restart; the core does the
// rest. What may be asked for is checked by the operation that submits. How work ended is data (Outcome), never an exception.
import type { CallContext, Caller } from '../operation.ts';
import type { Job, JobError, Progress } from './job.ts';

export type Outcome =
  | { type: 'completed'; result?: unknown; facts?: Record<string, unknown>; cost?: number }
  /** `retry: false` ends the job whatever its policy says (the input can never work). */
  | {
      type: 'failed';
      error: JobError;
      result?: unknown;
      facts?: Record<string, unknown>;
      retry?: boolean;
      cost?: number;
    }
  | {
      type: 'cancelled';
      error?: JobError;
      result?: unknown;
      facts?: Record<string, unknown>;
      cost?: number;
    }
  | {
      type: 'timed_out';
      error?: JobError;
      result?: unknown;
      facts?: Record<string, unknown>;
      retry?: boolean;
      cost?: number;
    }
  /** The end was not seen and never will be: counted as lost. */
  | { type: 'lost'; message?: string; facts?: Record<string, unknown> }
  /** Not over: try the same attempt again later (a limit outside was hit). */
  | { type: 'snoozed'; untilMs: number };

/** Why an attempt is told to stop. `shutdown`: only this server ends; the work should go on where it can. */
export type StopReason = 'cancel' | 'timeout' | 'shutdown' | 'lost';

/** What a running attempt gets. Every method here is fenced: after the attempt is over it changes nothing. */
export interface Run {
  readonly job: Job;
  /** True when the attempt was already running before this server started. */
  readonly adopted: boolean;
  /** In a cluster: without this server for longer, another node may have started it again; null: nobody else will. */
  readonly aloneMsMax: number | null;
  /** Aborted with a StopReason as reason. */
  readonly signal: AbortSignal;
  /** Replaces progress and/or stage; an event each time, so do not call it more than about once a second. */
  report(update: {
    progress?: Progress;
    stage?: string;
    facts?: Record<string, unknown>;
  }): Promise<void>;
  /** running ⇄ input_required. */
  needInput(needed: boolean, message?: string): Promise<void>;
}

/** What a kind says of its job: beside its state, among what is known of it, on lines of their own. */
export interface Words {
  state?: string[];
  facts?: string[];
  lines?: string[];
}

export interface Kind {
  readonly name: string;
  /** The kind whose operations make jobs of this one: a key that is limited to that kind has these, too. */
  readonly partOf?: string;
  /** What a key can be bound to, where this kind has such things: `endpoint` for keys with `endpoint:…`. */
  readonly subject?: string;
  /** What a key with scope `run` lets its holder do with this kind, in words: `run any command as …`. */
  readonly allows?: string;
  /** Jobs of this kind run in this process (command, web). Without it the kind hands attempts out itself (endpoint) or has none (escrow). */
  run?(run: Run): Promise<Outcome>;
  /** Whether a running attempt can be continued after a restart of this server; then `run` is called with adopted: true. */
  readonly adopts?: boolean;
  /** False: jobs have no dispatch entry and move only by the kind's own rules. */
  readonly dispatched: boolean;
  /** Default for jobs of this kind; false: never retried. */
  readonly retryable: boolean;
  /** Attempts beyond the first are only for those that were lost with their node: a failure of the work itself is final. */
  readonly repeatsLostOnly?: boolean;
  /** False: cancelled only by the kind's own operations. */
  readonly cancellable: boolean;
  /** Time since then in which this machine slept, as far as the kind noticed it without a server: it uses up no timeout. */
  asleepMs?(since: number): number;
  /** Attempts of this kind at once on this node. */
  capacity(): number;
  /** What get_job shows beyond the core's fields (exit code, counts by fate, next actor …) to this caller. Cheap: no body, no output. */
  view?(job: Job, caller?: Caller): Promise<Record<string, unknown>>;
  /** The same in words. */
  words?(view: Record<string, unknown>): Words;
  /** Whether the job belongs to what a key is bound to (`endpoint:my`). Without it no bound key reaches jobs of this kind. */
  belongsTo?(job: Job, subject: string): boolean | Promise<boolean>;
  /** The one queue of all jobs that belong to it, where they have one. */
  queueOf?(subject: string): string | undefined;
  /** Whether somebody other than its owner may read a private job (a party to it). */
  readableBy?(job: Job, caller: Caller): Promise<boolean>;
  /** Owners beside its own whose webhooks hear of it (the other parties to it). */
  audience?(job: Job): Promise<readonly string[]>;
  /** One line for lists: the command line, the URL. */
  summary?(job: Job): string;
  /** What list_jobs shows beyond the core's fields. From the row alone. */
  line?(job: Job): Record<string, unknown>;
  /**
   * Conditions of wait_for_jobs beyond the end of the job: resolves with the one that was met, or undefined when it
   * never can be. Must end when the signal aborts.
   */
  watch?(
    job: Job,
    until: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ reason: string; detail?: unknown } | undefined>;
  /**
   * What a job of this kind printed, where that is kept elsewhere than in files of its own; `omitted` says what it lacks
   * and where that is.
   */
  output?(job: Job, attempt: number): Promise<{ bytes: Buffer; omitted?: string }>;
  /** Where the files of a job are on this node, when the kind keeps some: kept in object storage where there is one. */
  folder?(jobId: string): string;
  /** Bytes of the files that ended jobs still have on this node. */
  endedBytes?(): number;
  /** Submits the work of an ended job again, as a new job; absent: jobs of this kind cannot be run again. */
  rerun?(job: Job, context: CallContext): Promise<Job>;
  /** Removes files and rows of forgotten jobs. */
  forget?(jobIds: readonly string[]): Promise<void>;
  /** Exempt from retention (escrow books). */
  readonly keeps?: boolean;
}
