// A wallet's own webhook: it hears of the jobs in which the wallet has a part, whoever owns them, in CardZero's form and
// signed with a secret of the wallet. Delivery, retries and replay are the core's.
import { createHmac, randomBytes } from 'node:crypto';
import { byName } from '../../runtime/by-name.ts';
import type { Job } from '../../jobs/job.ts';
import type { Webhooks } from '../../jobs/webhooks.ts';
import type { WebhookMessage } from '../../jobs/webhook-delivery.ts';
import type { Webhook } from '../../jobs/webhook.ts';
import { decodeJsonOr } from '../../runtime/json.ts';
import type { EventRow } from '../../store/store.ts';
import type { Wallet } from './rows.ts';
import type { EscrowStore } from './store.ts';

const walletFormat = 'cardzero';

/** Events of a job and the types under which receivers know them. */
const types: Record<string, string> = byName({
  submitted: 'job_created',
  funded: 'job_funded',
  delivered: 'job_submitted',
  completed: 'job_completed',
  rejected: 'job_rejected',
  expired: 'job_expired',
});

/** Under this name the wallet, and not all of its owner's, is among the audience of a job. */
export const listenerOf = (walletId: string): string => `wallet:${walletId}`;

export interface WalletHook {
  webhookId: string;
  url: string;
  secret: string;
}

export class WalletHooks {
  private readonly webhooks: Webhooks;

  constructor(webhooks: Webhooks, store: EscrowStore) {
    this.webhooks = webhooks;
    webhooks.addFormat(walletFormat, (job, event, hook) => bodyOf(store, job, event, hook), signed);
  }

  async find(wallet: Wallet): Promise<WalletHook | undefined> {
    const [hook] = await this.webhooks.list(listenerOf(wallet.id));
    if (!hook) return undefined;
    const secret = (await this.webhooks.givenSecret(hook.id)) ?? '';
    return { webhookId: hook.id, url: hook.url, secret };
  }

  /** One per wallet: another address takes the place of the one before, with the same secret. */
  async set(wallet: Wallet, url: string): Promise<WalletHook> {
    const before = await this.find(wallet);
    if (before?.url === url) return before;
    const secret = before?.secret ?? newSecret();
    const webhook = await this.webhooks.create({
      owner: listenerOf(wallet.id),
      url,
      events: Object.keys(types),
      format: walletFormat,
      secret,
    });
    if (before) await this.webhooks.remove(before.webhookId);
    return { webhookId: webhook.id, url, secret };
  }

  async rotate(hook: WalletHook): Promise<WalletHook> {
    const secret = newSecret();
    await this.webhooks.giveSecret(hook.webhookId, secret);
    return { ...hook, secret };
  }

  async remove(wallet: Wallet): Promise<void> {
    for (const { id } of await this.webhooks.list(listenerOf(wallet.id))) {
      await this.webhooks.remove(id);
    }
  }
}

const newSecret = (): string => `whsec_${randomBytes(32).toString('hex')}`;

async function bodyOf(store: EscrowStore, job: Job, event: EventRow, hook: Webhook) {
  const work = await store.works.findWork(job.id);
  const wallet = await store.findWallet(hook.owner.slice(listenerOf('').length));
  const { amount, reason } = decodeJsonOr<{ amount?: string; reason?: string }>(event.data, {});
  const status = types[event.type]!.slice('job_'.length);
  return {
    type: types[event.type],
    jobId: job.id,
    onchainJobId: work?.external ? Number(work.external) : null,
    walletAddress: wallet?.address ?? null,
    status: status === 'created' ? 'open' : status,
    timestamp: new Date(event.at).toISOString(),
    budgetUsdc: String(work?.budget ?? 0),
    ...(amount === undefined ? {} : { amount }),
    ...(reason === undefined ? {} : { reason }),
  };
}

function signed({ event, body, secret }: WebhookMessage): Record<string, string> {
  const mac = createHmac('sha256', secret ?? '')
    .update(body)
    .digest('hex');
  return {
    'user-agent': 'CardZero-Webhook/1.0',
    'x-cardzero-event': types[event] ?? event,
    'x-cardzero-signature': `sha256=${mac}`,
  };
}
