// The operations on wallets and payments.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { formatUnits, parseUnits } from '../money.ts';
import { reputationEvents, reputationOf } from '../reputation.ts';
import type { Policy } from '../rows.ts';
import { callerOf, shownWallet, type EscrowServices } from '../services.ts';
import { lineSchema, walletIdSchema } from '../terms.ts';
import { paymentView, viewPayment, walletView } from '../view.ts';
import { walletText } from './text.ts';
import { asWallet, idempotencyKey } from './work.ts';

const units = z.string().max(30).describe('Decimal number of units as text, like "2.50"');
const limitFields = {
  perTransaction: units.nullable().optional().describe('null: no limit'),
  perDay: units.nullable().optional().describe('Per UTC day; null: no limit'),
  allowlist: z.array(walletIdSchema).max(100).optional().describe('Payees; empty: all'),
  expiresAt: z.iso.datetime({ offset: true }).nullable().optional(),
};
const repeat = z
  .boolean()
  .optional()
  .describe('True: a second, separate payment of the same amount to the same payee');

export function walletOperations(services: EscrowServices): Operation[] {
  return [
    createWallet(services),
    openWallet(services),
    claimWallet(services),
    getWallet(services),
    updateWallet(services),
    walletWebhook(services),
    sendPayment(services),
    getPayment(services),
    listPayments(services),
    getReputation(services),
  ];
}

function createWallet(services: EscrowServices): Operation {
  return defineOperation({
    name: 'create_wallet',
    title: 'Create wallet',
    description:
      'Makes a wallet of yours, with balance 0 and optional limits. Give an agent its own wallet and key (withKey: true): that key can act for this wallet only. Credit comes from the operator (internal credit, not real money) or from payments. Look at it with get_wallet.',
    effect: 'write',
    scope: 'run',
    reach: {},
    toolsets: ['escrow'],
    input: z.strictObject({
      name: lineSchema(50).optional(),
      limits: z.strictObject(limitFields).optional(),
      withKey: z.boolean().optional().describe('Also make a key bound to it; it is shown once'),
    }),
    output: walletView.extend({ key: z.string().optional() }),
    http: { method: 'POST', path: '/api/wallets' },
    cli: { words: ['wallet', 'create'], args: ['name'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      await services.wallets.refuseTooMany(caller.owner, services.settings);
      const policy = await policyOf(services, input.limits);
      const wallet = await services.wallets.create(caller.owner, input.name ?? null, policy);
      const view = await shownWallet(services, wallet);
      if (!input.withKey) return view;
      return { ...view, key: await services.wallets.newKey(services.access, wallet, caller) };
    },
  });
}

function openWallet(services: EscrowServices): Operation {
  return defineOperation({
    name: 'open_wallet',
    title: 'Open unclaimed wallet',
    description:
      'Makes a wallet without an owner and answers a claim key for whoever shall own it. It can receive and cannot spend until it is claimed (claim_wallet). Without a key only where the operator allows it (setting escrow.openWallets). With a key of your own use create_wallet.',
    effect: 'write',
    scope: 'public',
    reach: {},
    input: z.strictObject({ name: lineSchema(50).optional() }),
    output: walletView.extend({ claimKey: z.string() }),
    http: { method: 'POST', path: '/api/wallets/open' },
    cli: { words: ['wallet', 'open'], args: ['name'], text: walletText },
    run: async (input, { caller }) => {
      if (!caller && !services.settings.openWallets) {
        throw new AppError('unauthorized', 'Wallets are opened with a key here.', {
          hint: 'Send a key, or let the operator set escrow.openWallets.',
        });
      }
      await services.wallets.refuseTooManyUnclaimed(services.settings);
      const { wallet, claimKey } = await services.wallets.open(input.name ?? null);
      return { ...(await shownWallet(services, wallet)), claimKey };
    },
  });
}

function claimWallet(services: EscrowServices): Operation {
  return defineOperation({
    name: 'claim_wallet',
    title: 'Claim wallet',
    description:
      'Makes you the owner of a wallet that was opened without one, and answers a key bound to it, shown once. A claim key works once, for some days; claiming again within ten minutes, before the wallet has done anything, replaces a key whose answer was lost.',
    effect: 'write',
    scope: 'run',
    reach: {},
    input: z.strictObject({ claimKey: z.string().min(8).max(100) }),
    output: walletView.extend({ key: z.string() }),
    http: { method: 'POST', path: '/api/wallets/claim' },
    cli: { words: ['wallet', 'claim'], args: ['claimKey'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      await services.wallets.refuseTooMany(caller.owner, services.settings);
      const { wallet, key } = await services.wallets.claim(input.claimKey, caller, services);
      return { ...(await shownWallet(services, wallet)), key };
    },
  });
}

function getWallet(services: EscrowServices): Operation {
  return defineOperation({
    name: 'get_wallet',
    title: 'Get wallets',
    description:
      'Shows one wallet of yours (balance, status, limits), or all of them when none is named. What it earned and spent: list_payments and list_work. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({ wallet: walletIdSchema.optional() }),
    output: z.object({ wallets: z.array(walletView) }),
    http: { method: 'GET', path: '/api/wallets' },
    cli: {
      words: ['wallet', 'list'],
      table: { rows: 'wallets', columns: ['id', 'name', 'status', 'balance', 'currency'] },
    },
    run: async (input, context) => {
      const caller = callerOf(context);
      const wallets =
        input.wallet === undefined
          ? await services.wallets.list(caller)
          : [await services.wallets.owned(caller, input.wallet)];
      return { wallets: await Promise.all(wallets.map((one) => shownWallet(services, one))) };
    },
  });
}

function updateWallet(services: EscrowServices): Operation {
  return defineOperation({
    name: 'update_wallet',
    title: 'Change wallet',
    description:
      'Renames, limits, freezes or unfreezes a wallet, or replaces its keys by one new key. A frozen wallet can spend nothing; refunds still reach it. Only its owner can, with a key that is not bound to the wallet.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: {},
    input: z.strictObject({
      wallet: walletIdSchema,
      name: lineSchema(50).optional(),
      frozen: z.boolean().optional(),
      limits: z.strictObject(limitFields).optional(),
      rotateKey: z
        .boolean()
        .optional()
        .describe('Ends its keys and its webhook, and shows a new key once'),
    }),
    output: walletView.extend({ key: z.string().optional() }),
    http: { method: 'PATCH', path: '/api/wallets/{wallet}' },
    cli: { words: ['wallet', 'update'], args: ['wallet'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      const wallet = await services.wallets.owned(caller, input.wallet);
      const after = await services.wallets.update(wallet.id, {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.frozen === undefined ? {} : { status: input.frozen ? 'frozen' : 'active' }),
        policy: await policyOf(services, input.limits),
      });
      const view = await shownWallet(services, after);
      if (!input.rotateKey) return view;
      // The holder of the old key may have set the webhook: it ends with the key.
      await services.hooks.remove(after);
      return { ...view, key: await services.wallets.newKey(services.access, after, caller, true) };
    },
  });
}

function walletWebhook(services: EscrowServices): Operation {
  return defineOperation({
    name: 'set_wallet_webhook',
    title: 'Wallet webhook',
    description:
      "Sets the address that is called whenever a job in which this wallet has a part is posted, funded, delivered or ends; shows it with its secret when none is given; null ends it. Each call is signed with the wallet's secret (HMAC-SHA256 over the raw body). For all jobs of an owner use create_webhook.",
    effect: 'write',
    idempotent: true,
    openWorld: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    input: z.strictObject({
      wallet: walletIdSchema,
      url: z.url().max(2000).nullable().optional(),
      rotateSecret: z.boolean().optional().describe('A new secret; the one before ends at once'),
    }),
    output: z.object({
      wallet: z.string(),
      webhookId: z.string().optional(),
      url: z.string().optional(),
      secret: z.string().optional(),
    }),
    http: { method: 'PUT', path: '/api/wallets/{wallet}/webhook' },
    cli: { words: ['wallet', 'webhook'], args: ['wallet', 'url'] },
    run: async (input, context) => {
      const { hooks, wallets } = services;
      const wallet = await wallets.owned(callerOf(context), input.wallet);
      if (input.url === null) await hooks.remove(wallet);
      const hook = input.url ? await hooks.set(wallet, input.url) : await hooks.find(wallet);
      const shown = hook && input.rotateSecret ? await hooks.rotate(hook) : hook;
      return { wallet: wallet.id, ...shown };
    },
  });
}

type Limits = z.infer<z.ZodObject<typeof limitFields>>;

async function policyOf(
  services: EscrowServices,
  limits: Limits | undefined,
): Promise<Partial<Policy>> {
  if (!limits) return {};
  const limit = (value: string | null, field: string) =>
    value === null ? null : parseUnits(value, field);
  const { perTransaction, perDay, allowlist, expiresAt } = limits;
  const payees = await Promise.all(
    (allowlist ?? []).map(async (wallet) => (await services.store.wallet(wallet)).id),
  );
  return {
    ...(perTransaction === undefined ? {} : { txLimit: limit(perTransaction, 'perTransaction') }),
    ...(perDay === undefined ? {} : { dailyLimit: limit(perDay, 'perDay') }),
    ...(allowlist === undefined ? {} : { allowlist: payees }),
    ...(expiresAt === undefined
      ? {}
      : { expiresAt: expiresAt === null ? null : Date.parse(expiresAt) }),
  };
}

function sendPayment(services: EscrowServices): Operation {
  return defineOperation({
    name: 'send_payment',
    title: 'Send payment',
    description:
      'Pays another wallet now and for good: the payee gets the amount, a fee comes on top. Confirm with your user first. Use post_work instead when something has to be delivered for it. A retry with the same idempotencyKey, or the same payment within minutes, is recognised and paid once.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({
      to: walletIdSchema,
      amount: units,
      memo: lineSchema(200).optional(),
      idempotencyKey,
      repeat,
      wallet: asWallet,
    }),
    output: paymentView.extend({ existing: z.boolean().optional(), balance: z.string() }),
    http: { method: 'POST', path: '/api/payments' },
    cli: { words: ['wallet', 'pay'], args: ['to', 'amount'] },
    run: async (input, context) => {
      const payer = await services.wallets.actingId(callerOf(context), input.wallet);
      const { memo, repeat: again } = input;
      const { payment, existing, balance } = await services.payments.pay({
        payer,
        payee: input.to,
        amount: parseUnits(input.amount, 'amount'),
        kind: 'direct',
        ...(memo === undefined ? {} : { memo }),
        ...(input.idempotencyKey === undefined ? {} : { idempotencyKey: input.idempotencyKey }),
        ...(again ? { repeat: true } : {}),
      });
      return {
        ...viewPayment(payment, payer),
        balance: formatUnits(balance ?? (await services.store.wallet(payer)).balance),
        ...(existing ? { existing: true } : {}),
      };
    },
  });
}

function getPayment(services: EscrowServices): Operation {
  return defineOperation({
    name: 'get_payment',
    title: 'Get payment',
    description:
      'Shows one payment by its id (pay_…): from, to, amount, fee, status, time. Anybody who has the unguessable id can; memo only for the two parties. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: { actsFor: 'wallet' },
    input: z.strictObject({ id: z.string().regex(/^pay_\w{1,40}$/) }),
    output: paymentView,
    http: { method: 'GET', path: '/api/payments/{id}' },
    cli: { words: ['wallet', 'payment'], args: ['id'] },
    run: async (input, { caller }) => {
      const payment = await services.store.payments.findPayment(input.id);
      if (!payment) throw new AppError('paymentNotFound', `There is no payment ${input.id}.`);
      const mine = caller ? await services.wallets.list(caller) : [];
      const party = mine.find(({ id }) => id === payment.payer || id === payment.payee);
      return viewPayment(payment, party?.id);
    },
  });
}

function listPayments(services: EscrowServices): Operation {
  return defineOperation({
    name: 'list_payments',
    title: 'List payments',
    description:
      'Lists payments that a wallet of yours made or got, newest first. One by its id: get_payment. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { actsFor: 'wallet' },
    input: z.strictObject({
      limit: z.coerce.number().int().min(1).max(100).default(20),
      offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
      wallet: asWallet,
    }),
    output: z.object({ payments: z.array(paymentView) }),
    http: { method: 'GET', path: '/api/payments' },
    cli: {
      words: ['wallet', 'payments'],
      table: { rows: 'payments', columns: ['id', 'from', 'to', 'amount', 'fee', 'status', 'at'] },
    },
    run: async (input, context) => {
      const wallet = await services.wallets.actingFor(callerOf(context), input.wallet);
      const rows = await services.store.payments.listPayments(wallet.id, input.limit, input.offset);
      return { payments: rows.map((payment) => viewPayment(payment, wallet.id)) };
    },
  });
}

function getReputation(services: EscrowServices): Operation {
  return defineOperation({
    name: 'get_reputation',
    title: 'Get reputation',
    description:
      'Shows how reliable a wallet has been as provider and as client: its accepted, rejected and expired deliveries for other owners, a score weighed by amount and number of counterparties, and its newest events. It cannot show whether those counterparties are independent of one another. Public. Look before you hire. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: 'nothing',
    input: z.strictObject({
      wallet: walletIdSchema,
      limit: z.coerce.number().int().min(0).max(100).default(10),
    }),
    output: z.looseObject({ wallet: z.string() }),
    http: { method: 'GET', path: '/api/reputation/{wallet}' },
    cli: { words: ['wallet', 'reputation'], args: ['wallet'] },
    run: async (input) => {
      const wallet = await services.store.wallet(input.wallet);
      const events = await reputationEvents(services.store, wallet, input.limit);
      return { ...(await reputationOf(services.store, wallet)), events };
    },
  });
}
