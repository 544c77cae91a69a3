// How a job is shown: the same fields in every face, small enough for a model, with what was left out said.
import { z } from 'zod';
import type { Caller } from '../operation.ts';
import { isFinal, statuses, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';
import { unknownJob } from './dependencies.ts';

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
  const kind = jobs.kind(job.kind);
  const summary = kind.summary?.(job);
  return {
    id: job.id,
    kind: job.kind,
    ...(job.action ? { action: job.action } : {}),
    status: job.status,
    ...(job.stage ? { stage: job.stage } : {}),
    queue: job.queue,
    ...(job.name ? { name: job.name } : {}),
    ...(summary ? { summary: shorten(summary) } : {}),
    ...(job.tags.length > 0 ? { tags: job.tags } : {}),
    ...(await kind.view?.(job, caller)),
    attempts: { number: job.attempt, max: job.retry.attemptsMax },
    ...(job.progress ? { progress: { ...job.progress } } : {}),
    ...boundedResult(job),
    ...(job.error ? { error: job.error } : {}),
    ...(job.cancelRequestedAt !== null && !isFinal(job.status) ? { cancelling: true } : {}),
    ...(job.parentId ? { parentId: job.parentId } : {}),
    ...(job.waitingFor > 0 ? { waitingFor: job.waitingFor } : {}),
    ...(await placement(jobs, job)),
    ...(job.visibility === 'public' ? { visibility: job.visibility } : {}),
    ...(job.cost === null ? {} : { cost: job.cost }),
    ...(job.pinned ? { pinned: true } : {}),
    timings: timings(job, now),
  };
}

/** Where a job that waits may run at all: a label that nobody has would keep it waiting without a word. */
async function placement(jobs: Jobs, job: Job): Promise<Record<string, unknown>> {
  if (job.status !== 'queued' || job.labels.length === 0) return {};
  const diagnosis = await jobs.whyWaits(job);
  return { labels: job.labels, ...(diagnosis === undefined ? {} : { diagnosis }) };
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
  const summary = jobs.kind(job.kind).summary?.(job);
  const { runMs } = timings(job, now);
  return {
    id: job.id,
    kind: job.kind,
    status: job.status,
    ...(job.name ? { name: job.name } : {}),
    ...(summary ? { summary: shorten(summary) } : {}),
    ...(job.stage ? { stage: job.stage } : {}),
    ...(job.tags.length > 0 ? { tags: job.tags } : {}),
    ...(job.queue === 'default' ? {} : { queue: job.queue }),
    createdAt: new Date(job.createdAt).toISOString(),
    ...(runMs === undefined ? {} : { runMs }),
    ...(job.error ? { error: job.error.code } : {}),
  };
}

/** The job if the caller may see it; else it looks unknown. */
export async function visibleJob(jobs: Jobs, id: string, caller: Caller | undefined): Promise<Job> {
  const job = await jobs.get(id);
  if (job.visibility === 'public' || (await isParty(jobs, job, caller))) return job;
  throw unknownJob(id);
}

/** Its owner, or whom its kind lets read it too. */
export async function isParty(jobs: Jobs, job: Job, caller: Caller | undefined): Promise<boolean> {
  if (await isOwn(jobs, job, caller)) return true;
  return caller !== undefined && (await jobs.kind(job.kind).readableBy?.(job, caller)) === true;
}

/** A key bound to one thing is no more than that where a kind knows parties: its owner's other jobs are not its own. */
export async function isOwn(jobs: Jobs, job: Job, caller: Caller | undefined): Promise<boolean> {
  if (!caller || !owns(job, caller)) return false;
  const kind = jobs.kind(job.kind);
  return caller.subject === undefined || !kind.readableBy || kind.readableBy(job, caller);
}

/** The job if the caller may change it. */
export async function ownJob(jobs: Jobs, id: string, caller: Caller | undefined): Promise<Job> {
  const job = await jobs.get(id);
  if (!(await isOwn(jobs, job, caller))) throw unknownJob(id);
  return job;
}

export const mayRead = (job: Job, caller: Caller | undefined): boolean =>
  job.visibility === 'public' || owns(job, caller);

export function owns(job: Job, caller: Caller | undefined): boolean {
  if (!caller) return false;
  if (caller.admin) return true;
  if (job.owner !== caller.owner) return false;
  if (caller.kinds && !caller.kinds.includes(job.kind)) return false;
  return !caller.queues || caller.queues.includes(job.queue);
}

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
  const isoTime = (at: number) => new Date(at).toISOString();
  return {
    createdAt: isoTime(createdAt),
    ...(startedAt === null ? {} : { startedAt: isoTime(startedAt), waitMs: startedAt - createdAt }),
    ...(finishedAt === null ? {} : { finishedAt: isoTime(finishedAt) }),
    ...(startedAt === null
      ? {}
      : { runMs: typeof runMs === 'number' ? runMs : (finishedAt ?? now) - startedAt }),
  };
}

const shorten = (text: string): string =>
  text.length <= summaryCharsMax ? text : `${text.slice(0, summaryCharsMax - 1)}…`;

/** A page of jobs, a line each: what a model needs to pick one. */
export function pageText(page: {
  jobs: z.infer<typeof jobLine>[];
  nextCursor?: string | undefined;
}): string {
  if (page.jobs.length === 0) return 'No job fits.';
  const lines = page.jobs.map(({ id, status, kind, name, summary, createdAt, error }) =>
    [
      `${id} ${status}${typeof error === 'string' ? ` (${error})` : ''}`,
      `${kind}${name ? ` "${name}"` : ''}`,
      createdAt.replace(/\.\d+Z$/, 'Z'),
      ...(summary ? [summary.replaceAll(/\s+/g, ' ')] : []),
    ].join(' · '),
  );
  return [...lines, ...(page.nextCursor ? [`more: cursor ${page.nextCursor}`] : [])].join('\n');
}

/** A few lines for a model or a person: the state first, so that it survives any truncation. */
export function jobText(view: Record<string, unknown>): string {
  const { id, status, stage, kind, name, summary, error, progress, result, exitCode, signal } =
    view;
  const head = [
    `${String(id)} ${String(status)}${stage ? ` (${String(stage)})` : ''}`,
    `${String(kind)}${name ? ` "${String(name)}"` : ''}`,
    ...(exitCode === undefined || exitCode === null ? [] : [`exit code ${String(exitCode)}`]),
    ...(signal ? [`signal ${String(signal)}`] : []),
  ];
  const lines = [head.join(' · ')];
  if (summary) lines.push(String(summary));
  const facts = factsText(view);
  if (facts.length > 0) lines.push(facts.join(' · '));
  lines.push(...turnText(view));
  if (view.diagnosis) lines.push(String(view.diagnosis));
  if (progress) lines.push(`progress: ${progressText(progress)}`);
  if (error) {
    const { code, message, hint } = error as { code: string; message: string; hint?: string };
    lines.push(`${code}: ${message}${hint ? ` ${hint}` : ''}`);
  }
  if (result !== undefined) lines.push(`result: ${JSON.stringify(result).slice(0, 2000)}`);
  return lines.join('\n');
}

/** In words where it is counted; a worker may report anything. */
function progressText(progress: object): string {
  const { done, total, unit, message, ...others } = progress as Record<string, unknown>;
  if (typeof done !== 'number' || Object.keys(others).length > 0) return JSON.stringify(progress);
  const count = [done, ...(typeof total === 'number' ? ['of', total] : []), unit].filter(isGiven);
  return [count.join(' '), message].filter(isGiven).map(String).join(', ');
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

/** What a kind tells beside the state, in words; whatever is missing is not said. */
function factsText(view: Record<string, unknown>): string[] {
  const number = (value: unknown) => (typeof value === 'number' ? value : undefined);
  const { history, outputBytes, lastOutputAgeMs, ports, leftBehind, fates, warnings } = view;
  const { runMs, finishedAt } = (view.timings ?? {}) as JobView['timings'];
  const expectedMs = number((history as { expectedMs?: number } | undefined)?.expectedMs);
  const usual = expectedMs === undefined ? '' : ` (usually ${seconds(expectedMs)})`;
  const age = number(lastOutputAgeMs);
  const list = (value: unknown) => (Array.isArray(value) ? value.join(', ') : '');
  return [
    ...(runMs === undefined
      ? []
      : [`${finishedAt ? 'ran' : 'running for'} ${seconds(runMs)}${usual}`]),
    ...Object.entries((fates ?? {}) as Record<string, number>).map(([fate, n]) => `${n} ${fate}`),
    ...(Array.isArray(warnings) ? warnings.map(String) : []),
    ...(view.slowerThanUsual === true ? ['slower than usual'] : []),
    ...(number(outputBytes) === undefined ? [] : [`${String(outputBytes)} bytes of output`]),
    ...(age === undefined || outputBytes === 0 ? [] : [`last ${seconds(age)} ago`]),
    ...(view.waitingForInput === true ? ['waits for input'] : []),
    ...(list(ports) === '' ? [] : [`listens on port ${list(ports)}`]),
    ...(list(leftBehind) === '' ? [] : [`left processes running: ${list(leftBehind)}`]),
  ];
}

/** Of a job between parties: whose turn it is and until when, what the reader may do, which money moved. */
function turnText(view: Record<string, unknown>): string[] {
  const { nextActor, deadline, settling, availableActions = [], transactions = [] } = view;
  const until = deadline ? ` until ${String(deadline)}` : '';
  const moves = (transactions as { kind: string; amount: string }[]).map(
    ({ kind, amount }) => `${kind}${amount === '0' ? '' : ` ${amount}`}`,
  );
  return [
    ...(settling ? [`settling: ${String(settling)}`] : []),
    ...(nextActor ? [`next: ${String(nextActor)}${until}`] : []),
    ...((availableActions as string[]).length > 0
      ? [`you may: ${(availableActions as string[]).join(', ')}`]
      : []),
    ...(moves.length > 0 ? [`transactions: ${moves.join(', ')}`] : []),
  ];
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
