// How an operation becomes a job: paid for, submitted, waited for as long as a call may take, answered.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { labelList } from '../../../jobs/labels.ts';
import { sameJob } from '../../../jobs/submission.ts';
import type { CallContext, Reach } from '../../../operation.ts';
import type { Action } from '../actions/inputs.ts';
import { webhook, type WebhookWish } from '../crawl/options.ts';
import { parseUrl } from '../crawl/url.ts';
import { allowedOf, withAllowed } from '../private.ts';
import type { Services } from '../services.ts';
import { priceOf } from '../usage/prices.ts';
import { subscription } from '../webhooks.ts';

export const waitMs = z
  .number()
  .int()
  .min(0)
  .max(50_000)
  .default(45_000)
  .describe('Answer after this with a job id if it is not done');

export const common = {
  name: z.string().max(200).optional().describe('Name of the job'),
  tags: z.array(z.string().max(100)).max(20).optional(),
  idempotencyKey: z.string().max(200).optional(),
  webhook: webhook.optional().describe('Told by POST; secret and headers are not kept in the job'),
  labels: labelList.optional().describe('In a cluster: labels of the node it must run on'),
};

/** A node that dies takes no reading with it; browse_page may have changed something and is never repeated. */
const lostMax = 5;

/** All web jobs wait in one queue. */
export const webJobs: Reach = { queue: () => 'default' };

export interface Submit {
  action: Action;
  input: Record<string, unknown>;
  timeoutMs?: number;
  name?: string | undefined;
  tags?: string[] | undefined;
  idempotencyKey?: string | undefined;
  webhook?: WebhookWish | undefined;
  labels?: string[] | undefined;
  parentId?: string;
}

export async function submit(services: Services, context: CallContext, wish: Submit): Promise<Job> {
  const { owner } = context.caller!;
  await services.usage.require(owner, priceOf(wish.action, wish.input as never));
  const { job } = await services.jobs.submit({
    kind: 'web',
    action: wish.action,
    input: context.allowPrivate ? withAllowed(wish.input) : wish.input,
    owner,
    ...(wish.name === undefined ? {} : { name: wish.name }),
    ...(wish.tags === undefined ? {} : { tags: wish.tags }),
    ...(wish.idempotencyKey === undefined ? {} : { idempotencyKey: wish.idempotencyKey }),
    ...(wish.timeoutMs === undefined ? {} : { timeoutMs: wish.timeoutMs }),
    ...(wish.parentId === undefined ? {} : { parentId: wish.parentId }),
    ...hooked(wish.webhook, services),
    labels: wish.labels ?? services.settings.labels,
    retry: { attemptsMax: wish.action === 'browse' ? 1 : 1 + lostMax, lostMax, backoffMs: 0 },
  });
  return job;
}

/** The work of an ended job, as a new one that is paid for like any other. */
export async function rerun(services: Services, context: CallContext, job: Job): Promise<Job> {
  const { caller } = context;
  refuseQueue(caller!.queues);
  await services.usage.require(job.owner, priceOf(job.action as Action, job.input as never));
  const { allowed, input } = allowedOf(job);
  const isAllowed = allowed.length === 0 || caller!.local;
  const again = sameJob(job);
  return (await services.jobs.submit(isAllowed ? again : { ...again, input })).job;
}

/** Web jobs have one queue; a key that is limited to others may not fill it. */
function refuseQueue(queues: readonly string[] | undefined): void {
  if (!queues || queues.includes('default')) return;
  throw new AppError('forbidden', 'The key may not use the queue default, where web jobs wait.', {
    hint: `It is limited to: ${queues.join(', ')}.`,
  });
}

/** Checked now, subscribed with the submit. */
function hooked(wish: WebhookWish | undefined, { webhooks }: Services) {
  if (!wish) return {};
  parseUrl(wish.url);
  return { steps: (job: Job) => subscription(webhooks, job, wish) };
}

/** The ended job, or the running one when the time is over. A failed job is the caller's error. */
export async function submitAndWait(
  services: Services,
  context: CallContext,
  wish: Submit & { waitMs: number },
): Promise<Job> {
  const submitted = await submit(services, context, wish);
  const { id } = submitted;
  await services.waiting.wait({
    ids: [id],
    mode: 'all',
    timeoutMs: wish.waitMs,
    signal: context.signal,
  });
  const job = await services.jobs.get(id);
  if (!isFinal(job.status) || job.status === 'completed') return job;
  const error = job.error ?? { code: 'unavailable', message: `The job ended ${job.status}.` };
  const { code, message, hint } = error;
  throw new AppError(code, message, {
    ...(hint === undefined ? {} : { hint }),
    data: { ...error.data, jobId: id, ...(job.result === null ? {} : { result: job.result }) },
  });
}

export const jobFields = {
  jobId: z.string(),
  status: z.string().describe('completed, or running: follow the job'),
  next: z.string().optional(),
};

export type Answer = { jobId: string; status: string; next?: string | undefined } & Record<
  string,
  unknown
>;

/** What every such operation answers: the result with the job's id, or how to go on. */
export function answerOf(job: Job): Answer {
  if (job.status === 'completed') {
    return { ...(job.result as Record<string, unknown>), jobId: job.id, status: job.status };
  }
  if (isFinal(job.status)) {
    const { error, result } = job;
    const known = { ...(result as object | null), ...(error ? { error } : {}) };
    return { ...known, jobId: job.id, status: job.status };
  }
  return {
    jobId: job.id,
    status: job.status,
    next: 'Still running. Call wait_for_jobs with this id, then get_job with includeResult.',
  };
}

export const pendingJob = (output: Answer): string | undefined =>
  isFinal(output.status as Job['status']) ? undefined : output.jobId;
