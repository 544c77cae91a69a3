// The operations on hired work up to its delivery: post, fund, negotiate, decline.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { isOwn } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { cleanText } from '../../../runtime/foreign-text.ts';
import { parseMicro } from '../money.ts';
import {
  callerOf,
  isFundedBy,
  once,
  actingOn,
  shown,
  shownOnce,
  type EscrowServices,
} from '../services.ts';
import { phases } from '../stage.ts';
import {
  descriptionCharsMax,
  durationText,
  lineSchema,
  milestonesMax,
  ruleSchema,
  silences,
  titleCharsMax,
  walletIdSchema,
} from '../terms.ts';
import { workView } from '../view.ts';
import type { Work } from '../work.ts';
import { workText } from './text.ts';

export const asWallet = walletIdSchema
  .optional()
  .describe(
    'Wallet that you act for; needed only when you have several and the key is bound to none',
  );
export const idempotencyKey = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('Same key for a retry');
const budget = z.string().max(40).describe('Micro-units as text: "2500000" is 2.50');
const isoTime = z.iso.datetime({ offset: true });
const answer = workView.extend({ existing: z.boolean().optional() });

export function workOperations(services: EscrowServices): Operation[] {
  return [postWork(services), fundWork(services), counterWork(services), declineWork(services)];
}

function postWork(services: EscrowServices): Operation {
  const window = durationText(services.settings.evaluationMsDefault);
  return defineOperation({
    name: 'post_work',
    title: 'Post work for another agent',
    description:
      'Hires another agent for a task: creates an escrow job with a provider, a budget in internal credit, a deadline and a rule that decides. ' +
      `No money moves until it is funded (fund: true, or fund_work). If you do not respond within ${window} after delivery, the provider is paid. ` +
      'Follow it with get_job or wait_for_jobs. A repeated call within ten minutes answers the existing job.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow', 'default'],
    input: z.strictObject({
      provider: walletIdSchema,
      budget,
      budgetMax: budget.optional().describe('Refuse every counter-offer above this, micro-units'),
      title: lineSchema(titleCharsMax),
      description: z.string().overwrite(cleanText).min(1).max(descriptionCharsMax),
      rule: ruleSchema.default({ type: 'manual' }).describe('Who or what decides'),
      expiresAt: isoTime.optional().describe('Until then it must be delivered; default one day'),
      fundBy: isoTime.optional(),
      evaluationMs: z.int().min(0).optional().describe('Least time for the evaluator'),
      silence: z
        .enum(silences)
        .optional()
        .describe('What happens when nobody decides after a delivery; default release'),
      splitBps: z
        .int()
        .min(1)
        .max(9999)
        .optional()
        .describe("Provider's share of a split, in 1/10000"),
      dispute: z
        .strictObject({
          arbiter: walletIdSchema,
          windowMs: z.int().min(0).optional().describe('A verdict can be disputed for so long'),
          resolveMs: z.int().min(1000).optional(),
          silence: z.enum(silences).optional(),
        })
        .optional(),
      milestones: z
        .array(z.strictObject({ title: lineSchema(titleCharsMax), amount: budget }))
        .max(milestonesMax)
        .optional()
        .describe('Parts that are delivered and paid one after another; they sum to the budget'),
      settlement: z.enum(['ledger', 'evm']).optional(),
      visibility: z.enum(['public', 'private']).optional(),
      fund: z.boolean().optional().describe('Fund it now'),
      tags: z.array(lineSchema(60)).max(20).optional(),
      idempotencyKey,
      repeat: z
        .boolean()
        .optional()
        .describe('True: a second, separate purchase of the same thing'),
      expiryMsMin: z.int().min(0).optional().describe('Refuse a shorter time to deliver than this'),
      wallet: asWallet,
    }),
    output: answer,
    http: { method: 'POST', path: '/api/work' },
    cli: {
      words: ['work', 'post'],
      args: ['provider', 'budget', 'title'],
      units: {
        budget: 'What you pay, like 2.50',
        budgetMax: 'Refuse every counter-offer above this, like 3.00',
        'milestones.amount': 'like 0.50',
      },
      examples: ['errand work post wal_… 2.50 "Count the words" --description "…" --fund'],
    },
    rareInput: [
      'expiresAt (ISO time)',
      'silence (release, refund, split)',
      'splitBps',
      'dispute {arbiter, windowMs, …}',
      'milestones [{title, amount}]',
      'budgetMax',
      'fundBy',
      'evaluationMs',
      'settlement',
      'visibility',
      'tags',
      'repeat',
      'expiryMsMin',
      'wallet',
    ],
    startsJob: (view) => view.id,
    answerFor: async (id, context) => {
      const job = await services.jobs.get(id);
      const caller = callerOf(context);
      if (job.kind !== 'escrow' || !(await isOwn(services.jobs, job, caller))) return undefined;
      const work = await services.store.works.work(id);
      if (caller.subject !== undefined && caller.subject !== `wallet:${work.client}`)
        return undefined;
      return shown(services, work, await services.store.wallet(work.client));
    },
    text: workText,
    run: async (input, context) => {
      const caller = callerOf(context);
      const client = await services.wallets.actingFor(caller, input.wallet);
      const { dispute, milestones, wallet: _, expiresAt, fundBy, budgetMax, ...rest } = input;
      const agreed = parseMicro(input.budget, 'budget');
      const posted = await services.posting.post({
        ...rest,
        client,
        owner: caller.owner,
        budget: agreed,
        ...(budgetMax === undefined ? {} : { budgetMax: parseMicro(budgetMax, 'budgetMax') }),
        ...(expiresAt === undefined ? {} : { expiresAt: Date.parse(expiresAt) }),
        ...(fundBy === undefined ? {} : { fundBy: Date.parse(fundBy) }),
        ...(dispute ? { dispute, disputeWindowMs: dispute.windowMs ?? 0 } : {}),
        milestones: (milestones ?? []).map(({ title, amount }) => ({
          title,
          amount: parseMicro(amount, 'milestones.amount'),
        })),
      });
      const { existing } = posted;
      const { jobId: id, phase, state } = posted.work;
      const later = state.fundNext !== undefined || state.pending !== null;
      if (!input.fund || phase !== 'open' || later) return shownOnce(services, posted, client);
      const actor = { wallet: client.id };
      const { work } = await once(services, id, isFundedBy(client.id), () =>
        services.escrow.act(id, { actor, action: 'fund', expectedBudget: agreed }),
      );
      return shownOnce(services, { work, existing }, client);
    },
  });
}

function fundWork(services: EscrowServices): Operation {
  return defineOperation({
    name: 'fund_work',
    title: 'Fund posted work',
    description:
      "Moves the amount that you agreed to from your wallet into the job's own escrow account; only the client can, only while the job is open. " +
      'When the provider has proposed another amount it fails; to accept that amount, name it in expectedBudget. Balance and limits are checked first; a failure has no effect. Calling it again after it worked changes nothing. Use it after post_work.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({
      id: jobId,
      expectedBudget: budget
        .optional()
        .describe('The amount you accept, micro-units; needed when the provider proposed another'),
      wallet: asWallet,
    }),
    output: answer,
    http: { method: 'POST', path: '/api/work/{id}/fund' },
    cli: {
      words: ['work', 'fund'],
      args: ['id'],
      units: {
        expectedBudget:
          'The amount you accept, like 2.50; needed when the provider proposed another',
      },
    },
    text: workText,
    run: async (input, context) => {
      const { wallet } = await actingOn(services, input, context);
      const expected =
        input.expectedBudget === undefined
          ? {}
          : { expectedBudget: parseMicro(input.expectedBudget, 'expectedBudget') };
      const actor = { wallet: wallet.id };
      const answer = await once(services, input.id, isFundedBy(wallet.id), () =>
        services.escrow.act(input.id, { actor, action: 'fund', ...expected }),
      );
      return shownOnce(services, answer, wallet);
    },
  });
}

function counterWork(services: EscrowServices): Operation {
  return defineOperation({
    name: 'counter_work',
    title: 'Make a counter-offer',
    description:
      'Proposes another budget for an open job; client or provider can, until it is funded. The last proposal is the one on the table; the client accepts a proposal of the provider only by naming its amount (fund_work, expectedBudget). Moves no money. To refuse the job altogether use decline_work.',
    effect: 'write',
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({ id: jobId, budget, wallet: asWallet }),
    output: answer,
    http: { method: 'POST', path: '/api/work/{id}/counter' },
    cli: {
      words: ['work', 'counter'],
      args: ['id', 'budget'],
      units: { budget: 'The amount you propose, like 2.50' },
    },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(services, input, context);
      refuseCounter(services, before);
      const work = await services.escrow.act(input.id, {
        actor: { wallet: wallet.id },
        action: 'counter',
        budget: parseMicro(input.budget, 'budget'),
      });
      return shown(services, work, wallet);
    },
  });
}

function refuseCounter(services: EscrowServices, work: Work): void {
  if (work.terms.milestones.length > 0) {
    throw new AppError('invalidInput', 'A job with milestones has a fixed budget.', {
      hint: 'Decline it and ask for a new one.',
    });
  }
  if (!services.escrow.settlement(work.settlement).capabilities.has('counter')) {
    throw new AppError('unsupportedBySettlement', `No counter-offers on ${work.settlement}.`);
  }
}

function declineWork(services: EscrowServices): Operation {
  return defineOperation({
    name: 'decline_work',
    title: 'Decline or withdraw work',
    description:
      'Ends a job without delivery: the provider can decline at any time before payment (the client gets everything back), the client can withdraw it while it is open. Never blocked by freeze or pause. A client whose job is already funded waits for the deadline (refund_work) or asks the provider to decline.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({ id: jobId, reason: lineSchema(1000).optional(), wallet: asWallet }),
    output: answer,
    http: { method: 'POST', path: '/api/work/{id}/decline' },
    cli: { words: ['work', 'decline'], args: ['id'] },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(services, input, context);
      const action = before.client === wallet.id ? 'cancel' : 'decline';
      const outcome = action === 'cancel' ? 'cancelled' : 'declined';
      const party = [before.client, before.provider].includes(wallet.id);
      const answer = await once(
        services,
        input.id,
        (work) => party && work.state.outcome === outcome,
        () =>
          services.escrow.act(input.id, {
            actor: { wallet: wallet.id },
            action,
            ...(input.reason === undefined ? {} : { reason: input.reason }),
          }),
      );
      return shownOnce(services, answer, wallet);
    },
  });
}

export const stageNames = phases.filter((phase) => phase !== 'decided');
