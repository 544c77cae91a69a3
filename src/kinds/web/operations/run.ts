// Submits web jobs, waits for them within the limits of a call, and builds the response.
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { copySubmission } from '../../../jobs/submission.ts';
import { limitWait, reportWait } from '../../../jobs/wait-progress.ts';
import type { CallContext, Reach } from '../../../operation.ts';
import type { Action } from '../jobs/inputs.ts';
import type { WebhookOptions } from '../crawl/options.ts';
import { parseUrl } from '../url.ts';
import { allowedOf, withAllowed } from '../private-addresses.ts';
import type { JobResponse } from '../contracts.ts';
import type { WebDeps } from '../deps.ts';
import { priceOf } from '../billing/prices.ts';
import { subscription } from '../webhooks.ts';

/** How often a job is repeated when its node dies. browse_page may have changed something and is never repeated. */
const maxLost = 5;

/** All web jobs wait in one queue. */
export const webJobs: Reach = { queue: () => 'default' };

interface SubmitRequest {
  action: Action;
  input: Record<string, unknown>;
  timeoutMs?: number;
  name?: string | undefined;
  tags?: string[] | undefined;
  idempotencyKey?: string | undefined;
  webhook?: WebhookOptions | undefined;
  labels?: string[] | undefined;
  parentId?: string;
}

export async function submit(
  services: WebDeps,
  context: CallContext,
  request: SubmitRequest,
): Promise<Job> {
  const { owner } = context.caller!;
  await services.usage.require(owner, priceOf(request.action, request.input as never));
  const { job } = await services.jobs.submit({
    kind: 'web',
    action: request.action,
    input: context.allowPrivate ? withAllowed(request.input) : request.input,
    owner,
    ...(request.name === undefined ? {} : { name: request.name }),
    ...(request.tags === undefined ? {} : { tags: request.tags }),
    ...(request.idempotencyKey === undefined ? {} : { idempotencyKey: request.idempotencyKey }),
    ...(request.timeoutMs === undefined ? {} : { timeoutMs: request.timeoutMs }),
    ...(request.parentId === undefined ? {} : { parentId: request.parentId }),
    ...webhookSteps(request.webhook, services),
    labels: request.labels ?? services.settings.labels,
    retry: { maxAttempts: request.action === 'browse' ? 1 : 1 + maxLost, maxLost, backoffMs: 0 },
  });
  return job;
}

/** Submits the work of an ended job as a new job, at the usual price. */
export async function rerun(services: WebDeps, context: CallContext, job: Job): Promise<Job> {
  const { caller } = context;
  refuseQueue(caller!.queues);
  await services.usage.require(job.owner, priceOf(job.action as Action, job.input as never));
  const { allowed, input } = allowedOf(job);
  const isAllowed = allowed.length === 0 || caller!.local;
  const again = copySubmission(job);
  return (await services.jobs.submit(isAllowed ? again : { ...again, input })).job;
}

/** All web jobs use the queue `default`, so the key must allow it. */
function refuseQueue(queues: readonly string[] | undefined): void {
  if (!queues || queues.includes('default')) return;
  throw new AppError(
    'forbidden',
    'The key may not use the queue default, which all web jobs use.',
    {
      hint: `It is limited to: ${queues.join(', ')}.`,
    },
  );
}

/** Validates the webhook URL and subscribes it in the submit transaction. */
function webhookSteps(request: WebhookOptions | undefined, { webhooks }: WebDeps) {
  if (!request) return {};
  parseUrl(request.url);
  return { steps: (job: Job) => subscription(webhooks, job, request) };
}

/** Returns the ended job, or the running one after `waitMs`. Throws the error of a failed job. */
export async function submitAndWait(
  services: WebDeps,
  context: CallContext,
  request: SubmitRequest & { waitMs: number },
): Promise<Job> {
  const submitted = await submit(services, context, request);
  const { id } = submitted;
  const timeoutMs = limitWait(request.waitMs, context);
  const stopProgress = reportWait(context, [id], services);
  await services.waiting
    .wait({ ids: [id], mode: 'all', timeoutMs, signal: context.signal })
    .finally(stopProgress);
  const job = await services.jobs.get(id);
  if (!isFinal(job.status) || job.status === 'completed') return job;
  const error = job.error ?? {
    code: 'unavailable',
    message: `The job ended with status ${job.status}.`,
  };
  const { code, message, hint } = error;
  throw new AppError(code, message, {
    ...(hint === undefined ? {} : { hint }),
    data: { ...error.data, jobId: id, ...(job.result === null ? {} : { result: job.result }) },
  });
}

/** The response of a job operation: the result with the job id, or how to continue. */
export function toResponse(job: Job): JobResponse {
  if (job.status === 'completed') {
    return { ...(job.result as Record<string, unknown>), id: job.id, status: job.status };
  }
  if (isFinal(job.status)) {
    const { error, result } = job;
    const known = { ...(result as object | null), ...(error ? { error } : {}) };
    return { ...known, id: job.id, status: job.status };
  }
  return {
    id: job.id,
    status: job.status,
    next: 'Still running. Call wait_for_jobs with this id, then get_job with includeResult.',
  };
}

export const pendingJob = (output: JobResponse): string | undefined =>
  isFinal(output.status as Job['status']) ? undefined : output.id;
