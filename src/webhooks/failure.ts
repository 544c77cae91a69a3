// Reports a webhook that its receiver did not accept: on the job, in its events and in the log. Only the first and the last
// failed try are recorded; list_deliveries shows the current state of every delivery.
import { isoTime } from '../runtime/clock.ts';
import type { Log } from '../runtime/log.ts';
import type { Job } from '../jobs/job.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { isAction } from './end-actions.ts';

export interface DeliveryEnd {
  jobId: string;
  webhookId: string;
  /** Null: the webhook was deleted. */
  url: string | null;
  /** The webhook subscribes to this job only. */
  isOfJob: boolean;
  owner: string | null;
  isAccepted: boolean;
  /** The receiver's response, or why the request did not reach it. */
  answer: string;
  /** Tries so far, including this one. */
  tries: number;
  /** Undefined: no further try. */
  nextTryAt: number | undefined;
}

/** Stored in the facts of the job and shown by get_job. */
interface WebhookFailure {
  webhookId: string;
  url: string;
  answer: string;
  tries: number;
  nextTryAt?: string;
}

/** These events are not delivered to webhooks: an unavailable receiver would cause more and more of them. */
export const webhookEvents: ReadonlySet<string> = new Set(['webhookFailed', 'webhookDelivered']);

export const webhookFailureOf = (job: Job): WebhookFailure | undefined =>
  job.facts.webhookFailure as WebhookFailure | undefined;

export async function recordDelivery(
  { jobs, log }: { jobs: Jobs; log: Log },
  end: DeliveryEnd,
): Promise<void> {
  const isNews = end.isAccepted ? end.tries > 1 : end.tries === 1 || end.nextTryAt === undefined;
  if (!isNews || end.url === null) return;
  const failure = failureOf(end, end.url);
  if (!end.isAccepted) log.warn('a webhook was not accepted', { jobId: end.jobId, ...failure });
  if (!end.isOfJob || !(await jobs.ledger.find(end.jobId))) return;
  await jobs.change(end.jobId, (job) => {
    if (job.owner !== end.owner || isShared(jobs, job)) return undefined;
    const { webhookFailure: _, ...facts } = job.facts;
    const { webhookId, url, tries } = failure;
    return end.isAccepted
      ? {
          patch: { facts },
          events: [{ type: 'webhookDelivered', data: { webhookId, url, tries } }],
          intents: [],
        }
      : {
          patch: { facts: { ...facts, webhookFailure: failure } },
          events: [{ type: 'webhookFailed', data: { ...failure } }],
          intents: [],
        };
  });
}

/** Other people can see the job. They must not see its owner's webhook URLs. */
const isShared = (jobs: Jobs, job: Job): boolean =>
  job.visibility === 'public' || jobs.findKind(job.kind)?.audience !== undefined;

function failureOf(
  { webhookId, answer, tries, nextTryAt }: DeliveryEnd,
  url: string,
): WebhookFailure {
  const next = nextTryAt === undefined ? {} : { nextTryAt: isoTime(nextTryAt) };
  return { webhookId, url: withoutSecrets(url), answer, tries, ...next };
}

/** The query often contains a token. */
function withoutSecrets(text: string): string {
  if (isAction(text)) return text;
  const url = new URL(text);
  return `${url.origin}${url.pathname}`;
}
