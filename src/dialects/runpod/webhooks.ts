// The body of a job webhook in RunPod's format, so that receivers need no change.
import type { WebhookFacts, WebhookFormat } from '../../contracts/webhooks.ts';
import { signatureHeader } from '../../runtime/body-signature.ts';
import { byName } from '../../runtime/by-name.ts';

const words: Record<string, string> = byName({
  completed: 'COMPLETED',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  timed_out: 'TIMED_OUT',
});

export const endpointWebhook: WebhookFormat = {
  name: 'endpoint',
  needsFacts: true,
  body: bodyOf,
  // In addition to the webhook's own signature: one that a receiver can check for all webhooks of an endpoint.
  headers: ({ secret, body }) => signatureHeader('x-errand-signature-256', secret, body),
};

function bodyOf({ job, facts }: WebhookFacts): Record<string, unknown> {
  const { delayMs, input, output, webhook } = facts;
  const ranTooLong = job.error?.code === 'executionTimeout';
  return {
    ...(delayMs === undefined ? {} : { delayTime: delayMs }),
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

function errorText({ code, message }: { code: string; message: string }, retries: number): string {
  if (code === 'executionTimeout') return 'executionTimeout exceeded';
  return code === 'lost' ? `job timed out after ${retries} retries` : message;
}
