// The parts of operation results that the dashboard shows. docs/operations.md describes them.
export const statuses = [
  'queued',
  'running',
  'input_required',
  'completed',
  'failed',
  'cancelled',
  'timed_out',
] as const;
export type Status = (typeof statuses)[number];

export const isFinal = (status: Status): boolean =>
  status !== 'queued' && status !== 'running' && status !== 'input_required';

/** One job in a list. */
export interface JobLine {
  id: string;
  kind: string;
  status: Status;
  action?: string;
  stage?: string;
  name?: string;
  summary?: string;
  queue?: string;
  tags?: string[];
  createdAt: string;
  updatedAt?: string;
  runMs?: number;
  exitCode?: number | null;
  error?: string;
  /** Set by this page when a live change made the job leave the filter. */
  isStale?: boolean;
}

interface JobError {
  code: string;
  message: string;
  hint?: string;
  data?: unknown;
}

export interface Attempt {
  number: number;
  status: Status | 'lost';
  error?: JobError;
  facts?: Record<string, unknown>;
  startedAt?: string;
  finishedAt?: string;
}

export interface Job {
  id: string;
  kind: string;
  status: Status;
  action?: string;
  stage?: string;
  queue: string;
  name?: string;
  summary?: string;
  tags?: string[];
  owner?: string;
  attempts: { number: number; max: number };
  progress?: Record<string, unknown>;
  result?: unknown;
  resultOmitted?: { bytes: number; hint: string };
  error?: JobError;
  exitCode?: number | null;
  signal?: string | null;
  cwd?: string;
  tty?: unknown;
  stdin?: string;
  input?: unknown;
  after?: string[];
  parentId?: string;
  pinned?: boolean;
  visibility?: string;
  cancelling?: boolean;
  diagnosis?: string;
  latestLine?: string;
  earlierAttempts?: Attempt[];
  timings: {
    createdAt: string;
    startedAt?: string;
    finishedAt?: string;
    queuedMs?: number;
    runMs?: number;
  };
  [field: string]: unknown;
}

export interface JobEvent {
  n: number;
  type: string;
  at: string;
  data: Record<string, unknown>;
}

export interface Queue {
  name: string;
  kind: string;
  paused: boolean;
  maxConcurrency?: number | null;
  [count: string]: unknown;
}
