// Contracts of the operations on escrow jobs that dialects call: post, fund, deliver, refund, list and read.
import { z } from 'zod';
import { defineContract } from '../../../contract.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { omitted } from '../../../runtime/response-budget.ts';
import { cleanText } from '../../../runtime/untrusted-text.ts';
import { phases } from '../stage.ts';
import { workRoles } from '../store/work.ts';
import {
  lineSchema,
  maxDescriptionChars,
  maxMilestones,
  maxTitleChars,
  ruleSchema,
  silences,
  walletIdSchema,
} from '../terms.ts';
import { workView } from '../view.ts';

const maxListLimit = 100;

export const asWallet = walletIdSchema
  .optional()
  .describe('Wallet to act for; required only if you have several and your key is bound to none');
export const idempotencyKey = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('Repeat it when you retry: same key, same job');
export const budget = z.string().max(40).describe('Micro-units as text: "2500000" is 2.50');
const isoTime = z.iso.datetime({ offset: true });
export const workOutput = workView.extend({ existing: z.boolean().optional() });
export const stageNames = phases.filter((phase) => phase !== 'decided');

export const postWork = defineContract({
  name: 'post_work',
  input: z.strictObject({
    provider: walletIdSchema.describe('Wallet of the agent: id (wal_…) or 0x address'),
    budget,
    maxBudget: budget.optional().describe('Reject counter-offers above this amount, micro-units'),
    title: lineSchema(maxTitleChars).describe('One line'),
    description: z
      .string()
      .overwrite(cleanText)
      .min(1)
      .max(maxDescriptionChars)
      .describe('What to deliver, in full: the provider sees only this'),
    rule: ruleSchema
      .default({ type: 'manual' })
      .describe('What accepts the delivery; default manual: you'),
    expiresAt: isoTime.optional().describe('Delivery deadline, ISO time; default one day'),
    fundBy: isoTime.optional().describe('Deadline for funding'),
    evaluationMs: z.int().min(0).optional().describe('Minimum time for the evaluator'),
    silence: z
      .enum(silences)
      .optional()
      .describe('Applied if nobody decides after a delivery; default release'),
    splitBps: z
      .int()
      .min(1)
      .max(9999)
      .optional()
      .describe("Provider's share of a split, in 1/10000"),
    dispute: z
      .strictObject({
        arbiter: walletIdSchema,
        windowMs: z.int().min(0).optional().describe('How long a verdict can be disputed'),
        resolveMs: z.int().min(1000).optional(),
        silence: z.enum(silences).optional(),
      })
      .optional(),
    milestones: z
      .array(z.strictObject({ title: lineSchema(maxTitleChars), amount: budget }))
      .max(maxMilestones)
      .optional()
      .describe('Parts that are delivered and paid in order; they must sum to the budget'),
    settlement: z.enum(['ledger', 'evm']).optional(),
    visibility: z.enum(['public', 'private']).optional(),
    fund: z.boolean().optional().describe('Pay the budget into escrow now'),
    tags: z.array(lineSchema(60)).max(20).optional(),
    idempotencyKey,
    repeat: z.boolean().optional().describe('True: a second, separate purchase of the same thing'),
    minExpiryMs: z.int().min(0).optional().describe('Reject a delivery time shorter than this'),
    wallet: asWallet,
  }),
  output: workOutput,
});

export const fundWork = defineContract({
  name: 'fund_work',
  input: z.strictObject({
    id: jobId,
    expectedBudget: budget
      .optional()
      .describe('Amount you accept, micro-units; required when the provider proposed another'),
    wallet: asWallet,
  }),
  output: workOutput,
});

export const submitWork = defineContract({
  name: 'submit_work',
  input: z.strictObject({
    id: jobId,
    content: z.string().optional(),
    // Normalized here, because the other parties read it with every special character escaped.
    uri: z
      .url({ protocol: /^(https?|ipfs)$/, normalize: true })
      .max(2000)
      .optional()
      .describe('http or https; ipfs only when a person decides'),
    contentHash: z.string().max(80).optional(),
    wallet: asWallet,
  }),
  output: workOutput,
});

export const refundWork = defineContract({
  name: 'refund_work',
  input: z.strictObject({ id: jobId, wallet: asWallet }),
  output: workOutput,
});

export const listWork = defineContract({
  name: 'list_work',
  input: z.strictObject({
    role: z
      .enum([...workRoles, 'any'])
      .default('provider')
      .describe('any: jobs in which the wallet has a role'),
    stage: z.array(z.enum(stageNames)).optional(),
    limit: z.coerce.number().int().min(1).max(maxListLimit).default(20),
    cursor: z.string().max(80).optional(),
    total: z.boolean().optional().describe('Also count all jobs of that role'),
    wallet: asWallet,
  }),
  output: z.object({
    work: z.array(workView),
    nextCursor: z.string().optional(),
    total: z.number().optional(),
    omitted: omitted.optional(),
  }),
});

export const readWork = defineContract({
  name: 'read_work',
  input: z.strictObject({
    id: jobId,
    milestone: z.coerce.number().int().min(1).optional().describe('Counted from 1'),
    exact: z
      .boolean()
      .optional()
      .describe('Also return the spec bytes as base64 (specBytes), to verify specHash'),
    wallet: asWallet,
  }),
  output: z.looseObject({
    id: z.string(),
    spec: z.string(),
    specHash: z.string(),
    specBytes: z.string().optional(),
  }),
});
