// The settings of escrow with their defaults, units and limits; the operator's file overrides them under `escrow`.
import { z } from 'zod';
import { labelList } from '../../jobs/labels.ts';
import { feeBpsMax } from './money.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

export const checkSchema = z.strictObject({
  command: z.string().min(1).describe('Command line; the deliverable comes on its standard input'),
  cwd: z.string().optional(),
  timeoutMs: z.int().min(100).max(hourMs).default(60_000),
  labels: labelList.default([]).describe('In a cluster: labels of the node it must run on'),
});

export const escrowSettingsSchema = z
  .strictObject({
    platformFeeBps: z.int().min(0).max(feeBpsMax).default(200),
    evaluatorFeeBps: z.int().min(0).max(feeBpsMax).default(500),
    paymentFeeBps: z.int().min(0).max(500).default(200),
    /** A job must leave at least this long to deliver. */
    expiryMsMin: z.int().min(1).default(60_000),
    expiryMsMax: z.int().default(366 * dayMs),
    expiryMsDefault: z.int().default(dayMs),
    evaluationMsDefault: z.int().default(hourMs),
    evaluationMsMax: z.int().default(30 * dayMs),
    disputeMsDefault: z.int().default(3 * dayMs),
    /** In this time the same purchase is recognised by its fields. */
    purchaseWindowMs: z.int().min(0).default(600_000),
    /** So long an idempotency key is remembered. */
    keyWindowMs: z
      .int()
      .min(60_000)
      .default(30 * dayMs),
    /** Whether anybody may open a wallet without a key; it can spend nothing until it is claimed. */
    openWallets: z.boolean().default(false),
    claimMsMax: z.int().default(7 * dayMs),
    sweepMs: z.int().min(10).default(1000),
    /** One node has a due evaluation for so long before another may take it. */
    evaluationLeaseMs: z.int().min(100).default(120_000),
    evaluationTriesMax: z.int().min(1).default(5),
    evaluationRetryMs: z.int().min(1).default(5000),
    httpTriesMax: z.int().min(1).max(10).default(3),
    inlineBytesMax: z.int().default(65_536),
    deliverableBytesMax: z.int().default(5_000_000),
    /** A submission without verdict for longer than this raises an alarm in health. */
    stuckMs: z.int().default(hourMs),
    checks: z.record(z.string(), checkSchema).default({}),
    settlement: z.enum(['ledger', 'evm']).default('ledger'),
    evm: z
      .strictObject({
        rpcUrl: z.url(),
        contract: z.string().regex(/^0x[0-9a-fA-F]{40}$/),
        token: z.string().regex(/^0x[0-9a-fA-F]{40}$/),
        currency: z.string().default('USDC'),
        /** Which chain the node must speak for; without it the first one seen is kept. */
        chainId: z.int().min(1).optional(),
        confirmations: z.int().min(1).default(2),
        pollMs: z.int().min(10).default(2000),
        /** So long a question to the node may take. */
        timeoutMs: z.int().min(10).default(20_000),
        /** A transaction that is not mined for so long is replaced by one that pays more. */
        stuckMs: z.int().min(10).default(120_000),
        /** Environment-free: the file that holds the operator's private key, 0600. */
        operatorKeyFile: z.string(),
        /** Wei that a wallet gets from the operator when it has less than a fifth of this. */
        gasTopUpWei: z.string().regex(/^\d+$/).default('10000000000000000'),
      })
      .optional(),
  })
  .prefault({});

export type EscrowSettings = z.infer<typeof escrowSettingsSchema>;
