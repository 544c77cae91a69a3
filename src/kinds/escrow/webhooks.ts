// A wallet's own webhook: it receives events of every job in which the wallet has a role, regardless of the job owner,
// signed with the wallet's secret. The core handles delivery, retries and replay.
import { randomBytes } from 'node:crypto';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import { webhookKeyOf } from '../../webhooks/rows.ts';
import type { Caller } from '../../operation.ts';
import { agreedBudget } from './agreement.ts';
import type { Wallet } from './store/rows.ts';
import type { EscrowStore } from './store/store.ts';
import type { Work } from './work.ts';

/** The dialect of this kind defines the body. */
const walletFormat = 'wallet';

/** The events that a wallet's webhook receives. */
const walletEvents = ['submitted', 'funded', 'delivered', 'completed', 'rejected', 'expired'];

/** Name under which this wallet alone, not all wallets of its owner, listens to a job. */
export const listenerOf = (walletId: string): string => `wallet:${walletId}`;

interface WalletHook {
  webhookId: string;
  url: string;
  secret: string;
}

export class WalletHooks {
  private readonly webhooks: Webhooks;

  constructor(webhooks: Webhooks) {
    this.webhooks = webhooks;
  }

  async find(wallet: Wallet): Promise<WalletHook | undefined> {
    const [hook] = await this.webhooks.list(listenerOf(wallet.id));
    if (!hook) return undefined;
    const secret = (await this.webhooks.findSecret(hook.id)) ?? '';
    return { webhookId: hook.id, url: hook.url, secret };
  }

  /** One webhook per wallet: a new address replaces the old one and keeps the secret. */
  async set(wallet: Wallet, url: string, caller: Caller): Promise<WalletHook> {
    const before = await this.find(wallet);
    const stored = before && (await this.webhooks.find(before.webhookId));
    const setBy = webhookKeyOf(caller);
    if (before?.url === url && stored?.keyId === (setBy.key?.id ?? null)) return before;
    const secret = before?.secret ?? newSecret();
    const webhook = await this.webhooks.create({
      owner: listenerOf(wallet.id),
      url,
      events: walletEvents,
      format: walletFormat,
      secret,
      ...setBy,
    });
    if (before) await this.webhooks.remove(before.webhookId);
    return { webhookId: webhook.id, url, secret };
  }

  async rotate(hook: WalletHook): Promise<WalletHook> {
    const secret = newSecret();
    await this.webhooks.setSecret(hook.webhookId, secret);
    return { ...hook, secret };
  }

  async remove(wallet: Wallet): Promise<void> {
    for (const { id } of await this.webhooks.list(listenerOf(wallet.id))) {
      await this.webhooks.remove(id);
    }
  }
}

const newSecret = (): string => `whsec_${randomBytes(32).toString('hex')}`;

/** What a webhook of a wallet says about a job. */
export async function webhookFacts(
  store: EscrowStore,
  { work, listener }: { work: Work | undefined; listener: string },
): Promise<Record<string, unknown>> {
  const wallet = await store.findWallet(listener.slice(listenerOf('').length));
  return {
    external: work?.external,
    walletAddress: wallet?.address,
    budget: work ? agreedBudget(work) : 0,
  };
}
