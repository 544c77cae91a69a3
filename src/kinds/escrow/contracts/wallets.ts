// Contracts of the operations on wallets and payments that dialects call.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { omitted } from '../../../runtime/response-budget.ts';
import { lineSchema, walletIdSchema } from '../terms.ts';
import { paymentView, walletView } from '../view.ts';
import { asWallet, idempotencyKey } from './work.ts';

export const units = z.string().max(30).describe('Decimal amount as text, like "2.50"');
export const limitFields = {
  perTransaction: units.nullable().optional().describe('null: no limit'),
  perDay: units.nullable().optional().describe('Per UTC day; null: no limit'),
  allowlist: z.array(walletIdSchema).max(100).optional().describe('Allowed payees; empty: all'),
  expiresAt: z.iso.datetime({ offset: true }).nullable().optional(),
};
const repeat = z
  .boolean()
  .optional()
  .describe('True: a second, separate payment of the same amount to the same payee');

export const openWallet = defineContract({
  name: 'open_wallet',
  input: z.strictObject({ name: lineSchema(50).optional() }),
  output: walletView.extend({ claimKey: z.string() }),
});

export const claimWallet = defineContract({
  name: 'claim_wallet',
  input: z.strictObject({ claimKey: z.string().min(8).max(100) }),
  output: walletView.extend({ key: z.string() }),
});

export const getWallet = defineContract({
  name: 'get_wallet',
  input: z.strictObject({ wallet: walletIdSchema.optional() }),
  output: z.object({ wallets: z.array(walletView) }),
});

export const updateWallet = defineContract({
  name: 'update_wallet',
  input: z.strictObject({
    wallet: walletIdSchema,
    name: lineSchema(50).optional(),
    frozen: z.boolean().optional(),
    limits: z.strictObject(limitFields).optional(),
    rotateKey: z
      .boolean()
      .optional()
      .describe('Revokes its keys and its webhook, and returns a new key once'),
  }),
  output: walletView.extend({ key: z.string().optional() }),
});

export const setWalletWebhook = defineContract({
  name: 'set_wallet_webhook',
  input: z.strictObject({
    wallet: walletIdSchema,
    url: z.url().max(2000).nullable().optional(),
    rotateSecret: z
      .boolean()
      .optional()
      .describe('Create a new secret; the old one stops working immediately'),
  }),
  output: z.object({
    wallet: z.string(),
    webhookId: z.string().optional(),
    url: z.string().optional(),
    secret: z.string().optional(),
  }),
});

export const sendPayment = defineContract({
  name: 'send_payment',
  input: z.strictObject({
    to: walletIdSchema,
    amount: units,
    memo: lineSchema(200).optional(),
    idempotencyKey,
    repeat,
    wallet: asWallet,
  }),
  output: paymentView.extend({ existing: z.boolean().optional(), balance: z.string() }),
});

export const getPayment = defineContract({
  name: 'get_payment',
  input: z.strictObject({ id: z.string().regex(/^pay_\w{1,40}$/) }),
  output: paymentView,
});

export const listPayments = defineContract({
  name: 'list_payments',
  input: z.strictObject({
    limit: z.coerce.number().int().min(1).max(100).default(20),
    offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
    wallet: asWallet,
  }),
  output: z.object({
    payments: z.array(paymentView),
    nextOffset: z.number().optional().describe('Set when more payments follow'),
    omitted: omitted.optional(),
  }),
});

export const getReputation = defineContract({
  name: 'get_reputation',
  input: z.strictObject({
    wallet: walletIdSchema,
    limit: z.coerce.number().int().min(0).max(100).default(10),
  }),
  output: z.looseObject({ wallet: z.string() }),
});

export const payX402 = defineContract({
  name: 'pay_x402',
  input: z.strictObject({
    url: z.url({ protocol: /^https?$/ }).max(2000),
    maxAmount: units.describe('Highest price you accept, like "2.50"; the fee is added'),
    recipient: walletIdSchema
      .optional()
      .describe('Pay this wallet without requesting the URL first'),
    idempotencyKey,
    repeat: z.boolean().optional().describe('Has no effect: every call without a key pays'),
    wallet: asWallet,
  }),
  output: z.looseObject({ paid: z.boolean() }),
});
