// Job views: the same fields in every interface, small enough for a model, with notes about omitted parts. Also decides
// who may see a job.
import type { Caller } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';
import { partScope } from '../store/store.ts';
import { counterScope, queueKey } from './intents.ts';
import { isFinal, queuedMs, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { QueueRow } from './ledger.ts';
import { unknownJob } from './dependencies.ts';
import { isWithinLimits } from './limits.ts';
import { webhookFailureOf } from '../webhooks/failure.ts';
import type { JobLine, JobView } from '../contracts/jobs.ts';

/** A larger result is replaced by `resultOmitted`. get_job with includeResult returns it. */
const maxResultBytes = 32_768;
const maxSummaryChars = 200;

export async function viewJob(
  jobs: Jobs,
  job: Job,
  now: number,
  caller?: Caller,
): Promise<JobView> {
  const summary = tryRead(() => jobs.findKind(job.kind)?.summary?.(job));
  const webhookFailure = webhookFailureOf(job);
  return {
    id: job.id,
    kind: job.kind,
    ...(job.undecodable ? { undecodable: job.undecodable } : {}),
    ...(job.action ? { action: job.action } : {}),
    status: job.status,
    ...(job.stage ? { stage: job.stage } : {}),
    queue: job.queue,
    ...(job.name ? { name: job.name } : {}),
    ...(summary ? { summary: shorten(summary) } : {}),
    ...(job.tags.length > 0 ? { tags: job.tags } : {}),
    ...(await kindView(jobs, job, caller)),
    attempts: { number: job.attempt, max: job.retry.maxAttempts },
    ...(job.progress ? { progress: { ...job.progress } } : {}),
    ...limitResult(job),
    ...(job.error ? { error: job.error } : {}),
    ...(job.cancelRequestedAt !== null && !isFinal(job.status) ? { cancelling: true } : {}),
    ...(job.parentId ? { parentId: job.parentId } : {}),
    ...(job.priority === 0 ? {} : { priority: job.priority }),
    ...(job.status === 'queued' ? await queuedFields(jobs, job, now, caller) : {}),
    ...(job.visibility === 'public' ? { visibility: job.visibility } : {}),
    ...(job.cost === null ? {} : { cost: job.cost }),
    ...(job.pinned ? { pinned: true } : {}),
    ...(webhookFailure ? { webhookFailure } : {}),
    timings: toTimings(job, now),
  };
}

/** Calls a kind for its fields. A row that the kind cannot read must not make other jobs unreadable. */
function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isStoreOrCallerError(error)) throw error;
    return undefined;
  }
}

async function kindView(
  jobs: Jobs,
  job: Job,
  caller: Caller | undefined,
): Promise<Record<string, unknown>> {
  try {
    return (await jobs.findKind(job.kind)?.view?.(job, caller)) ?? {};
  } catch (error) {
    if (isStoreOrCallerError(error)) throw error;
    return { diagnosis: 'The stored details of this job cannot be read.' };
  }
}

/** TypeError, RangeError and SyntaxError mean that the kind cannot read the row. Other errors are rethrown. */
const isStoreOrCallerError = (error: unknown): boolean =>
  !(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError);

/** Fields of a queued job: what it waits for. */
async function queuedFields(
  jobs: Jobs,
  job: Job,
  now: number,
  caller: Caller | undefined,
): Promise<Record<string, unknown>> {
  const before = job.waitingFor > 0 ? await jobs.ledger.dependenciesOf(job.id) : [];
  return {
    ...(job.runAt > now ? { runAt: isoTime(job.runAt) } : {}),
    ...(job.expiresAt === null ? {} : { expiresAt: isoTime(job.expiresAt) }),
    ...(job.waitingFor > 0
      ? { waitingFor: job.waitingFor, after: before.map(({ afterId }) => afterId) }
      : {}),
    ...(job.labels.length === 0 ? {} : { labels: job.labels }),
    ...(await diagnosis(jobs, job, now, caller)),
  };
}

/** Explains why a queued job waits: a paused or full queue, or a label that no node has. */
async function diagnosis(
  jobs: Jobs,
  job: Job,
  now: number,
  caller: Caller | undefined,
): Promise<{ diagnosis?: string }> {
  const queue = await jobs.ledger.queue(job.kind, job.queue);
  if (queue?.paused)
    return {
      diagnosis: `The queue ${job.queue} is paused: set_queue with paused false resumes it.`,
    };
  const why = job.labels.length === 0 ? undefined : await jobs.explainWait(job);
  if (why !== undefined) return { diagnosis: why };
  const isNext =
    job.runAt <= now && job.waitingFor === 0 && jobs.findKind(job.kind)?.run !== undefined;
  return caller && isNext ? { diagnosis: await describeTurn(jobs, job, caller, queue) } : {};
}

const maxAhead = 1000;

/** How many jobs of the queue run and are ahead. Queues can be shared, so only admins see the numbers of all owners. */
async function describeTurn(
  jobs: Jobs,
  { kind, queue: name, attemptId, owner }: Job,
  caller: Caller,
  queue: QueueRow | undefined,
): Promise<string> {
  const scope = counterScope(kind, name);
  const counts = await jobs.store.counters(caller.admin ? scope : partScope(scope, owner));
  const running = (counts.running ?? 0) + (counts.input_required ?? 0);
  const limit = queue?.maxConcurrency ?? null;
  const limitText = limit === null ? '' : ` of ${limit}`;
  if (!caller.admin)
    return `queued in ${name}: ${running}${limitText} running are yours; jobs of other owners may be ahead`;
  const ahead = await jobs.store.countAhead(queueKey(kind, name), attemptId, maxAhead);
  const aheadText = ahead === maxAhead ? `${ahead} or more` : ahead;
  const full = limit === null ? await capacityText(jobs, kind) : '';
  return `queued in ${name}: ${running}${limitText} running, ${aheadText} ahead${full}`;
}

/** A server limits the concurrent jobs of a kind across all queues. */
async function capacityText(jobs: Jobs, name: string): Promise<string> {
  const max = jobs.kind(name).capacity();
  const running = await jobs.ledger.runningOf(name);
  return running >= max ? ` (a server runs at most ${max} jobs of kind ${name})` : '';
}

/** The view for anyone who knows the id of a public job. */
export async function viewPublicJob(
  jobs: Jobs,
  job: Job,
  now: number,
  caller?: Caller,
): Promise<JobView> {
  const full = await viewJob(jobs, job, now, caller);
  const { name: _name, tags: _tags, labels: _labels, diagnosis: _diagnosis, ...shown } = full;
  return shown;
}

export function toJobLine(jobs: Jobs, job: Job, now: number): JobLine {
  const summary = tryRead(() => jobs.findKind(job.kind)?.summary?.(job));
  const { runMs, startedAt, finishedAt } = toTimings(job, now);
  const updatedAt = finishedAt ?? startedAt;
  return {
    id: job.id,
    kind: job.kind,
    status: job.status,
    ...(job.undecodable ? { undecodable: job.undecodable } : {}),
    ...(job.name ? { name: job.name } : {}),
    ...(summary ? { summary: shorten(summary) } : {}),
    ...(job.stage ? { stage: job.stage } : {}),
    ...(job.tags.length > 0 ? { tags: job.tags } : {}),
    ...(job.queue === 'default' ? {} : { queue: job.queue }),
    createdAt: isoTime(job.createdAt),
    ...(updatedAt === undefined ? {} : { updatedAt }),
    ...(runMs === undefined ? {} : { runMs }),
    ...tryRead(() => jobs.findKind(job.kind)?.line?.(job)),
    ...(job.error ? { error: job.error.code } : {}),
  };
}

/** Returns the job if the caller may see it. Otherwise throws as if it did not exist. */
export async function visibleJob(jobs: Jobs, id: string, caller: Caller | undefined): Promise<Job> {
  const job = await jobs.get(id);
  if (job.visibility === 'public' || (await isParty(jobs, job, caller))) return job;
  throw unknownJob(id);
}

/** Whether the caller is the owner or may read the job as a party, within the limits of the key. */
export async function isParty(jobs: Jobs, job: Job, caller: Caller | undefined): Promise<boolean> {
  if (await isOwn(jobs, job, caller)) return true;
  if (!caller || !(await isWithinLimits(jobs, job, caller))) return false;
  return (await jobs.findKind(job.kind)?.readableBy?.(job, caller)) === true;
}

/** Whether the caller owns the job (admin keys own all jobs) and it is within the limits of the key. */
export async function isOwn(
  jobs: Pick<Jobs, 'findKind'>,
  job: Job,
  caller: Caller | undefined,
): Promise<boolean> {
  if (!caller || !(caller.admin || job.owner === caller.owner)) return false;
  return isWithinLimits(jobs, job, caller);
}

/** Returns the job if the caller may change it. Otherwise throws as if it did not exist. */
export async function ownJob(jobs: Jobs, id: string, caller: Caller | undefined): Promise<Job> {
  const job = await jobs.get(id);
  if (!(await isOwn(jobs, job, caller))) throw unknownJob(id);
  return job;
}

export const mayRead = async (
  jobs: Pick<Jobs, 'findKind'>,
  job: Job,
  caller: Caller | undefined,
): Promise<boolean> => job.visibility === 'public' || isOwn(jobs, job, caller);

function limitResult(job: Job): Record<string, unknown> {
  if (job.result === null || job.result === undefined) return {};
  const bytes = Buffer.byteLength(JSON.stringify(job.result));
  if (bytes <= maxResultBytes) return { result: job.result };
  return {
    resultOmitted: {
      bytes,
      hint: 'Too large to show here. Call get_job with includeResult: true for the complete result.',
    },
  };
}

function toTimings(job: Job, now: number): JobView['timings'] {
  const { createdAt, startedAt, finishedAt } = job;
  // If no server was running, the end is noticed late. The run time that the kind measured is exact.
  const { runMs } = finishedAt === null ? {} : job.facts;
  return {
    createdAt: isoTime(createdAt),
    ...(startedAt === null
      ? {}
      : { startedAt: isoTime(startedAt), queuedMs: queuedMs(job, startedAt) }),
    ...(finishedAt === null ? {} : { finishedAt: isoTime(finishedAt) }),
    ...(startedAt === null
      ? {}
      : { runMs: typeof runMs === 'number' ? runMs : (finishedAt ?? now) - startedAt }),
  };
}

const shorten = (text: string): string =>
  text.length <= maxSummaryChars ? text : `${text.slice(0, maxSummaryChars - 1)}…`;
