// The operator's operations (mint, pause, health, verify) and both sides of x402: paying and charging.
import * as contracts from '../contracts/wallets.ts';
import { units } from '../contracts/wallets.ts';
import { asWallet } from '../contracts/work.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { fenced, quoted } from '../../../runtime/untrusted-text.ts';
import { formatUnits, parseMicro, parseUnits } from '../money.ts';
import { callerOf, type EscrowDeps } from '../deps.ts';
import { walletIdSchema } from '../terms.ts';
import { verifyBooks } from '../verify.ts';
import { viewWallet, walletView } from '../view.ts';
import { verificationText, walletText } from './text.ts';

const maxBodyChars = 20_000;

export function adminOperations(deps: EscrowDeps): Operation[] {
  return [
    payX402(deps),
    chargeX402(deps),
    mintCredit(deps),
    pauseEscrow(deps),
    escrowHealth(deps),
    verifyEscrow(deps),
  ];
}

function payX402(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.payX402,
    title: 'Pay for a web resource (x402)',
    description:
      'Fetches a URL that requires payment (HTTP 402, x402): pays at most maxAmount from your wallet, repeats the request with the proof of payment and returns the response, fenced as untrusted text. With recipient it only pays and returns the payment header for your own request. Every call pays; retries with the same idempotencyKey pay once. To hire another agent use post_work.',
    effect: 'destroy',
    idempotent: true,
    openWorld: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'POST', path: '/api/x402/pay' },
    cli: { words: ['wallet', 'x402'], args: ['url', 'maxAmount'] },
    run: async (input, context) => {
      const payer = await deps.wallets.actingFor(callerOf(context), input.wallet);
      const { url, recipient, idempotencyKey: key } = input;
      const maxAmount = parseUnits(input.maxAmount, 'maxAmount');
      if (recipient !== undefined) {
        const { payment, header, existing } = await deps.x402.authorize({
          payer: payer.id,
          recipient,
          amount: maxAmount,
          resource: url,
          idempotencyKey: key,
        });
        return paidOf(payment, header, existing);
      }
      const answer = await deps.x402.payFor({
        payer: payer.id,
        url,
        maxAmount,
        idempotencyKey: key,
      });
      const { status, contentType, body } = answer;
      const type = contentType === '' ? '' : quoted(contentType);
      const shown = { status, contentType: type, body: fenced(body, maxBodyChars) };
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

function chargeX402(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'charge_x402',
    title: 'Request payment (x402)',
    description:
      'For a server that protects a resource: pass the resource, its price and the X-PAYMENT (or PAYMENT-SIGNATURE) header of the request. Returns the 402 response to send, or confirms the payment and redeems it; a payment can be redeemed once. To pay, use pay_x402.',
    effect: 'write',
    scope: 'run',
    reach: { actsFor: 'wallet' },
    input: z.strictObject({
      resource: z.string().min(1).max(2000),
      price: z.string().max(40).describe('Micro-units as text: "100000" is 0.10'),
      payment: z.string().max(4000).optional().describe('The payment header, exactly as received'),
      wallet: asWallet,
    }),
    output: z.looseObject({ paid: z.boolean(), status: z.number() }),
    http: { method: 'POST', path: '/api/x402/charge' },
    cli: {
      words: ['wallet', 'charge'],
      args: ['resource', 'price'],
      units: { price: 'Price, like 0.10' },
    },
    run: async (input, context) => {
      const payTo = await deps.wallets.actingFor(callerOf(context), input.wallet);
      return deps.x402.charge({
        resource: input.resource,
        amount: parseMicro(input.price, 'price'),
        payTo: payTo.id,
        header: input.payment,
      });
    },
  });
}

function mintCredit(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'mint_credit',
    title: 'Mint internal credit',
    description:
      'Operator only: adds internal credit of this server to a wallet. The credit is created for testing: it is not money and cannot be paid out. Each transferId takes effect once per wallet: reuse it when you retry.',
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
        .describe('Chosen by you; the same id credits the same wallet once'),
    }),
    output: walletView,
    http: { method: 'POST', path: '/api/escrow/mint' },
    cli: {
      words: ['wallet', 'mint'],
      args: ['wallet', 'amount', 'transferId'],
      text: walletText,
    },
    run: async (input, context) => {
      const { id } = await deps.store.wallet(input.wallet);
      const amount = parseUnits(input.amount, 'amount');
      const wallet = await deps.wallets.mint(id, amount, input.transferId);
      const { currency } = deps.escrow.settlement('ledger');
      return viewWallet(wallet, { micro: wallet.balance, currency }, callerOf(context).owner);
    },
  });
}

function pauseEscrow(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'pause_escrow',
    title: 'Pause or resume escrow',
    description:
      'Operator only: while escrow is paused, nothing can be created, funded, delivered, approved or paid. Declines, rejections and refunds always work, so money can always go back.',
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: {},
    input: z.strictObject({ paused: z.boolean() }),
    output: z.object({ paused: z.boolean() }),
    http: { method: 'PUT', path: '/api/escrow/pause' },
    cli: { words: ['escrow', 'pause'] },
    run: async ({ paused }) => {
      await deps.store.store.commit([deps.store.setPaused(paused)]);
      return { paused };
    },
  });
}

function escrowHealth(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'get_escrow_health',
    title: 'Check escrow health',
    description:
      'Reports whether escrow works: overdue jobs, deliveries that have waited too long for a verdict, whether escrow is paused, and the state of each settlement. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: {},
    input: z.strictObject({}),
    output: z.looseObject({ ok: z.boolean() }),
    http: { method: 'GET', path: '/api/escrow/health' },
    cli: { words: ['escrow', 'health'] },
    run: async () => {
      const { store, clock, settings, escrow } = deps;
      const now = clock.now();
      const settlements: Record<string, string> = {};
      for (const [name, settlement] of escrow.deps.settlements) {
        settlements[name] = (await settlement.trouble()) ?? 'ok';
      }
      const backlog = await store.works.backlog(now - settings.sweepMs * 10);
      const stuck = await store.works.stuck(now - settings.stuckMs);
      const paused = await store.paused();
      const healthy = Object.values(settlements).every((state) => state === 'ok');
      return { ok: healthy && backlog === 0 && stuck === 0, backlog, stuck, paused, settlements };
    },
  });
}

function verifyEscrow(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'verify_escrow',
    title: 'Verify the books',
    description:
      "Recomputes every hash chain, every balance, the total supply and every job's escrow from the entries alone, and fails with the list of mismatches. Store `fold` elsewhere and compare it later to detect a rewritten history. Changes nothing.",
    effect: 'read',
    scope: 'admin',
    reach: 'everything',
    input: z.strictObject({}),
    output: z.looseObject({ ok: z.boolean(), problems: z.array(z.string()) }),
    http: { method: 'GET', path: '/api/escrow/verify' },
    cli: { words: ['escrow', 'verify'], text: verificationText },
    run: async () => {
      const { store, escrow } = deps;
      const report = await verifyBooks(store.store, escrow.deps.settlements.values());
      if (report.ok) return { ...report };
      const { problems } = report;
      throw new AppError('escrowMismatch', `The books do not balance: ${problems.join('; ')}.`, {
        hint: 'Pause escrow, keep a copy of the database, and compare it with the last backup that verifies.',
        data: { ...report },
      });
    },
  });
}
