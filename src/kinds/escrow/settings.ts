// Escrow settings with defaults, units and limits. The operator overrides them in the config file under `escrow`.
import { z } from 'zod';
import { labelList } from '../../contracts/jobs.ts';
import { maxFeeBps } from './money.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const checkSchema = z.strictObject({
  command: z.string().min(1).describe('Command line; reads the deliverable from standard input'),
  cwd: z.string().optional().describe('Working folder; default: the home'),
  timeoutMs: z.int().min(100).max(hourMs).default(60_000).describe('Time limit of one run'),
  labels: labelList.default([]).describe('Cluster only: labels of the node it must run on'),
});

const bps = (max: number, preset: number) => z.int().min(0).max(max).default(preset);
const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);

const evmSchema = z.strictObject({
  rpcUrl: z.url().describe('JSON-RPC URL of the node'),
  contract: address.describe('Address of the deployed contracts/ErrandEscrow.sol'),
  token: address.describe('ERC-20 token of the budgets'),
  currency: z.string().default('USDC').describe('Currency name in texts'),
  chainId: z
    .int()
    .min(1)
    .optional()
    .describe('Chain id that the node must report; default: the first id seen'),
  confirmations: z.int().min(1).default(2).describe('Blocks until an event counts'),
  pollMs: z.int().min(10).default(2000).describe('How often the chain is polled'),
  timeoutMs: z.int().min(10).default(20_000).describe('Time limit of one request to the node'),
  stuckMs: z
    .int()
    .min(10)
    .default(120_000)
    .describe('A transaction not mined for this long is replaced with a higher fee'),
  operatorKeyFile: z.string().describe("File with the operator's private key, mode 0600"),
  gasTopUpWei: z
    .string()
    .regex(/^\d+$/)
    .default('10000000000000000')
    .describe('Amount of a gas top-up, sent when a wallet has less than a fifth of it'),
});

export const escrowSettingsSchema = z
  .strictObject({
    platformFeeBps: bps(maxFeeBps, 200).describe('Platform fee on released amounts, in 1/10000'),
    evaluatorFeeBps: bps(maxFeeBps, 500).describe('Evaluator fee on released amounts, in 1/10000'),
    paymentFeeBps: bps(500, 200).describe('Fee added to a payment, in 1/10000'),
    minExpiryMs: z.int().min(1).default(60_000).describe('Minimum time for delivery'),
    maxExpiryMs: z
      .int()
      .default(366 * dayMs)
      .describe('Maximum time for delivery'),
    expiryMsDefault: z.int().default(dayMs).describe('Default time for delivery'),
    evaluationMsDefault: z
      .int()
      .default(3 * dayMs)
      .describe('Default minimum time for the evaluator after a delivery'),
    maxEvaluationWindowMs: z
      .int()
      .default(30 * dayMs)
      .describe(
        'Maximum time that a job may allow for evaluator, dispute window and arbiter, each',
      ),
    disputeMsDefault: z
      .int()
      .default(3 * dayMs)
      .describe('Default time for the arbiter'),
    maxOffers: z
      .int()
      .min(1)
      .default(20)
      .describe('Counter-offers that each side may make per job'),
    maxOpenWork: z
      .int()
      .min(1)
      .default(200)
      .describe('Maximum number of open jobs per client wallet that are not funded yet'),
    purchaseWindowMs: z
      .int()
      .min(0)
      .default(600_000)
      .describe('How long a repeated purchase is recognised by its fields'),
    keyWindowMs: z
      .int()
      .min(60_000)
      .default(30 * dayMs)
      .describe('How long an idempotency key is stored'),
    visibility: z
      .enum(['public', 'private'])
      .default('public')
      .describe('Default visibility of jobs; public: anybody with the id can read them'),
    openWallets: z
      .boolean()
      .default(true)
      .describe('Allow opening a wallet without a key; it cannot spend until it is claimed'),
    maxUnclaimed: z.int().min(0).default(1000).describe('Maximum number of unclaimed wallets'),
    maxWallets: z.int().min(1).default(1000).describe('Maximum number of wallets per owner'),
    maxClaimMs: z
      .int()
      .default(7 * dayMs)
      .describe('How long an unclaimed wallet waits for its owner'),
    sweepMs: z.int().min(10).default(1000).describe('How often deadlines are checked'),
    evaluationLeaseMs: z
      .int()
      .min(100)
      .default(30_000)
      .describe('How long an evaluation of a node that died is kept from other nodes'),
    maxEvaluations: z
      .int()
      .min(1)
      .default(8)
      .describe('Concurrent evaluations; others wait, deadlines do not'),
    maxEvaluationMs: z
      .int()
      .min(0)
      .default(6 * hourMs)
      .describe(
        'Extra time for an automatic rule to finish after the deadline; then the arbiter decides, or the agreed default applies',
      ),
    maxEvaluationTries: z
      .int()
      .min(1)
      .default(5)
      .describe('Attempts of a check that fails to run; the last attempt counts'),
    evaluationRetryMs: z.int().min(1).default(5000).describe('Delay between these attempts'),
    maxSchemaMs: z
      .int()
      .min(10)
      .default(5000)
      .describe('Time limit for checking one delivery against its JSON Schema'),
    maxHttpTries: z.int().min(1).max(10).default(3).describe('Attempts of an http_check'),
    maxInlineBytes: z.int().default(65_536).describe('Largest deliverable sent inline'),
    maxDeliverableBytes: z
      .int()
      .default(5_000_000)
      .describe('Largest deliverable fetched from its URI'),
    stuckMs: z
      .int()
      .default(hourMs)
      .describe('A delivery without a verdict for this long raises a health alarm'),
    checks: z.record(z.string(), checkSchema).default({}),
    settlement: z.enum(['ledger', 'evm']).default('ledger').describe('Where new jobs settle'),
    evm: evmSchema.optional(),
  })
  .prefault({});

export type EscrowSettings = z.infer<typeof escrowSettingsSchema>;
