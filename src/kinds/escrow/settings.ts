// The settings of escrow with their defaults, units and limits; the operator's file overrides them under `escrow`.
import { z } from 'zod';
import { labelList } from '../../jobs/labels.ts';
import { feeBpsMax } from './money.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const checkSchema = z.strictObject({
  command: z.string().min(1).describe('Command line; the deliverable comes on its standard input'),
  cwd: z.string().optional().describe('Folder it runs in; default: the home'),
  timeoutMs: z.int().min(100).max(hourMs).default(60_000).describe('Time of one run'),
  labels: labelList.default([]).describe('In a cluster: labels of the node it must run on'),
});

const bps = (max: number, preset: number) => z.int().min(0).max(max).default(preset);
const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);

const evmSchema = z.strictObject({
  rpcUrl: z.url().describe('JSON-RPC of the node'),
  contract: address.describe('Where contracts/ErrandEscrow.sol is deployed'),
  token: address.describe('The ERC-20 that budgets are in'),
  currency: z.string().default('USDC').describe('What amounts are called'),
  chainId: z
    .int()
    .min(1)
    .optional()
    .describe('Which chain the node must speak for; without it the first one seen is kept'),
  confirmations: z.int().min(1).default(2).describe('Blocks until an event counts'),
  pollMs: z.int().min(10).default(2000).describe('How often the chain is looked at'),
  timeoutMs: z.int().min(10).default(20_000).describe('So long a question to the node may take'),
  stuckMs: z
    .int()
    .min(10)
    .default(120_000)
    .describe('A transaction not mined for so long is replaced by one that pays more'),
  operatorKeyFile: z.string().describe('File with the private key of the operator, 0600'),
  gasTopUpWei: z
    .string()
    .regex(/^\d+$/)
    .default('10000000000000000')
    .describe('What a wallet gets from the operator when it has less than a fifth of it'),
});

export const escrowSettingsSchema = z
  .strictObject({
    platformFeeBps: bps(feeBpsMax, 200).describe('Fee of the platform on what is released'),
    evaluatorFeeBps: bps(feeBpsMax, 500).describe('Fee of the evaluator on what is released'),
    paymentFeeBps: bps(500, 200).describe('Fee on top of a payment'),
    expiryMsMin: z.int().min(1).default(60_000).describe('Least time to deliver'),
    expiryMsMax: z
      .int()
      .default(366 * dayMs)
      .describe('Most time to deliver'),
    expiryMsDefault: z.int().default(dayMs).describe('Time to deliver when a job says none'),
    evaluationMsDefault: z
      .int()
      .default(3 * dayMs)
      .describe('Least time of the evaluator after a delivery, when a job says none'),
    evaluationMsMax: z
      .int()
      .default(30 * dayMs)
      .describe('Most time a job may give evaluator, dispute and arbiter, each'),
    disputeMsDefault: z
      .int()
      .default(3 * dayMs)
      .describe('Time of the arbiter when a job says none'),
    offersMax: z
      .int()
      .min(1)
      .default(20)
      .describe('Counter-offers that each side may make for one job'),
    purchaseWindowMs: z
      .int()
      .min(0)
      .default(600_000)
      .describe('So long the same purchase is recognised by its fields'),
    keyWindowMs: z
      .int()
      .min(60_000)
      .default(30 * dayMs)
      .describe('So long an idempotency key is remembered'),
    visibility: z
      .enum(['public', 'private'])
      .default('public')
      .describe('Of jobs whose client does not say: may anybody with the id look at them'),
    openWallets: z
      .boolean()
      .default(true)
      .describe('Anybody may open a wallet without a key; it spends nothing until it is claimed'),
    unclaimedMax: z.int().min(0).default(1000).describe('Wallets that may wait for an owner'),
    walletsMax: z.int().min(1).default(1000).describe('Wallets of one owner'),
    claimMsMax: z
      .int()
      .default(7 * dayMs)
      .describe('So long an unclaimed wallet waits for its owner'),
    sweepMs: z.int().min(10).default(1000).describe('How often deadlines are looked for'),
    evaluationLeaseMs: z
      .int()
      .min(100)
      .default(120_000)
      .describe('So long one node has a due evaluation before another may take it'),
    evaluationsMax: z
      .int()
      .min(1)
      .default(8)
      .describe('Evaluations that run at once; others wait, deadlines do not'),
    maxEvaluationMs: z
      .int()
      .min(0)
      .default(6 * hourMs)
      .describe(
        'Most time that an automatic rule gets after the deadline to finish; then the arbiter decides, or the agreed answer to silence',
      ),
    evaluationTriesMax: z
      .int()
      .min(1)
      .default(5)
      .describe('Tries of a check that breaks; what the last one says counts'),
    evaluationRetryMs: z.int().min(1).default(5000).describe('Pause between those tries'),
    schemaMsMax: z
      .int()
      .min(10)
      .default(5000)
      .describe('Longest time for one delivery against its JSON Schema'),
    httpTriesMax: z.int().min(1).max(10).default(3).describe('Tries of an http_check'),
    inlineBytesMax: z.int().default(65_536).describe('Largest deliverable sent with the call'),
    deliverableBytesMax: z
      .int()
      .default(5_000_000)
      .describe('Largest deliverable fetched from its address'),
    stuckMs: z
      .int()
      .default(hourMs)
      .describe('A delivery without verdict for longer raises an alarm in health'),
    checks: z.record(z.string(), checkSchema).default({}),
    settlement: z.enum(['ledger', 'evm']).default('ledger').describe('Where new jobs settle'),
    evm: evmSchema.optional(),
  })
  .prefault({});

export type EscrowSettings = z.infer<typeof escrowSettingsSchema>;
