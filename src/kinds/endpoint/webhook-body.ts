// The body of a job's own webhook: RunPod's, as its docs and live captures show it, so that receivers need no change.
import { createHmac } from 'node:crypto';
import { byName } from '../../runtime/by-name.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { WebhookMessage } from '../../jobs/webhook-delivery.ts';
import type { JobInput } from './intake.ts';
import { delayMs } from './reports.ts';
import type { Results } from './results.ts';

const words: Record<string, string> = byName({
  completed: 'COMPLETED',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  timed_out: 'TIMED_OUT',
});

export function webhookBody(results: Results, job: Job): Record<string, unknown> {
  const { input, webhook } = job.input as JobInput;
  const output = isFinal(job.status) ? results.of(job) : undefined;
  const ranTooLong = job.error?.code === 'executionTimeout';
  const delay = delayMs(job);
  return {
    ...(delay === undefined ? {} : { delayTime: delay }),
    ...(job.error && job.status !== 'cancelled'
      ? { error: errorText(job.error, job.attempt - 1) }
      : {}),
    ...(job.startedAt === null || job.finishedAt === null
      ? {}
      : { executionTime: job.finishedAt - job.startedAt }),
    id: job.id,
    input,
    ...(output === undefined ? {} : { output }),
    ...(job.attempt > 1 ? { retries: job.attempt - 1 } : {}),
    status: ranTooLong ? 'FAILED' : (words[job.status] ?? job.status),
    ...(webhook === undefined ? {} : { webhook }),
    ...(job.holder === null ? {} : { workerId: job.holder }),
  };
}

/** Beside the usual signature, whose secret belongs to one webhook: one that a receiver can check for all of them. */
export function webhookHeaders({ body, secret }: WebhookMessage): Record<string, string> {
  if (secret === undefined) return {};
  const mac = createHmac('sha256', secret).update(body).digest('hex');
  return { 'x-errand-signature-256': `sha256=${mac}` };
}

function errorText({ code, message }: { code: string; message: string }, retries: number): string {
  if (code === 'executionTimeout') return 'executionTimeout exceeded';
  return code === 'lost' ? `job timed out after ${retries} retries` : message;
}
