// The ten tools of cardzero-mcp under their exact names and parameters. Success is the JSON as text; failure is
// `Label: [code] message`.
import { z } from 'zod';
import type { DialectAnswer, DialectCall, DialectTool } from '../../dialect.ts';
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

const jobId = z.string().describe('Job ID (job_...)');
const key = z.string().optional().describe('Reuse the same key when you retry the same purchase');
const address = z.string().describe('Wallet id or 0x address on this server');

interface Wish extends Omit<DialectTool, 'run' | 'input'> {
  label: string;
  input: z.ZodType;
  api: Api;
}

const wishes: Wish[] = [
  {
    name: 'create_wallet',
    label: 'Create wallet failed',
    title: 'Create wallet',
    description:
      'Open a wallet without an owner; returns its id, address and a one-time claimKey for the owner. It can receive at once and spend once claimed. Balances are internal credit of this server, not money.',
    effect: 'write',
    input: z.object({ name: z.string().optional() }),
    api: createWallet,
  },
  {
    name: 'get_balance',
    label: 'Get balance failed',
    title: 'Get balance',
    description: 'Balance of your wallet, in internal credit of this server.',
    effect: 'read',
    input: z.object({}),
    api: getBalance,
  },
  {
    name: 'send_payment',
    label: 'Payment failed',
    title: 'Send payment',
    description:
      'Pay another wallet now; a fee comes on top of the amount. Confirm with the user first. Use create_job when something must be delivered for it.',
    effect: 'destroy',
    idempotent: true,
    input: z.object({
      to: address,
      amount: z.string().describe('Decimal amount, like "2.50"'),
      memo: z.string().optional(),
      idempotencyKey: key,
    }),
    api: sendPayment,
  },
  {
    name: 'list_payments',
    label: 'List payments failed',
    title: 'List payments',
    description: 'Payments of your wallet, newest first.',
    effect: 'read',
    input: z.object({
      limit: z.number().optional().default(20),
      offset: z.number().optional().default(0),
    }),
    api: listPayments,
  },
  {
    name: 'pay_x402',
    label: 'x402 payment failed',
    title: 'Pay x402',
    description:
      'Pay for a resource that answered HTTP 402; returns the paymentHeader to send as X-PAYMENT when you ask for it again.',
    effect: 'destroy',
    idempotent: true,
    input: z.object({
      url: z.string(),
      maxAmount: z.string(),
      recipient: address,
      network: z
        .string()
        .optional()
        .default('eip155:8453')
        .describe("Taken for this server's own ledger"),
      asset: z.string().optional(),
      idempotencyKey: key,
    }),
    api: payX402,
  },
  {
    name: 'get_payment',
    label: 'Get payment failed',
    title: 'Get payment',
    description: 'One payment by its id (pay_...). No authentication required.',
    effect: 'read',
    input: z.object({ paymentId: z.string().describe('Payment ID (pay_...)') }),
    api: getPayment,
  },
  {
    name: 'create_job',
    label: 'Create job failed',
    title: 'Create job',
    description:
      'Create an escrow job for a provider with a budget in micro-units, an expiry at least one day ahead and the rule that decides. No money moves until fund_job.',
    effect: 'write',
    idempotent: true,
    input: z.object({
      providerAddress: address,
      budgetUsdc: z.string().describe('Budget in micro-units as text: "1000000" is 1.00'),
      expiredAt: z.number().describe('Unix time in seconds, at least one day ahead'),
      title: z.string(),
      description: z.string(),
      evaluatorRule: z
        .record(z.string(), z.unknown())
        .describe(
          '{type: "manual" | "json_schema" | "http_check", url?, expectedStatus?, schema?}',
        ),
      idempotencyKey: key,
    }),
    api: createJob,
  },
  {
    name: 'fund_job',
    label: 'Fund job failed',
    title: 'Fund job',
    description: "Move the job's budget from your wallet into its escrow (open to funded).",
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
      'Deliver as the provider (funded to submitted): keccak256 of the content, and where it can be fetched. An automatic rule then decides.',
    effect: 'write',
    idempotent: true,
    input: z.object({
      jobId,
      contentHash: z.string().describe('0x and 64 hex digits: keccak256 of the content'),
      contentURI: z.string().optional(),
    }),
    api: submitJob,
  },
  {
    name: 'get_job',
    label: 'Get job failed',
    title: 'Get job',
    description:
      'Current state of a job: status, budget, transactions, evaluation outcome. No authentication required: job state is public.',
    effect: 'read',
    input: z.object({ jobId }),
    api: getJob,
  },
];

export const cardzeroTools: DialectTool[] = wishes.map(({ label, api, ...tool }) => {
  const refused = (error: unknown): DialectAnswer => {
    const { error: code, message } = faultOf(error);
    return { text: `${label}: [${code}] ${message}`, isError: true };
  };
  return {
    ...tool,
    refused,
    run: async (input: unknown, call: DialectCall): Promise<DialectAnswer> => {
      try {
        return { text: JSON.stringify(await api(call, input as Fields), null, 2) };
      } catch (error) {
        return refused(error);
      }
    },
  };
});
