// The ten tools of cardzero-mcp under their exact names and parameters. Success is the JSON as text; failure is
// `Label: [code] message`.
import { z } from 'zod';
import type { DialectResult, DialectCall, DialectTool } from '../../dialect.ts';
import { createJob, fundJob, getJob, submitJob, type Api, type Fields } from './api.ts';
import { faultOf } from './errors.ts';
import {
  createWallet,
  getBalance,
  getPayment,
  listPayments,
  payX402,
  sendPayment,
} from './wallets.ts';

const jobId = z.string().describe('Job id (job_…) from create_job');
const key = z
  .string()
  .optional()
  .describe('Any unique text; repeat it when you retry the same purchase');
const address = z.string().describe('Wallet id or 0x address on this server');

interface ToolSpec extends Omit<DialectTool, 'run' | 'input'> {
  label: string;
  input: z.ZodType;
  api: Api;
}

const toolSpecs: ToolSpec[] = [
  {
    name: 'create_wallet',
    label: 'Create wallet failed',
    title: 'Create wallet',
    description:
      'Open a new wallet on this server and return its id, address and a one-time claimKey for its owner. ' +
      'Use it once per agent; if you have a wallet, get_balance shows it. The wallet can receive immediately and can spend once it is claimed. Store the claimKey: it is shown only here. Balances are internal credit of this server, not money.',
    effect: 'write',
    input: z.object({ name: z.string().optional().describe('Name that others see') }),
    api: createWallet,
  },
  {
    name: 'get_balance',
    label: 'Get balance failed',
    title: 'Get balance',
    description:
      'Return the balance of your wallet, in internal credit of this server. ' +
      'Use it before send_payment, fund_job or pay_x402. Needs a key of the wallet. For past payments use list_payments. Changes nothing.',
    effect: 'read',
    input: z.object({}),
    api: getBalance,
  },
  {
    name: 'send_payment',
    label: 'Payment failed',
    title: 'Send payment',
    description:
      'Pay another wallet immediately and finally; a fee is added to the amount. ' +
      'Ask the user first: a payment cannot be taken back. When something must be delivered for it use create_job, which holds the credit in escrow. To pay for an HTTP resource use pay_x402. Repeat the idempotencyKey when you retry: the payment is made once.',
    effect: 'destroy',
    idempotent: true,
    input: z.object({
      to: address,
      amount: z.string().describe('Decimal amount as text, like "2.50"'),
      memo: z.string().optional().describe('Note for the receiver'),
      idempotencyKey: key,
    }),
    api: sendPayment,
  },
  {
    name: 'list_payments',
    label: 'List payments failed',
    title: 'List payments',
    description:
      'List the payments of your wallet, newest first, with amount, fee and counterparty. ' +
      'Use it to check what was paid or received; for one payment use get_payment, for the balance get_balance. Needs a key of the wallet. Pass offset to continue. Changes nothing.',
    effect: 'read',
    input: z.object({
      limit: z.number().optional().default(20).describe('Payments to return, at most 100'),
      offset: z.number().optional().default(0).describe('Payments to skip'),
    }),
    // At most 100 short rows: a client that pages by offset and limit must get all that it asks for.
    pages: true,
    api: listPayments,
  },
  {
    name: 'pay_x402',
    label: 'x402 payment failed',
    title: 'Pay x402',
    description:
      'Pay for a web resource that returned HTTP 402 and return the paymentHeader for the next request. ' +
      'Send that header as X-PAYMENT when you request the resource again. Every call pays, up to maxAmount and finally; ask the user first. Repeat the idempotencyKey only when you retry the same purchase. For other payments use send_payment.',
    effect: 'destroy',
    idempotent: true,
    input: z.object({
      url: z.string().describe('Address that returned 402'),
      maxAmount: z.string().describe('Most to pay, like "2.50"; a fee is added'),
      recipient: address,
      network: z
        .string()
        .optional()
        .default('eip155:8453')
        .describe('Accepted for compatibility; payments are made on the ledger of this server'),
      asset: z.string().optional().describe('Accepted for compatibility; ignored'),
      idempotencyKey: key,
    }),
    api: payX402,
  },
  {
    name: 'get_payment',
    label: 'Get payment failed',
    title: 'Get payment',
    description:
      'Return one payment by its id: status, amount, fee and parties. ' +
      'Use it to check a payment you know; to find one use list_payments. Needs no key: payments are public. An unknown id is an error. Changes nothing.',
    effect: 'read',
    input: z.object({ paymentId: z.string().describe('Payment id (pay_…)') }),
    api: getPayment,
  },
  {
    name: 'create_job',
    label: 'Create job failed',
    title: 'Create job',
    description:
      'Create an escrow job: offer a provider a budget for a delivery that a rule accepts or rejects. ' +
      'Use it to buy work from another agent; for a payment without a delivery use send_payment. No credit moves until you call fund_job. The job expires at expiredAt if nothing is delivered. Repeat the idempotencyKey when you retry: one job is created. Returns the jobId.',
    effect: 'write',
    idempotent: true,
    input: z.object({
      providerAddress: address,
      budgetUsdc: z.string().describe('Budget in micro-units as text: "1000000" is 1.00'),
      expiredAt: z.number().describe('Unix time in seconds, at least one day ahead'),
      title: z.string().describe('One line'),
      description: z.string().describe('What to deliver, in full: the provider sees only this'),
      evaluatorRule: z
        .record(z.string(), z.unknown())
        .describe(
          'What accepts the delivery. {type: "manual"}: you decide; {type: "json_schema", schema}; {type: "http_check", url, expectedStatus}',
        ),
      idempotencyKey: key,
    }),
    api: createJob,
  },
  {
    name: 'fund_job',
    label: 'Fund job failed',
    title: 'Fund job',
    description:
      'Move the budget of an open job from your wallet into its escrow, so that the provider can start. ' +
      'Use it after create_job, only as the client. It fails with no effect if the balance or a limit is too low, or if the provider has proposed another amount. The credit goes to the provider when the delivery is accepted, else back to you. Calling it again changes nothing. Follow the job with get_job.',
    effect: 'write',
    idempotent: true,
    input: z.object({ jobId }),
    api: fundJob,
  },
  {
    name: 'submit_job',
    label: 'Submit job failed',
    title: 'Submit job',
    description:
      'Deliver the work of a funded job as its provider: its keccak256 hash and where it can be fetched. ' +
      'Use it once the work is done: a delivery is final and cannot be replaced. An automatic rule then decides immediately; a manual rule waits for the client. Calling it again with the same hash changes nothing. Read the outcome with get_job.',
    effect: 'write',
    idempotent: true,
    input: z.object({
      jobId,
      contentHash: z.string().describe('0x and 64 hex digits: keccak256 of the content'),
      contentURI: z
        .string()
        .optional()
        .describe('Address of the content; automatic rules fetch it'),
    }),
    api: submitJob,
  },
  {
    name: 'get_job',
    label: 'Get job failed',
    title: 'Get job',
    description:
      'Return the state of an escrow job: status, budget, transactions and the outcome of the evaluation. ' +
      'Use it to follow a job after create_job, fund_job or submit_job; it does not wait. Needs no key: job state is public. An unknown id is an error. Changes nothing.',
    effect: 'read',
    input: z.object({ jobId }),
    api: getJob,
  },
];

export const cardzeroTools: DialectTool[] = toolSpecs.map(({ label, api, ...tool }) => {
  const refused = (error: unknown): DialectResult => {
    const { error: code, message } = faultOf(error);
    return { text: `${label}: [${code}] ${message}`, isError: true };
  };
  return {
    ...tool,
    refused,
    run: async (input: unknown, call: DialectCall): Promise<DialectResult> => {
      try {
        return { text: JSON.stringify(await api(call, input as Fields), null, 2) };
      } catch (error) {
        return refused(error);
      }
    },
  };
});
