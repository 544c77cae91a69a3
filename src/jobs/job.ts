// What a job is: the model, its closed statuses, ids, and the mapping between a row and a job.
// Pure: no clock, no store.
import { randomFillSync, randomInt } from 'node:crypto';
import { decodeJson, isRecord } from '../runtime/json.ts';
import type { Row, Value } from '../store/store.ts';

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

export const finalStatuses = [
  'completed',
  'failed',
  'cancelled',
  'timed_out',
] as const satisfies Status[];
const finals: ReadonlySet<Status> = new Set(finalStatuses);
export const isFinal = (status: Status): boolean => finals.has(status);

/** Statuses as SQL, word for word as the ledger's partial indexes have them: only so are they used. */
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
  /** What was done, of how much, in what unit. */
  done?: number;
  total?: number;
  unit?: string;
  message?: string;
}

export interface RetryPolicy {
  /** Attempts in all, the first included. */
  attemptsMax: number;
  backoffMs: number;
  backoffFactor: number;
  backoffMsMax: number;
  /** 0 … 1: the share of a delay that is random. */
  jitter: number;
  /** Lost attempts (a holder died) before the job counts as one that kills its worker. */
  lostMax: number;
}

export const defaultRetry: RetryPolicy = {
  attemptsMax: 1,
  backoffMs: 1000,
  backoffFactor: 2,
  backoffMsMax: 600_000,
  jitter: 0.2,
  lostMax: 1,
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
  /** The server that runs it, once it runs (or must run it, when the kind says so). */
  node: string | null;
  parentId: string | null;
  idempotencyKey: string | null;
  idempotencyHash: string | null;
  input: unknown;
  result: unknown;
  error: JobError | null;
  progress: Progress | null;
  /** The kind's own record of the current attempt: exit code, pid, worker … */
  facts: Record<string, unknown>;
  cost: number | null;
  /** What a node must have to run it: `gpu`, `zone=eu`. */
  labels: string[];
  priority: number;
  /** Number of the current attempt, from 1. */
  attempt: number;
  attemptId: string;
  /** How many attempts were lost in a row with their holder. */
  lost: number;
  retry: RetryPolicy;
  /** Who holds the running attempt: a node, or a worker. */
  holder: string | null;
  runAt: number;
  /** How long after its submit, or a retry by hand, an attempt may still start. */
  ttlMs: number | null;
  /** When that time ends. */
  expiresAt: number | null;
  /** Awake execution time allowed per attempt. */
  timeoutMs: number | null;
  deadlineAt: number | null;
  /** Jobs that must complete first and are not over yet; queued without a dispatch entry while > 0. */
  waitingFor: number;
  cancelRequestedAt: number | null;
  createdAt: number;
  updatedAt: number;
  startedAt: number | null;
  finishedAt: number | null;
  /** Kept by retention. */
  pinned: boolean;
  /** `traceparent` of the call that submitted it, where there was one. */
  trace: string | null;
  /** Number of events so far: the fence of every change. */
  version: number;
  /** Columns that could not be decoded; their fields are empty. Such a job is shown and can be removed, but never runs. */
  undecodable?: readonly string[];
}

/** Column of each field; JSON fields are stored as text. Order is the order of the table. */
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

const jsonFields: ReadonlySet<JobField> = new Set([
  'tags',
  'labels',
  'input',
  'result',
  'error',
  'progress',
  'facts',
  'retry',
]);

export function jobFromRow(row: Row): Job {
  // A copy has its fields in place; one by one, so many of them make an object that is slow for whoever reads it.
  const job: Record<string, unknown> = { ...blank };
  for (const field of jobFields) job[field] = row[columns[field]] ?? null;
  for (const field of jsonFields) if (job[field] !== null) decodeField(job, field);
  job.pinned = job.pinned === 1;
  job.tags ??= [];
  job.labels ??= [];
  job.facts ??= {};
  job.retry = job.retry ? { ...defaultRetry, ...job.retry } : defaultRetry;
  return job as unknown as Job;
}

/** A field that cannot be decoded is left empty and named: reading a row never throws. */
function decodeField(job: Record<string, unknown>, field: JobField): void {
  const decoded = decodeJson(job[field]);
  if (decoded && hasForm(field, decoded.value)) return void (job[field] = decoded.value);
  job[field] = field === 'input' ? {} : null;
  job.undecodable = [...((job.undecodable as string[] | undefined) ?? []), columns[field]];
}

function hasForm(field: JobField, value: unknown): boolean {
  if (field === 'tags' || field === 'labels') return Array.isArray(value);
  return field === 'input' || field === 'result' || isRecord(value);
}

const blank = { ...columns } as Record<string, unknown>;

export function columnValue(field: JobField, value: unknown): Value {
  if (value === null || value === undefined) return null;
  if (jsonFields.has(field)) return emptyAsNull(field, value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value as Value;
}

/** Most jobs have no tags, no facts and the default retry: a NULL is cheaper to write and to read. */
function emptyAsNull(field: JobField, value: unknown): Value {
  if ((field === 'tags' || field === 'labels') && (value as string[]).length === 0) return null;
  if (field === 'facts' && Object.keys(value as object).length === 0) return null;
  if (field === 'retry' && value === defaultRetry) return null;
  return JSON.stringify(value);
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** Unguessable and short: 16 characters of Crockford base32, 80 random bits. */
export function randomId(prefix: string, length = 16): string {
  if (poolUsed + length > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  let id = prefix;
  for (let i = 0; i < length; i++) id += alphabet[pool[poolUsed++]! & 31];
  return id;
}

/** Random bytes are asked of the system in bulk: one by one they cost more than the rest of an id. */
const pool = Buffer.alloc(4096);
let poolUsed = pool.length;

/**
 * Jobs born one after the other lie one after the other in every index, so that a commit touches few pages: sixteen at a
 * time share their first three characters, and the next sixteen have the next three. Where that begins is random, as are
 * the other thirteen characters (65 bits), which keep the id unguessable.
 */
export function newJobId(): string {
  if (born % shelfSize === 0) shelf = shelfName((firstShelf + born / shelfSize) % 32 ** 3);
  born += 1;
  return randomId(shelf, 13);
}

const shelfName = (n: number): string =>
  `job_${alphabet[n >> 10]}${alphabet[(n >> 5) & 31]}${alphabet[n & 31]}`;

const shelfSize = 16;
const firstShelf = randomInt(32 ** 3);
let born = 0;
let shelf = '';

/** How a queue may be called, and how to say so. */
export const queueForm = /^[\w.-]{1,100}$/;
export const queueFormWords = 'letters, digits, dots, dashes and underscores, at most 100';

/** A hundred years: more is for ever, and a time must stay a number that every store gives back exactly. */
export const lifeMsMax = 36_500 * 86_400_000;

/** How long the present attempt waited for its turn once its time had come. */
export const waitedMs = ({ createdAt, runAt }: Job, startedAt: number): number =>
  startedAt - Math.max(createdAt, runAt);

/** Attempt ids are derivable, so a fence can be read by a person: the job and the number. */
export const attemptIdOf = (jobId: string, attempt: number): string => `${jobId}.${attempt}`;
