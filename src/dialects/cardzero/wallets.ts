// Maps CardZero's wallets, payments, x402 and reputation to operations.
import { numberOf } from '../../runtime/json.ts';
import type { OutputOf } from '../../contract.ts';
import { callUnchecked, unbudgeted, type DialectCall } from '../../dialect.ts';
import * as contracts from '../../kinds/escrow/contracts/wallets.ts';
import { walletField, type Api, type Fields } from './api.ts';
import { CardzeroFault, invalid } from './errors.ts';

type WalletView = OutputOf<typeof contracts.getWallet>['wallets'][number];

const given = (name: string, value: unknown): Fields =>
  value === undefined || value === null ? {} : { [name]: value };

export const createWallet: Api = async (call, input) => {
  const version = input.version ?? 'v3';
  if (version !== 'v2' && version !== 'v3')
    throw invalid('INVALID_VERSION', 'version must be v2 or v3.');
  const wallet = await callUnchecked(call, contracts.openWallet, {
    ...given('name', input.name),
  });
  return {
    id: wallet.id,
    chainAddress: wallet.address,
    claimKey: wallet.claimKey,
    name: wallet.name ?? null,
    status: wallet.status,
    version,
  };
};

export const claimWallet: Api = async (call, { claimKey }) => {
  const wallet = await callUnchecked(call, contracts.claimWallet, {
    claimKey,
  });
  return {
    userId: wallet.owner,
    agentConfig: {
      apiKey: wallet.key,
      walletId: wallet.id,
      summary: `Wallet ${wallet.id} with ${wallet.balance} ${wallet.currency}`,
    },
  };
};

/** The named wallet, or the caller's own. */
async function oneWallet(call: DialectCall, walletId: unknown): Promise<WalletView> {
  const named = walletId === undefined ? walletField(call) : { wallet: walletId };
  const { wallets } = await callUnchecked(call, contracts.getWallet, named);
  if (wallets.length === 1) return wallets[0]!;
  throw new CardzeroFault({
    status: 401,
    error: 'API_KEY_NOT_BOUND_TO_WALLET',
    message: 'The wallet is not clear. Set CARDZERO_WALLET_ID, or use a key bound to a wallet.',
  });
}

export const getBalance: Api = async (call, { walletId }) => {
  const wallet = await oneWallet(call, walletId);
  return { walletId: wallet.id, balance: wallet.balance, currency: wallet.currency };
};

export const getWallet: Api = async (call, { walletId }) =>
  walletRow(await oneWallet(call, walletId));

export const listWallets: Api = async (call) => {
  const { wallets } = await callUnchecked(call, contracts.getWallet, {});
  return { wallets: wallets.map(walletRow) };
};

function walletRow(wallet: WalletView): Fields {
  const limits = (wallet.limits ?? {}) as Fields;
  return {
    id: wallet.id,
    chainAddress: wallet.address,
    name: wallet.name ?? null,
    status: wallet.status,
    balance: wallet.balance,
    currency: wallet.currency,
    txLimit: limits.perTransaction ?? null,
    dailyLimit: limits.perDay ?? null,
    whitelist: limits.allowlist ?? [],
    expiresAt: limits.expiresAt ?? null,
    createdAt: wallet.createdAt,
  };
}

/** CardZero removes a limit with "0"; operations use null. */
const limitOf = (name: string, value: unknown): Fields =>
  value === undefined ? {} : { [name]: value === '0' ? null : value };

export const configureWallet: Api = async (call, input) => {
  const limits = {
    ...limitOf('perTransaction', input.txLimit),
    ...limitOf('perDay', input.dailyLimit),
    ...(input.whitelist === undefined ? {} : { allowlist: input.whitelist }),
    ...(input.expiresAt === undefined ? {} : { expiresAt: input.expiresAt }),
  };
  const change = { wallet: input.walletId, ...given('name', input.name), limits };
  return walletRow(await callUnchecked(call, contracts.updateWallet, change));
};

export const freezeWallet: Api = async (call, { walletId, frozen }) =>
  walletRow(await callUnchecked(call, contracts.updateWallet, { wallet: walletId, frozen }));

export const rotateKey: Api = async (call, { walletId }) => {
  const change = { wallet: walletId, rotateKey: true };
  const { key } = await callUnchecked(call, contracts.updateWallet, change);
  return { apiKey: key };
};

export const sendPayment: Api = async (call, input) => {
  if (input.currency !== undefined && input.currency !== 'USDC' && input.currency !== 'CREDIT') {
    throw invalid('UNSUPPORTED_CURRENCY', 'This server supports only internal credit.');
  }
  const payment = await callUnchecked(call, contracts.sendPayment, {
    to: input.to,
    amount: input.amount,
    ...given('memo', input.memo),
    ...given('idempotencyKey', input.idempotencyKey),
    ...walletField(call),
  });
  return { ...paymentRow(payment), remainingBalance: payment.balance };
};

export const listPayments: Api = async (call, input) => {
  const wallet = input.walletId === undefined ? walletField(call) : { wallet: input.walletId };
  const { payments } = await callUnchecked(unbudgeted(call), contracts.listPayments, {
    ...given('limit', input.limit),
    ...given('offset', input.offset),
    ...wallet,
  });
  return { payments: payments.map(paymentRow) };
};

export const getPayment: Api = async (call, { paymentId }) =>
  paymentRow(await callUnchecked(call, contracts.getPayment, { id: paymentId }));

function paymentRow(payment: Fields): Fields {
  return {
    id: payment.id,
    paymentId: payment.id,
    txHash: payment.id,
    status: payment.status === 'redeemed' ? 'confirmed' : payment.status,
    amount: payment.amount,
    feeAmount: payment.fee,
    from: payment.from,
    to: payment.to,
    type: payment.kind,
    ...given('memo', payment.memo),
    createdAt: payment.at,
  };
}

export const payX402: Api = async (call, input) => {
  const network = input.network ?? 'errand:ledger';
  if (network !== 'errand:ledger' && network !== 'eip155:8453') {
    throw invalid('UNSUPPORTED_NETWORK', 'This server settles only on errand:ledger.');
  }
  const asset = input.asset ?? 'CREDIT';
  if (asset !== 'CREDIT' && asset !== 'USDC') {
    throw invalid('UNSUPPORTED_ASSET', 'This server supports only internal credit.');
  }
  if (input.recipient === undefined) throw invalid('INVALID_ADDRESS', 'recipient is missing.');
  const paid = await callUnchecked(call, contracts.payX402, {
    url: input.url,
    maxAmount: input.maxAmount,
    recipient: input.recipient,
    ...given('idempotencyKey', input.idempotencyKey),
    ...walletField(call),
  });
  return {
    paymentId: paid.paymentId,
    paymentHeader: paid.paymentHeader,
    amount: paid.amount,
    feeAmount: paid.fee,
    network: 'errand:ledger',
  };
};

export const reputation: Api = async (call, { address }) => {
  const { counts, ...found } = await callUnchecked(call, contracts.getReputation, {
    wallet: address,
  });
  const { payments, jobs } = counts as Fields;
  return {
    agentId: found.wallet,
    agentURI: null,
    onchainStatus: 'not_found',
    score: found.score,
    // Only a current freeze counts, not past ones.
    counts: {
      payments,
      jobs,
      freezes: found.frozen ? 1 : 0,
    },
    firstSeenAt: found.firstSeenAt,
    lastActiveAt: found.lastActiveAt,
    trustSignals: { frozen: found.frozen, lifetimeVolumeUsdc: found.lifetimeVolume },
  };
};

export const reputationEvents: Api = async (call, { address, limit }) => {
  const asked = { wallet: address, limit: Math.min(numberOf(limit ?? 50) || 50, 100) };
  const { events } = await callUnchecked(call, contracts.getReputation, asked);
  return { events };
};

/** Self-service on this server: one address per wallet. The secret stays the same when the address changes. */
export const setWebhook: Api = async (call, { walletId, url }) => {
  if (typeof url !== 'string') throw invalid('MISSING_URL', 'url is missing.');
  const request = { wallet: walletId, url };
  const { webhookId, secret } = await callUnchecked(call, contracts.setWalletWebhook, request);
  return { webhookId, url, secret };
};

export const webhookSecret: Api = async (call, { walletId, rotateSecret }) => {
  const request = { wallet: walletId, ...given('rotateSecret', rotateSecret) };
  const { secret, url } = await callUnchecked(call, contracts.setWalletWebhook, request);
  if (secret === undefined) {
    throw invalid('WEBHOOK_NO_SECRET', 'The wallet has no webhook yet. POST its url first.');
  }
  return { secret, webhookUrl: url };
};
