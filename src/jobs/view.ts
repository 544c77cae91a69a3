// How a job is shown: the same fields in every face, small enough for a model, with what was left out said.
import { z } from 'zod';
import type { Caller } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';
import { partScope } from '../store/store.ts';
import { counterScope, queueKey } from './intents.ts';
import { isFinal, statuses, waitedMs, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { QueueRow } from './ledger.ts';
import { unknownJob } from './dependencies.ts';
import { isWithin } from './limits.ts';

const iso = z.string().describe('ISO-8601 UTC');

const jobErrorView = z
  .object({
    code: z.string(),
    message: z.string(),
    hint: z.string().optional(),
    data: z.unknown().optional(),
  })
  .describe('Why it ended so');

export const jobView = z.looseObject({
  id: z.string(),
  kind: z.string(),
  action: z.string().optional(),
  status: z.enum(statuses),
  stage: z.string().optional().describe("The kind's own finer state"),
  queue: z.string(),
  name: z.string().optional(),
  summary: z.string().optional().describe('The command line, URL or title'),
  tags: z.array(z.string()).optional(),
  attempts: z
    .object({ number: z.number(), max: z.number() })
    .describe('Current attempt, and how many it may have'),
  progress: z.looseObject({}).optional(),
  result: z.unknown().optional(),
  error: jobErrorView.optional(),
  timings: z.object({
    createdAt: iso,
    startedAt: iso.optional(),
    finishedAt: iso.optional(),
    waitMs: z.number().optional(),
    runMs: z.number().optional(),
  }),
});
export type JobView = z.infer<typeof jobView>;

export const jobLine = z.looseObject({
  id: z.string(),
  kind: z.string(),
  status: z.enum(statuses),
  name: z.string().optional(),
  summary: z.string().optional(),
  createdAt: iso,
  updatedAt: iso.optional().describe('When it ended, or else started'),
  runMs: z.number().optional(),
});

/** A result over this size is named, not shown: read it with read_output or the kind's own operation. */
export const resultBytesMax = 32_768;
const summaryCharsMax = 200;

export async function viewJob(
  jobs: Jobs,
  job: Job,
  now: number,
  caller?: Caller,
): Promise<JobView> {
  const summary = readable(() => jobs.findKind(job.kind)?.summary?.(job));
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
    attempts: { number: job.attempt, max: job.retry.attemptsMax },
    ...(job.progress ? { progress: { ...job.progress } } : {}),
    ...boundedResult(job),
    ...(job.error ? { error: job.error } : {}),
    ...(job.cancelRequestedAt !== null && !isFinal(job.status) ? { cancelling: true } : {}),
    ...(job.parentId ? { parentId: job.parentId } : {}),
    ...(job.priority === 0 ? {} : { priority: job.priority }),
    ...(job.status === 'queued' ? await waiting(jobs, job, now, caller) : {}),
    ...(job.visibility === 'public' ? { visibility: job.visibility } : {}),
    ...(job.cost === null ? {} : { cost: job.cost }),
    ...(job.pinned ? { pinned: true } : {}),
    timings: timings(job, now),
  };
}

/** What its kind says of it. A row that the kind cannot read must not hide the jobs around it. */
function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isExpected(error)) throw error;
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
    if (isExpected(error)) throw error;
    return { diagnosis: 'Its stored details cannot be read.' };
  }
}

/** Errors of the store or for the caller; anything else means that the kind cannot read the row. */
const isExpected = (error: unknown): boolean =>
  !(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError);

/** What a queued job waits for. */
async function waiting(
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

/** A queue that is paused or full, or a label that no node has, would keep it waiting without a word. */
async function diagnosis(
  jobs: Jobs,
  job: Job,
  now: number,
  caller: Caller | undefined,
): Promise<{ diagnosis?: string }> {
  const queue = await jobs.ledger.queue(job.kind, job.queue);
  if (queue?.paused)
    return {
      diagnosis: `Its queue ${job.queue} is paused: set_queue with paused false lets its jobs run.`,
    };
  const why = job.labels.length === 0 ? undefined : await jobs.whyWaits(job);
  if (why !== undefined) return { diagnosis: why };
  const isNext =
    job.runAt <= now && job.waitingFor === 0 && jobs.findKind(job.kind)?.run !== undefined;
  return caller && isNext ? { diagnosis: await turnOf(jobs, job, caller, queue) } : {};
}

const aheadMax = 1000;

/** How many of its queue run and are before it. Of a queue that others use too, only admins may know all of them. */
async function turnOf(
  jobs: Jobs,
  { kind, queue: name, attemptId, owner }: Job,
  caller: Caller,
  queue: QueueRow | undefined,
): Promise<string> {
  const scope = counterScope(kind, name);
  const counts = await jobs.store.counters(caller.admin ? scope : partScope(scope, owner));
  const running = (counts.running ?? 0) + (counts.input_required ?? 0);
  const limit = queue?.concurrencyMax ?? null;
  const of = limit === null ? '' : ` of ${limit}`;
  if (!caller.admin)
    return `queued in ${name}: ${running}${of} running are yours, jobs of others may be ahead`;
  const ahead = await jobs.store.ahead(queueKey(kind, name), attemptId, aheadMax);
  const many = ahead === aheadMax ? `${ahead} or more` : ahead;
  const full = limit === null ? await fullText(jobs, kind) : '';
  return `queued in ${name}: ${running}${of} running, ${many} ahead${full}`;
}

/** A server runs only so many jobs of a kind, whatever their queues. */
async function fullText(jobs: Jobs, name: string): Promise<string> {
  const max = jobs.kind(name).capacity();
  const running = await jobs.ledger.runningOf(name);
  return running >= max ? ` (a server runs at most ${max} jobs of kind ${name})` : '';
}

/** What anybody with the id of a public job may see. */
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

export function lineOf(jobs: Jobs, job: Job, now: number): z.infer<typeof jobLine> {
  const summary = readable(() => jobs.findKind(job.kind)?.summary?.(job));
  const { runMs, startedAt, finishedAt } = timings(job, now);
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
    ...readable(() => jobs.findKind(job.kind)?.line?.(job)),
    ...(job.error ? { error: job.error.code } : {}),
  };
}

/** The job if the caller may see it; else it looks unknown. */
export async function visibleJob(jobs: Jobs, id: string, caller: Caller | undefined): Promise<Job> {
  const job = await jobs.get(id);
  if (job.visibility === 'public' || (await isParty(jobs, job, caller))) return job;
  throw unknownJob(id);
}

/** Its owner, or whom its kind lets read it too; in both cases within the limits of the key. */
export async function isParty(jobs: Jobs, job: Job, caller: Caller | undefined): Promise<boolean> {
  if (await isOwn(jobs, job, caller)) return true;
  if (!caller || !(await isWithin(jobs, job, caller))) return false;
  return (await jobs.findKind(job.kind)?.readableBy?.(job, caller)) === true;
}

/** A job of the caller's owner (an admin key: of any owner) that is within the limits of the key. */
export async function isOwn(
  jobs: Pick<Jobs, 'findKind'>,
  job: Job,
  caller: Caller | undefined,
): Promise<boolean> {
  if (!caller || !(caller.admin || job.owner === caller.owner)) return false;
  return isWithin(jobs, job, caller);
}

/** The job if the caller may change it. */
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

function boundedResult(job: Job): Record<string, unknown> {
  if (job.result === null || job.result === undefined) return {};
  const bytes = Buffer.byteLength(JSON.stringify(job.result));
  if (bytes <= resultBytesMax) return { result: job.result };
  return {
    resultOmitted: {
      bytes,
      hint: 'Too large to show here: get_job with includeResult: true gives all of it.',
    },
  };
}

function timings(job: Job, now: number): JobView['timings'] {
  const { createdAt, startedAt, finishedAt } = job;
  // An end is seen late when no server was there: what the kind measured is how long it really ran.
  const { runMs } = finishedAt === null ? {} : job.facts;
  return {
    createdAt: isoTime(createdAt),
    ...(startedAt === null
      ? {}
      : { startedAt: isoTime(startedAt), waitMs: waitedMs(job, startedAt) }),
    ...(finishedAt === null ? {} : { finishedAt: isoTime(finishedAt) }),
    ...(startedAt === null
      ? {}
      : { runMs: typeof runMs === 'number' ? runMs : (finishedAt ?? now) - startedAt }),
  };
}

const shorten = (text: string): string =>
  text.length <= summaryCharsMax ? text : `${text.slice(0, summaryCharsMax - 1)}…`;
