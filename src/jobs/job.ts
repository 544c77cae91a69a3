// The job model: fields, statuses, and the mapping between database rows and jobs. Pure: no clock, no store.
import { decodeJson, isRecord } from '../runtime/json.ts';
import type { Row, Value } from '../store/store.ts';
import type { Status } from '../contracts/jobs.ts';

export const finalStatuses = [
  'completed',
  'failed',
  'cancelled',
  'timed_out',
] as const satisfies Status[];
const finals: ReadonlySet<Status> = new Set(finalStatuses);
export const isFinal = (status: Status): boolean => finals.has(status);

/** Status conditions as SQL. They must match the conditions of the partial indexes exactly, or the indexes are not used. */
export const openStatuses = ['running', 'input_required'] as const satisfies Status[];
export const brokenStatuses = ['failed', 'cancelled', 'timed_out'] as const satisfies Status[];
const anyOf = (list: readonly Status[]): string =>
  `(${list.map((status) => `status = '${status}'`).join(' OR ')})`;
export const openSql = anyOf(openStatuses);
export const brokenSql = anyOf(brokenStatuses);

export interface JobError {
  code: string;
  message: string;
  hint?: string;
  data?: Record<string, unknown>;
}

export interface Progress {
  /** Completed amount, total amount and unit. */
  done?: number;
  total?: number;
  unit?: string;
  message?: string;
}

export interface RetryPolicy {
  /** Total attempts, including the first. */
  maxAttempts: number;
  backoffMs: number;
  backoffFactor: number;
  maxBackoffMs: number;
  /** Random share of the delay, from 0 to 1. */
  jitter: number;
  /** Lost attempts (the holder died) after which the job fails, because it may be killing its workers. */
  maxLost: number;
  /** How often the job was retried after a cancel. Such an attempt is a new start, so it does not count as a retry. */
  afterCancel?: number;
}

export const defaultRetry: RetryPolicy = {
  maxAttempts: 1,
  backoffMs: 1000,
  backoffFactor: 2,
  maxBackoffMs: 600_000,
  jitter: 0.2,
  maxLost: 1,
};

export interface Job {
  id: string;
  kind: string;
  action: string | null;
  queue: string;
  status: Status;
  stage: string | null;
  name: string | null;
  tags: string[];
  visibility: 'private' | 'public';
  owner: string;
  /** The node that runs the job, or that must run it if the kind requires a node. */
  node: string | null;
  parentId: string | null;
  idempotencyKey: string | null;
  idempotencyHash: string | null;
  input: unknown;
  result: unknown;
  error: JobError | null;
  progress: Progress | null;
  /** Details of the current attempt that the kind records: exit code, pid, worker … */
  facts: Record<string, unknown>;
  cost: number | null;
  /** Labels a node must have to run the job: `gpu`, `zone=eu`. */
  labels: string[];
  priority: number;
  /** Number of the current attempt, from 1. */
  attempt: number;
  attemptId: string;
  /** Number of attempts lost since the last manual retry. */
  lost: number;
  retry: RetryPolicy;
  /** The node or worker that holds the running attempt. */
  holder: string | null;
  runAt: number;
  /** How long after submission or a manual retry an attempt may start. */
  ttlMs: number | null;
  /** When `ttlMs` is over. */
  expiresAt: number | null;
  /** Maximum execution time per attempt, without time the machine slept. */
  timeoutMs: number | null;
  deadlineAt: number | null;
  /** Number of unfinished dependencies. While it is > 0 the job is queued without a dispatch entry. */
  waitingFor: number;
  cancelRequestedAt: number | null;
  createdAt: number;
  updatedAt: number;
  startedAt: number | null;
  finishedAt: number | null;
  /** Exempt from retention. */
  pinned: boolean;
  /** `traceparent` of the call that submitted the job, if any. */
  trace: string | null;
  /** Number of events so far. Every change is fenced by it. */
  version: number;
  /** Columns that could not be decoded; their fields are empty. Such a job is visible and can be deleted, but never runs. */
  undecodable?: readonly string[];
}

/** The column of each field, in table order. JSON fields are stored as text. */
const columns = {
  id: 'id',
  kind: 'kind',
  action: 'action',
  queue: 'queue',
  status: 'status',
  stage: 'stage',
  name: 'name',
  tags: 'tags',
  visibility: 'visibility',
  owner: 'owner',
  node: 'node',
  parentId: 'parent_id',
  idempotencyKey: 'idempotency_key',
  idempotencyHash: 'idempotency_hash',
  input: 'input',
  result: 'result',
  error: 'error',
  progress: 'progress',
  facts: 'facts',
  cost: 'cost',
  labels: 'labels',
  priority: 'priority',
  attempt: 'attempt',
  attemptId: 'attempt_id',
  lost: 'lost',
  retry: 'retry',
  holder: 'holder',
  runAt: 'run_at',
  ttlMs: 'ttl_ms',
  expiresAt: 'expires_at',
  timeoutMs: 'timeout_ms',
  deadlineAt: 'deadline_at',
  waitingFor: 'waiting_for',
  cancelRequestedAt: 'cancel_requested_at',
  createdAt: 'created_at',
  updatedAt: 'updated_at',
  startedAt: 'started_at',
  finishedAt: 'finished_at',
  pinned: 'pinned',
  trace: 'trace',
  version: 'version',
} as const satisfies Record<Exclude<keyof Job, 'undecodable'>, string>;

export type JobField = keyof typeof columns;
export const jobFields = Object.keys(columns) as JobField[];
export const columnOf = (field: JobField): string => columns[field];

const jsonNames = [
  'tags',
  'labels',
  'input',
  'result',
  'error',
  'progress',
  'facts',
  'retry',
] as const satisfies readonly JobField[];
type JsonField = (typeof jsonNames)[number];
export const jsonFields: ReadonlySet<JobField> = new Set(jsonNames);

/** One literal with constant names: a loop over the columns takes five times as long, and every response reads jobs. */
export function jobFromRow(row: Row): Job {
  const damaged: string[] = [];
  const decode = (field: JsonField) => decodeField(row, field, damaged);
  const retry = decode('retry') as Partial<RetryPolicy> | null;
  const job: Record<JobField, unknown> & { undecodable?: readonly string[] } = {
    id: row[columns.id] ?? null,
    kind: row[columns.kind] ?? null,
    action: row[columns.action] ?? null,
    queue: row[columns.queue] ?? null,
    status: row[columns.status] ?? null,
    stage: row[columns.stage] ?? null,
    name: row[columns.name] ?? null,
    tags: decode('tags') ?? [],
    visibility: row[columns.visibility] ?? null,
    owner: row[columns.owner] ?? null,
    node: row[columns.node] ?? null,
    parentId: row[columns.parentId] ?? null,
    idempotencyKey: row[columns.idempotencyKey] ?? null,
    idempotencyHash: row[columns.idempotencyHash] ?? null,
    input: decode('input'),
    result: decode('result'),
    error: decode('error'),
    progress: decode('progress'),
    facts: decode('facts') ?? {},
    cost: row[columns.cost] ?? null,
    labels: decode('labels') ?? [],
    priority: row[columns.priority] ?? null,
    attempt: row[columns.attempt] ?? null,
    attemptId: row[columns.attemptId] ?? null,
    lost: row[columns.lost] ?? null,
    retry: retry ? { ...defaultRetry, ...retry } : defaultRetry,
    holder: row[columns.holder] ?? null,
    runAt: row[columns.runAt] ?? null,
    ttlMs: row[columns.ttlMs] ?? null,
    expiresAt: row[columns.expiresAt] ?? null,
    timeoutMs: row[columns.timeoutMs] ?? null,
    deadlineAt: row[columns.deadlineAt] ?? null,
    waitingFor: row[columns.waitingFor] ?? null,
    cancelRequestedAt: row[columns.cancelRequestedAt] ?? null,
    createdAt: row[columns.createdAt] ?? null,
    updatedAt: row[columns.updatedAt] ?? null,
    startedAt: row[columns.startedAt] ?? null,
    finishedAt: row[columns.finishedAt] ?? null,
    pinned: row[columns.pinned] === 1,
    trace: row[columns.trace] ?? null,
    version: row[columns.version] ?? null,
  };
  if (damaged.length > 0) job.undecodable = damaged;
  return job as unknown as Job;
}

/** An undecodable field is empty and its column is listed, so that reading a row never throws. */
function decodeField(row: Row, field: JsonField, damaged: string[]): unknown {
  const stored = row[columns[field]] ?? null;
  if (stored === null) return null;
  const decoded = decodeJson(stored);
  if (decoded && hasExpectedType(field, decoded.value)) return decoded.value;
  damaged.push(columns[field]);
  return field === 'input' ? {} : null;
}

export function hasExpectedType(field: JobField, value: unknown): boolean {
  if (field === 'tags' || field === 'labels') return Array.isArray(value);
  return field === 'input' || field === 'result' || isRecord(value);
}

export function columnValue(field: JobField, value: unknown): Value {
  if (value === null || value === undefined) return null;
  if (jsonFields.has(field)) return emptyAsNull(field, value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value as Value;
}

/** Most jobs have no tags, no facts and the default retry policy. NULL is cheaper to write and to read. */
function emptyAsNull(field: JobField, value: unknown): Value {
  if ((field === 'tags' || field === 'labels') && (value as string[]).length === 0) return null;
  if (field === 'facts' && Object.keys(value as object).length === 0) return null;
  if (field === 'retry' && value === defaultRetry) return null;
  return JSON.stringify(value);
}

/** How long the current attempt was queued after it became due. */
export const queuedMs = ({ createdAt, runAt }: Job, startedAt: number): number =>
  startedAt - Math.max(createdAt, runAt);

/** Attempt ids are derived from the job id and the attempt number, so people can read them in logs. */
export const attemptIdOf = (jobId: string, attempt: number): string => `${jobId}.${attempt}`;
