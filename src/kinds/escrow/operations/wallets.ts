// The operations on wallets and payments.
import * as contracts from '../contracts/wallets.ts';
import { limitFields } from '../contracts/wallets.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { fitItems } from '../../../runtime/response-budget.ts';
import { formatUnits, parseUnits } from '../money.ts';
import { reputationEvents, reputationOf } from '../reputation.ts';
import type { Policy } from '../store/rows.ts';
import { callerOf, toWalletView, type EscrowDeps } from '../deps.ts';
import { lineSchema } from '../terms.ts';
import { viewPayment, walletView } from '../view.ts';
import { walletText } from './text.ts';

export function walletOperations(deps: EscrowDeps): Operation[] {
  return [
    createWallet(deps),
    openWallet(deps),
    claimWallet(deps),
    getWallet(deps),
    updateWallet(deps),
    walletWebhook(deps),
    sendPayment(deps),
    getPayment(deps),
    listPayments(deps),
    getReputation(deps),
  ];
}

function createWallet(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'create_wallet',
    title: 'Create wallet',
    description:
      'Creates a wallet that you own, with balance 0 and optional limits. Give an agent its own wallet and key (withKey: true); that key can act only for this wallet. Credit comes from the operator (internal credit, not real money) or from payments. Read it with get_wallet.',
    effect: 'write',
    scope: 'run',
    reach: {},
    toolsets: ['escrow'],
    input: z.strictObject({
      name: lineSchema(50).optional(),
      limits: z.strictObject(limitFields).optional(),
      withKey: z.boolean().optional().describe('Also create a key bound to the wallet; shown once'),
    }),
    output: walletView.extend({ key: z.string().optional() }),
    http: { method: 'POST', path: '/api/wallets' },
    cli: { words: ['wallet', 'create'], args: ['name'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      await deps.wallets.refuseTooMany(caller.owner, deps.settings);
      const policy = await policyOf(deps, input.limits);
      const wallet = await deps.wallets.create(caller.owner, input.name ?? null, policy);
      const view = await toWalletView(deps, wallet, caller.owner);
      if (!input.withKey) return view;
      return { ...view, key: await deps.wallets.newKey(deps.access, wallet, caller) };
    },
  });
}

function openWallet(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.openWallet,
    title: 'Open unclaimed wallet',
    description:
      'Creates a wallet without an owner and returns a claim key for its future owner. The wallet can receive credit but cannot spend until it is claimed (claim_wallet). Calls without a key require the setting escrow.openWallets. If you have a key, use create_wallet.',
    effect: 'write',
    scope: 'public',
    reach: {},
    http: { method: 'POST', path: '/api/wallets/open' },
    cli: { words: ['wallet', 'open'], args: ['name'], text: walletText },
    run: async (input, { caller }) => {
      if (!caller && !deps.settings.openWallets) {
        throw new AppError('unauthorized', 'Opening a wallet requires a key on this server.', {
          hint: 'Send a key, or ask the operator to enable escrow.openWallets.',
        });
      }
      await deps.wallets.refuseTooManyUnclaimed(deps.settings);
      const { wallet, claimKey } = await deps.wallets.open(input.name ?? null);
      return { ...(await toWalletView(deps, wallet, wallet.owner)), claimKey };
    },
  });
}

function claimWallet(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.claimWallet,
    title: 'Claim wallet',
    description:
      'Makes you the owner of an unclaimed wallet and returns a key bound to it, shown once. A claim key works once and expires after some days. If the response was lost, claim again within ten minutes: while the wallet is unused, this replaces its key.',
    effect: 'write',
    scope: 'run',
    reach: {},
    http: { method: 'POST', path: '/api/wallets/claim' },
    cli: { words: ['wallet', 'claim'], args: ['claimKey'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      await deps.wallets.refuseTooMany(caller.owner, deps.settings);
      const { wallet, key } = await deps.wallets.claim(input.claimKey, caller, deps);
      return { ...(await toWalletView(deps, wallet, caller.owner)), key };
    },
  });
}

function getWallet(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.getWallet,
    title: 'Get wallets',
    description:
      'Returns one of your wallets (balance, status, limits), or all of them when none is named. For income and spending use list_payments and list_work. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'GET', path: '/api/wallets' },
    cli: {
      words: ['wallet', 'list'],
      table: { rows: 'wallets', columns: ['id', 'name', 'status', 'balance', 'currency'] },
    },
    run: async (input, context) => {
      const caller = callerOf(context);
      const wallets =
        input.wallet === undefined
          ? await deps.wallets.list(caller)
          : [await deps.wallets.requireOwned(caller, input.wallet)];
      return {
        wallets: await Promise.all(wallets.map((one) => toWalletView(deps, one, caller.owner))),
      };
    },
  });
}

function updateWallet(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.updateWallet,
    title: 'Update wallet',
    description:
      'Renames, limits, freezes or unfreezes a wallet, or replaces its keys with one new key. A frozen wallet cannot spend; refunds still reach it. Only the owner can do this, with a key that is not bound to the wallet.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: {},
    http: { method: 'PATCH', path: '/api/wallets/{wallet}' },
    cli: { words: ['wallet', 'update'], args: ['wallet'], text: walletText },
    run: async (input, context) => {
      const caller = callerOf(context);
      const wallet = await deps.wallets.requireOwned(caller, input.wallet);
      const after = await deps.wallets.update(wallet.id, {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.frozen === undefined ? {} : { status: input.frozen ? 'frozen' : 'active' }),
        policy: await policyOf(deps, input.limits),
      });
      const view = await toWalletView(deps, after, caller.owner);
      if (!input.rotateKey) return view;
      // The holder of the old key may have set the webhook, so it is removed with the key.
      await deps.hooks.remove(after);
      return { ...view, key: await deps.wallets.newKey(deps.access, after, caller, true) };
    },
  });
}

function walletWebhook(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.setWalletWebhook,
    title: 'Set wallet webhook',
    description:
      "Sets the URL that receives a call whenever a job involving this wallet is posted, funded, delivered or ends. Without url it returns the current webhook with its secret; null removes it. Each call is signed with the wallet's secret (HMAC-SHA256 over the raw body). For all jobs of an owner use create_webhook.",
    effect: 'write',
    idempotent: true,
    openWorld: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    http: { method: 'PUT', path: '/api/wallets/{wallet}/webhook' },
    cli: { words: ['wallet', 'webhook'], args: ['wallet', 'url'] },
    run: async (input, context) => {
      const { hooks, wallets } = deps;
      const caller = callerOf(context);
      const wallet = await wallets.requireOwned(caller, input.wallet);
      if (input.url === null) await hooks.remove(wallet);
      const hook = input.url
        ? await hooks.set(wallet, input.url, caller)
        : await hooks.find(wallet);
      const shown = hook && input.rotateSecret ? await hooks.rotate(hook) : hook;
      return { wallet: wallet.id, ...shown };
    },
  });
}

type Limits = z.infer<z.ZodObject<typeof limitFields>>;

async function policyOf(deps: EscrowDeps, limits: Limits | undefined): Promise<Partial<Policy>> {
  if (!limits) return {};
  const limit = (value: string | null, field: string) =>
    value === null ? null : parseUnits(value, field);
  const { perTransaction, perDay, allowlist, expiresAt } = limits;
  const payees = await Promise.all(
    (allowlist ?? []).map(async (wallet) => (await deps.store.wallet(wallet)).id),
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

function sendPayment(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.sendPayment,
    title: 'Send payment',
    description:
      'Pays another wallet immediately and finally: the payee receives the amount, and a fee is added. Ask the user first. If something must be delivered in return, use post_work. A retry with the same idempotencyKey, or the same payment within minutes, is recognised and paid once.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'POST', path: '/api/payments' },
    cli: { words: ['wallet', 'pay'], args: ['to', 'amount'] },
    run: async (input, context) => {
      const payer = await deps.wallets.actingId(callerOf(context), input.wallet);
      const { memo, repeat: again } = input;
      const { payment, existing, balance } = await deps.payments.pay({
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
        balance: formatUnits(balance ?? (await deps.store.wallet(payer)).balance),
        ...(existing ? { existing: true } : {}),
      };
    },
  });
}

function getPayment(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.getPayment,
    title: 'Get payment',
    description:
      'Returns one payment by its id (pay_…): from, to, amount, fee, status, time. Anybody who knows the unguessable id can read it; only the two parties see the memo. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: { actsFor: 'wallet' },
    http: { method: 'GET', path: '/api/payments/{id}' },
    cli: { words: ['wallet', 'payment'], args: ['id'] },
    run: async (input, { caller }) => {
      const payment = await deps.store.payments.findPayment(input.id);
      if (!payment) throw new AppError('paymentNotFound', `Payment ${input.id} does not exist.`);
      const mine = caller ? await deps.wallets.list(caller) : [];
      const party = mine.find(({ id }) => id === payment.payer || id === payment.payee);
      return viewPayment(payment, party?.id);
    },
  });
}

function listPayments(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.listPayments,
    title: 'List payments',
    description:
      'Lists the payments that one of your wallets sent or received, newest first. For one payment use get_payment. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { actsFor: 'wallet' },
    pages: true,
    http: { method: 'GET', path: '/api/payments' },
    cli: {
      words: ['wallet', 'payments'],
      table: { rows: 'payments', columns: ['id', 'from', 'to', 'amount', 'fee', 'status', 'at'] },
    },
    run: async (input, context) => {
      const wallet = await deps.wallets.actingFor(callerOf(context), input.wallet);
      const rows = await deps.store.payments.listPayments(wallet.id, input.limit + 1, input.offset);
      const views = rows.slice(0, input.limit).map((payment) => viewPayment(payment, wallet.id));
      const { shown, ...left } = fitItems(
        views,
        context.maxResponseBytes,
        'pass nextOffset as `offset`',
      );
      const isMore = shown.length < rows.length;
      return {
        payments: shown,
        ...(isMore ? { nextOffset: input.offset + shown.length } : {}),
        ...left,
      };
    },
  });
}

function getReputation(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.getReputation,
    title: 'Get reputation',
    description:
      'Returns how reliable a wallet has been as provider and as client: its accepted, rejected and expired deliveries for other owners, a score weighted by amount and number of counterparties, and its newest events. It cannot tell whether those counterparties are independent of one another. Public. Check it before you hire. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: 'nothing',
    http: { method: 'GET', path: '/api/reputation/{wallet}' },
    cli: { words: ['wallet', 'reputation'], args: ['wallet'] },
    run: async (input) => {
      const wallet = await deps.store.wallet(input.wallet);
      const events = await reputationEvents(deps.store, wallet, input.limit);
      return { ...(await reputationOf(deps.store, wallet)), events };
    },
  });
}
