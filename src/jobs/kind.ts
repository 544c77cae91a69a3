// The contract of a job kind. A kind defines how an attempt runs and how it continues after a restart; the core does the
// rest. The submitting operation validates the input. The end of an attempt is data (Outcome), never an exception.
import type { CallContext, Caller } from '../operation.ts';
import type { Job, JobError, Progress } from './job.ts';

export type Outcome =
  | { type: 'completed'; result?: unknown; facts?: Record<string, unknown>; cost?: number }
  /** `retry: false` ends the job regardless of its retry policy, for input that can never work. */
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
  /** The outcome is unknown and stays unknown. The attempt counts as lost. */
  | { type: 'lost'; message?: string; facts?: Record<string, unknown> }
  /** Not ended: run the same attempt again later, for example after an external rate limit. */
  | { type: 'snoozed'; untilMs: number };

/** Why an attempt must stop. `shutdown`: only this server stops; the work should continue if it can. */
export type StopReason = 'cancel' | 'timeout' | 'shutdown' | 'lost';

/** The context of a running attempt. Every method is fenced: after the attempt has ended it changes nothing. */
export interface Run {
  readonly job: Job;
  /** True if the attempt was already running before this server started. */
  readonly adopted: boolean;
  /** After this long without its server, another node may start the attempt again. Null: no other node will. */
  readonly maxAloneMs: number | null;
  /** Aborted with a StopReason as reason. */
  readonly signal: AbortSignal;
  /** Replaces progress, stage or both. Each call writes an event, so call it about once a second at most. */
  report(update: {
    progress?: Progress;
    stage?: string;
    facts?: Record<string, unknown>;
    /** Something that needs attention. It is part of the event only. */
    notice?: string;
  }): Promise<void>;
  /** running ⇄ input_required. */
  needInput(needed: boolean, message?: string): Promise<void>;
}

/** Kind-specific parts of a job's text: next to its state, among its details, and on separate lines. */
export interface KindText {
  state?: string[];
  facts?: string[];
  lines?: string[];
}

export interface Kind {
  readonly name: string;
  /** The kind whose operations create jobs of this kind. A key limited to that kind can access these jobs as well. */
  readonly partOf?: string;
  /** The subject type that keys can be bound to: `endpoint` for keys with `endpoint:…`. */
  readonly subject?: string;
  /** What scope `run` permits for this kind, as text: `run any command as …`. */
  readonly allows?: string;
  /** Runs an attempt in this process (command, web). Without it the kind assigns attempts itself (endpoint) or has none (escrow). */
  run?(run: Run): Promise<Outcome>;
  /** Whether a running attempt survives a restart of this server. If so, `run` is called with adopted: true. */
  readonly adopts?: boolean;
  /** False: jobs have no dispatch entry and change only by the rules of the kind. */
  readonly dispatched: boolean;
  /** False: jobs of this kind cannot be retried. */
  readonly retryable: boolean;
  /** Only attempts lost with their node are repeated. A failure of the work itself is final. */
  readonly repeatsLostOnly?: boolean;
  /** False: only operations of the kind can cancel a job. */
  readonly cancellable: boolean;
  /** How long this machine slept since then while no server ran. Sleep does not count towards timeouts. */
  asleepMs?(since: number): number;
  /** Maximum concurrent attempts of this kind on this node. */
  capacity(): number;
  /** Fields that get_job adds for this caller: exit code, counts, next actor … Cheap: no body, no output. */
  view?(job: Job, caller?: Caller): Promise<Record<string, unknown>>;
  /** Fields of that view that a model rarely needs. */
  readonly details?: readonly string[];
  /** The same view as text. */
  describe?(view: Record<string, unknown>): KindText;
  /** Whether the job belongs to the subject of a key (`endpoint:my`). Without it, bound keys cannot access jobs of this kind. */
  belongsTo?(job: Job, subject: string): boolean | Promise<boolean>;
  /** The queue of all jobs that belong to the subject, if they share one. */
  queueOf?(subject: string): string | undefined;
  /** Whether a caller other than the owner may read a private job, as a party to it. */
  readableBy?(job: Job, caller: Caller): Promise<boolean>;
  /** Further owners whose webhooks receive its events: the other parties. */
  audience?(job: Job): Promise<readonly string[]>;
  /** What a webhook format may say about the job beyond its row. `listener`: the owner of the subscription. */
  webhookFacts?(job: Job, listener: string): Promise<Record<string, unknown>>;
  /** One line for lists: the command line, the URL. */
  summary?(job: Job): string;
  /** The input as this caller may read it. Texts of other parties are quoted. */
  inputFor?(job: Job, caller: Caller | undefined): unknown;
  /** Fields that list_jobs adds, computed from the row alone. */
  line?(job: Job): Record<string, unknown>;
  /**
   * Further conditions of wait_for_jobs. Resolves with the condition that was met, or undefined if none can be met.
   * Must settle when the signal aborts.
   */
  watch?(
    job: Job,
    until: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ reason: string; detail?: unknown } | undefined>;
  /** Conditions of `watch` that end the wait of a caller who started the job: it is ready, or it needs input. */
  returnsWhen?(job: Job): Record<string, unknown>;
  /**
   * The output of a job, if the kind does not store it in the job's own files. `omitted` names missing parts and where
   * they are.
   */
  output?(job: Job, attempt: number): Promise<{ bytes: Buffer; omitted?: string }>;
  /**
   * The last line a running job printed, cleaned and shortened, for progress messages. Undefined if nothing was printed or
   * the output is on another node. Cheap: one read at the end of a file.
   */
  latestLine?(job: Job): Promise<string | undefined>;
  /** The output excerpt for a response about an ended job: its error lines if it failed. Undefined if nothing was printed. */
  excerpt?(job: Job, maxBytes: number): Promise<{ text: string; next: number } | undefined>;
  /** The folder of the job's files on this node, if the kind stores files. Copied to object storage if configured. */
  folder?(jobId: string): string;
  /** Total size of the files of ended jobs on this node. */
  endedBytes?(): number;
  /** Submits the work of an ended job again as a new job. Without it, jobs of this kind cannot be rerun. */
  rerun?(job: Job, context: CallContext): Promise<Job>;
  /** Ends processes that an ended job left running on this node. Returns their number. */
  endOrphanedProcesses?(job: Job, graceMs?: number): Promise<number>;
  /** Deletes files and rows of jobs that retention removes. */
  forget?(jobIds: readonly string[]): Promise<void>;
  /** Exempt from retention (escrow books). */
  readonly exemptFromRetention?: boolean;
}
