// Operations on escrow jobs up to the delivery: post, fund, counter-offer, decline.
import * as contracts from '../contracts/work.ts';
import { asWallet, budget, workOutput } from '../contracts/work.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { isOwn } from '../../../jobs/view.ts';
import { defineOperation, type CliShape, type Operation } from '../../../operation.ts';
import { refuseOtherAmount } from '../agreement.ts';
import { parseMicro } from '../money.ts';
import {
  callerOf,
  isFundedBy,
  once,
  actingOn,
  toWorkView,
  toCallResult,
  type EscrowDeps,
} from '../deps.ts';
import { durationText, lineSchema } from '../terms.ts';
import type { Work } from '../work.ts';
import { workText } from './text.ts';

export function workOperations(deps: EscrowDeps): Operation[] {
  return [postWork(deps), fundWork(deps), counterWork(deps), declineWork(deps)];
}

const postCli: CliShape = {
  words: ['work', 'post'],
  args: ['provider', 'budget', 'title'],
  units: {
    budget: 'What you pay, like 2.50',
    maxBudget: 'Reject counter-offers above this amount, like 3.00',
    'milestones.amount': 'like 0.50',
  },
  examples: ['errand work post wal_… 2.50 "Count the words" --description "…" --fund'],
};

const rareInput = [
  'milestones [{title, amount}]',
  'maxBudget (for counter-offers)',
  'silence (release, refund or split if you do not decide)',
  'dispute {arbiter, windowMs}',
  'repeat (true: buy the same again)',
  'wallet (yours, if several)',
];

const unlistedInput = [
  'splitBps',
  'fundBy',
  'evaluationMs',
  'settlement',
  'visibility',
  'tags',
  'minExpiryMs',
];

function postWork(deps: EscrowDeps): Operation {
  const window = durationText(deps.settings.evaluationMsDefault);
  return defineOperation({
    ...contracts.postWork,
    title: 'Post work for another agent',
    description:
      'Hires another agent for work that no shell command or tool of yours can do: posts an escrow job with budget, deadline and acceptance rule. ' +
      'Not for your own commands. Amounts are internal credit of this server. Nothing is paid until the job is funded (fund: true). ' +
      `If you do not respond within ${window} after delivery, the provider is paid. To fund it later use fund_work. ` +
      'Returns the job and the actions open to you; continue with wait_for_jobs or get_job. Repeating a call within 10 minutes returns the existing job.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow', 'default'],
    brief: {
      schema: z.looseObject({ id: z.string(), stage: z.string() }),
      of: (view) => view,
    },
    http: { method: 'POST', path: '/api/work' },
    cli: postCli,
    rareInput,
    unlistedInput,
    startsJob: (view) => view.id,
    outputFor: async (id, context) => {
      const job = await deps.jobs.get(id);
      const caller = callerOf(context);
      if (job.kind !== 'escrow' || !(await isOwn(deps.jobs, job, caller))) return undefined;
      const work = await deps.store.works.work(id);
      if (caller.subject !== undefined && caller.subject !== `wallet:${work.client}`)
        return undefined;
      return toWorkView(deps, work, await deps.store.wallet(work.client));
    },
    text: workText,
    run: async (input, context) => {
      const caller = callerOf(context);
      const client = await deps.wallets.actingFor(caller, input.wallet);
      const { dispute, milestones, wallet: _, expiresAt, fundBy, maxBudget, ...rest } = input;
      const agreed = parseMicro(input.budget, 'budget');
      const posted = await deps.posting.post({
        ...rest,
        client,
        owner: caller.owner,
        budget: agreed,
        ...(maxBudget === undefined ? {} : { maxBudget: parseMicro(maxBudget, 'maxBudget') }),
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
      if (!input.fund || phase !== 'open' || later) return toCallResult(deps, posted, client);
      const actor = { wallet: client.id };
      const { work } = await once(deps, id, isFundedBy(client.id), () =>
        deps.escrow.act(id, { actor, action: 'fund', expectedBudget: agreed }),
      );
      return toCallResult(deps, { work, existing }, client);
    },
  });
}

function fundWork(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.fundWork,
    title: 'Fund posted work',
    description:
      "Moves the agreed amount from your wallet into the job's own escrow account. Only the client can do this, and only while the job is open. " +
      'If the provider has proposed another amount, the call fails; to accept that amount, pass it as expectedBudget. Balance and limits are checked first; a failure has no effect. Repeating a successful call changes nothing. Use it after post_work.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'POST', path: '/api/work/{id}/fund' },
    cli: {
      words: ['work', 'fund'],
      args: ['id'],
      units: {
        expectedBudget: 'Amount you accept, like 2.50; required when the provider proposed another',
      },
    },
    text: workText,
    run: async (input, context) => {
      const { wallet } = await actingOn(deps, input, context);
      const expected =
        input.expectedBudget === undefined
          ? {}
          : { expectedBudget: parseMicro(input.expectedBudget, 'expectedBudget') };
      const actor = { wallet: wallet.id };
      const result = await once(deps, input.id, isFundedBy(wallet.id), () =>
        deps.escrow.act(input.id, { actor, action: 'fund', ...expected }),
      );
      if (result.existing) refuseOtherAmount(result.work, expected.expectedBudget);
      return toCallResult(deps, result, wallet);
    },
  });
}

function counterWork(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'counter_work',
    title: 'Make a counter-offer',
    description:
      'Proposes another budget for an open job. Client and provider can do this until the job is funded. Only the latest proposal counts. The client accepts a proposal by the provider only by naming its amount (fund_work, expectedBudget). Moves no money. To refuse the job altogether use decline_work.',
    effect: 'write',
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({ id: jobId, budget, wallet: asWallet }),
    output: workOutput,
    http: { method: 'POST', path: '/api/work/{id}/counter' },
    cli: {
      words: ['work', 'counter'],
      args: ['id', 'budget'],
      units: { budget: 'Amount you propose, like 2.50' },
    },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(deps, input, context);
      refuseCounter(deps, before);
      const work = await deps.escrow.act(input.id, {
        actor: { wallet: wallet.id },
        action: 'counter',
        budget: parseMicro(input.budget, 'budget'),
      });
      return toWorkView(deps, work, wallet);
    },
  });
}

function refuseCounter(deps: EscrowDeps, work: Work): void {
  if (work.terms.milestones.length > 0) {
    throw new AppError('invalidInput', 'A job with milestones has a fixed budget.', {
      hint: 'Decline the job and ask for a new one.',
    });
  }
  if (!deps.escrow.settlement(work.settlement).capabilities.has('counter')) {
    throw new AppError(
      'unsupportedBySettlement',
      `The ${work.settlement} settlement does not support counter-offers.`,
    );
  }
}

function declineWork(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'decline_work',
    title: 'Decline or withdraw work',
    description:
      'Ends a job without delivery. The provider can decline at any time before payment, and the client gets everything back. The client can withdraw the job while it is open. A freeze or pause never blocks this. A client whose job is already funded waits for the deadline (refund_work) or asks the provider to decline.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({ id: jobId, reason: lineSchema(1000).optional(), wallet: asWallet }),
    output: workOutput,
    http: { method: 'POST', path: '/api/work/{id}/decline' },
    cli: { words: ['work', 'decline'], args: ['id'] },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(deps, input, context);
      const action = before.client === wallet.id ? 'cancel' : 'decline';
      const outcome = action === 'cancel' ? 'cancelled' : 'declined';
      const party = [before.client, before.provider].includes(wallet.id);
      const result = await once(
        deps,
        input.id,
        (work) => party && work.state.outcome === outcome,
        () =>
          deps.escrow.act(input.id, {
            actor: { wallet: wallet.id },
            action,
            ...(input.reason === undefined ? {} : { reason: input.reason }),
          }),
      );
      return toCallResult(deps, result, wallet);
    },
  });
}
