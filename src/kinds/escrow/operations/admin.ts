// What the operator does: internal credit, pause, health, verify; and x402, which is paid or charged for.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { fenced, quoted } from '../../../runtime/foreign-text.ts';
import { formatUnits, parseMicro, parseUnits } from '../money.ts';
import { callerOf, type EscrowServices } from '../services.ts';
import { walletIdSchema } from '../terms.ts';
import { verifyBooks } from '../verify.ts';
import { viewWallet, walletView } from '../view.ts';
import { verificationText, walletText } from './text.ts';
import { asWallet, idempotencyKey } from './work.ts';

const units = z.string().max(30).describe('Decimal number of units as text, like "2.50"');
const bodyCharsMax = 20_000;

export function adminOperations(services: EscrowServices): Operation[] {
  return [
    payX402(services),
    chargeX402(services),
    mintCredit(services),
    pauseEscrow(services),
    escrowHealth(services),
    verifyEscrow(services),
  ];
}

function payX402(services: EscrowServices): Operation {
  return defineOperation({
    name: 'pay_x402',
    title: 'Pay for a web resource (x402)',
    description:
      'Gets a URL that asks for payment (HTTP 402, x402): pays at most maxAmount from your wallet, asks again with the proof and answers what came back, fenced as untrusted text. With recipient it only pays and answers the header for your own request. Every call pays; a retry with the same idempotencyKey pays once. For hiring somebody use post_work.',
    effect: 'destroy',
    idempotent: true,
    openWorld: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({
      url: z.url({ protocol: /^https?$/ }).max(2000),
      maxAmount: units.describe('Price that you accept, like "2.50"; the fee comes on top'),
      recipient: walletIdSchema.optional().describe('Pay this wallet without asking the URL first'),
      idempotencyKey,
      repeat: z.boolean().optional().describe('No effect: every call without a key pays'),
      wallet: asWallet,
    }),
    output: z.looseObject({ paid: z.boolean() }),
    http: { method: 'POST', path: '/api/x402/pay' },
    cli: { words: ['wallet', 'x402'], args: ['url', 'maxAmount'] },
    run: async (input, context) => {
      const payer = await services.wallets.actingFor(callerOf(context), input.wallet);
      const { url, recipient, idempotencyKey: key } = input;
      const amountMax = parseUnits(input.maxAmount, 'maxAmount');
      if (recipient !== undefined) {
        const { payment, header, existing } = await services.x402.authorize({
          payer: payer.id,
          recipient,
          amount: amountMax,
          resource: url,
          idempotencyKey: key,
        });
        return paidOf(payment, header, existing);
      }
      const answer = await services.x402.payFor({
        payer: payer.id,
        url,
        amountMax,
        idempotencyKey: key,
      });
      const { status, contentType, body } = answer;
      const type = contentType === '' ? '' : quoted(contentType);
      const shown = { status, contentType: type, body: fenced(body, bodyCharsMax) };
      return answer.paid
        ? { ...paidOf(answer.payment, answer.header, answer.existing), ...shown }
        : { paid: false, ...shown };
    },
  });
}

function paidOf(
  payment: { id: string; amount: number; fee: number },
  paymentHeader: string,
  existing: boolean,
) {
  return {
    paid: true,
    ...(existing ? { existing } : {}),
    paymentId: payment.id,
    amount: formatUnits(payment.amount),
    fee: formatUnits(payment.fee),
    paymentHeader,
  };
}

function chargeX402(services: EscrowServices): Operation {
  return defineOperation({
    name: 'charge_x402',
    title: 'Ask for payment (x402)',
    description:
      'For a server that protects a resource: give the resource, its price and the X-PAYMENT (or PAYMENT-SIGNATURE) header of the request. Answers the 402 to send, or that it is paid, which redeems the payment once. Paying is pay_x402.',
    effect: 'write',
    scope: 'run',
    reach: { actsFor: 'wallet' },
    input: z.strictObject({
      resource: z.string().min(1).max(2000),
      price: z.string().max(40).describe('Micro-units as text'),
      payment: z.string().max(4000).optional().describe('The header, as it came'),
      wallet: asWallet,
    }),
    output: z.looseObject({ paid: z.boolean(), status: z.number() }),
    http: { method: 'POST', path: '/api/x402/charge' },
    cli: {
      words: ['wallet', 'charge'],
      args: ['resource', 'price'],
      units: { price: 'What it costs, like 0.10' },
    },
    run: async (input, context) => {
      const payTo = await services.wallets.actingFor(callerOf(context), input.wallet);
      return services.x402.charge({
        resource: input.resource,
        amount: parseMicro(input.price, 'price'),
        payTo: payTo.id,
        header: input.payment,
      });
    },
  });
}

function mintCredit(services: EscrowServices): Operation {
  return defineOperation({
    name: 'mint_credit',
    title: 'Mint internal credit',
    description:
      'Operator only: gives a wallet internal credit of this server, made from nothing. It is not money, cannot be paid out and means nothing elsewhere. The transferId makes it happen once per wallet: reuse it when you retry.',
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: {},
    input: z.strictObject({
      wallet: walletIdSchema,
      amount: units,
      transferId: z
        .string()
        .min(1)
        .max(100)
        .describe('Yours; the same id gives the same wallet credit once'),
    }),
    output: walletView,
    http: { method: 'POST', path: '/api/escrow/mint' },
    cli: {
      words: ['wallet', 'mint'],
      args: ['wallet', 'amount', 'transferId'],
      text: walletText,
    },
    run: async (input) => {
      const { id } = await services.store.wallet(input.wallet);
      const amount = parseUnits(input.amount, 'amount');
      const wallet = await services.wallets.mint(id, amount, input.transferId);
      const { currency } = services.escrow.settlement('ledger');
      return viewWallet(wallet, { micro: wallet.balance, currency });
    },
  });
}

function pauseEscrow(services: EscrowServices): Operation {
  return defineOperation({
    name: 'pause_escrow',
    title: 'Pause or resume escrow',
    description:
      'Operator only: while paused nothing can be created, funded, delivered, approved or paid. Declines, rejections and refunds always work: money can go back.',
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: {},
    input: z.strictObject({ paused: z.boolean() }),
    output: z.object({ paused: z.boolean() }),
    http: { method: 'PUT', path: '/api/escrow/pause' },
    cli: { words: ['escrow', 'pause'] },
    run: async ({ paused }) => {
      await services.store.store.commit([services.store.setPaused(paused)]);
      return { paused };
    },
  });
}

function escrowHealth(services: EscrowServices): Operation {
  return defineOperation({
    name: 'get_escrow_health',
    title: 'Escrow health',
    description:
      'Shows whether escrow works: overdue jobs, deliveries that wait too long for a verdict, whether it is paused, each settlement. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: {},
    input: z.strictObject({}),
    output: z.looseObject({ ok: z.boolean() }),
    http: { method: 'GET', path: '/api/escrow/health' },
    cli: { words: ['escrow', 'health'] },
    run: async () => {
      const { store, clock, settings, escrow } = services;
      const now = clock.now();
      const settlements: Record<string, string> = {};
      for (const [name, settlement] of escrow.parts.settlements) {
        settlements[name] = (await settlement.trouble()) ?? 'ok';
      }
      const backlog = await store.works.backlog(now - settings.sweepMs * 10);
      const stuck = await store.works.stuck(now - settings.stuckMs);
      const paused = await store.paused();
      const sound = Object.values(settlements).every((state) => state === 'ok');
      return { ok: sound && backlog === 0 && stuck === 0, backlog, stuck, paused, settlements };
    },
  });
}

function verifyEscrow(services: EscrowServices): Operation {
  return defineOperation({
    name: 'verify_escrow',
    title: 'Verify the books',
    description:
      "Recomputes every hash chain, every balance, the sum of all money and every job's escrow from the entries alone, and fails naming what does not fit. Keep `fold` elsewhere and compare it later to notice a rewritten history. Changes nothing.",
    effect: 'read',
    scope: 'admin',
    reach: 'everything',
    input: z.strictObject({}),
    output: z.looseObject({ ok: z.boolean(), problems: z.array(z.string()) }),
    http: { method: 'GET', path: '/api/escrow/verify' },
    cli: { words: ['escrow', 'verify'], text: verificationText },
    run: async () => {
      const { store, escrow } = services;
      const report = await verifyBooks(store.store, escrow.parts.settlements.values());
      if (report.ok) return { ...report };
      const { problems } = report;
      throw new AppError('escrowMismatch', `The books do not fit: ${problems.join('; ')}.`, {
        hint: 'Pause the escrow, keep a copy of the database, and compare it with the last backup that verifies.',
        data: { ...report },
      });
    },
  });
}
