// Webhook bodies of escrow jobs in CardZero's format, signed with the wallet's secret.
import type { WebhookFacts, WebhookFormat } from '../../contracts/webhooks.ts';
import { signatureHeader } from '../../runtime/body-signature.ts';
import { byName } from '../../runtime/by-name.ts';

/** Job events and the types under which receivers know them. */
const types: Record<string, string> = byName({
  submitted: 'job_created',
  funded: 'job_funded',
  delivered: 'job_submitted',
  completed: 'job_completed',
  rejected: 'job_rejected',
  expired: 'job_expired',
});

export const walletWebhook: WebhookFormat = {
  name: 'wallet',
  needsFacts: true,
  body: bodyOf,
  headers: ({ event, body, secret }) => ({
    'user-agent': 'CardZero-Webhook/1.0',
    'x-cardzero-event': types[event] ?? event,
    ...signatureHeader('x-cardzero-signature', secret ?? '', body),
  }),
};

function bodyOf({ job, event, facts }: WebhookFacts): Record<string, unknown> {
  const { external, walletAddress, budget } = facts;
  const { amount, reason } = event.data;
  const status = types[event.type]!.slice('job_'.length);
  return {
    type: types[event.type],
    jobId: job.id,
    onchainJobId: external ? Number(external) : null,
    walletAddress: walletAddress ?? null,
    status: status === 'created' ? 'open' : status,
    timestamp: new Date(event.at).toISOString(),
    budgetUsdc: String(budget),
    ...(amount === undefined ? {} : { amount }),
    ...(reason === undefined ? {} : { reason }),
  };
}
