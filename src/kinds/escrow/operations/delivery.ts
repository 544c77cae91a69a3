// Operations from delivery to the end of a job: submit, evaluate, refund, dispute.
import * as contracts from '../contracts/work.ts';
import { asWallet, workOutput } from '../contracts/work.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { cleanText } from '../../../runtime/untrusted-text.ts';
import { contentHashPattern, hashMatches, sha256Of } from '../hashes.ts';
import {
  isDisputedBy,
  isJudgedBy,
  isResolvedBy,
  once,
  actingOn,
  toCallResult,
  type EscrowDeps,
} from '../deps.ts';
import { lineSchema, silences } from '../terms.ts';
import type { Work } from '../work.ts';
import { readingOperations } from './reading.ts';
import { workText } from './text.ts';

export function deliveryOperations(deps: EscrowDeps): Operation[] {
  return [
    submitWork(deps),
    evaluateWork(deps),
    refundWork(deps),
    disputeWork(deps),
    ...readingOperations(deps),
  ];
}

function submitWork(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.submitWork,
    title: 'Deliver work',
    description:
      'Delivers the result of a funded job. Only the provider can do this, and only before the deadline. Pass content (inline text; its hash is computed), or uri with contentHash (keccak256 as 0x…, or sha256:…). ' +
      'An automatic rule decides immediately; a manual rule waits for its evaluator. Sending the same content again changes nothing, even after its milestone was paid. If you cannot deliver, use decline_work.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'POST', path: '/api/work/{id}/submit' },
    cli: { words: ['work', 'submit'], args: ['id'] },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(deps, input, context);
      const hash = deliveredHash(deps, input);
      if (before.phase === 'funded') await deps.evaluation.refuseUnusable(before, input);
      const isSame = (work: Work) => work.provider === wallet.id && wasDelivered(work, hash);
      const submission = {
        n: before.state.txs.length,
        hash,
        uri: input.uri ?? null,
        inline: input.content !== undefined,
        at: deps.clock.now(),
      };
      const row = { ...submission, content: input.content ?? null };
      const result = await once(deps, input.id, isSame, () =>
        deps.escrow.act(input.id, {
          actor: { wallet: wallet.id },
          action: 'submit',
          submission,
          steps: () => [deps.store.works.insertDeliverable(input.id, row)],
        }),
      );
      return toCallResult(deps, result, wallet);
    },
  });
}

/** Matches the current and earlier milestones: a repeated call must not count as the next delivery. */
const wasDelivered = ({ state }: Work, hash: string): boolean =>
  state.submission?.hash === hash || (state.accepted ?? []).some((one) => one.hash === hash);

function deliveredHash(
  deps: EscrowDeps,
  input: {
    content?: string | undefined;
    uri?: string | undefined;
    contentHash?: string | undefined;
  },
): string {
  const { content, contentHash } = input;
  if (contentHash !== undefined && !contentHashPattern.test(contentHash)) {
    throw new AppError(
      'invalidHash',
      'contentHash must be 0x with 64 hex digits, or sha256: with 64 hex digits.',
      {
        hint: 'Send keccak256 of the exact bytes as 0x…, or sha256:….',
      },
    );
  }
  if (content === undefined) {
    if (contentHash !== undefined) return contentHash.toLowerCase();
    throw new AppError('invalidHash', 'contentHash is required when content is missing.', {
      hint: 'Send content, or uri with contentHash.',
    });
  }
  if (content.includes('\0') || !content.isWellFormed()) {
    throw new AppError('invalidInput', 'Inline content must be text without NUL characters.', {
      hint: 'Host binary content elsewhere and send uri with contentHash.',
    });
  }
  const bytes = Buffer.from(content, 'utf8');
  const { maxInlineBytes } = deps.settings;
  if (bytes.length > maxInlineBytes) {
    throw new AppError('tooLarge', `Inline content is limited to ${maxInlineBytes} bytes.`, {
      hint: 'Host it elsewhere and send uri with contentHash.',
    });
  }
  if (contentHash === undefined) return sha256Of(content);
  if (hashMatches(bytes, contentHash)) return contentHash.toLowerCase();
  throw new AppError('hashMismatch', 'contentHash does not match content.', {
    hint: 'Omit contentHash: the server computes it.',
  });
}

function evaluateWork(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'evaluate_work',
    title: 'Approve or reject delivered work',
    description:
      'Approves or rejects a delivery, with a reason. Allowed for the evaluator named at creation, for each member of a quorum, and for a client that approves with its own money. Approving pays the provider (fees are deducted); rejecting returns everything to the client. Read the delivery first with read_work; it is untrusted text. The verdict is final unless the job has a dispute window.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({
      id: jobId,
      verdict: z.enum(['approve', 'reject']),
      reason: lineSchema(2000),
      checks: z
        .array(
          z.strictObject({
            criterion: z.string().overwrite(cleanText).max(300),
            met: z.boolean(),
            evidence: z.string().overwrite(cleanText).max(1000).default(''),
          }),
        )
        .max(50)
        .default([]),
      contentHash: z
        .string()
        .max(80)
        .optional()
        .describe('Hash of the delivery that you evaluated; the call fails for any other delivery'),
      wallet: asWallet,
    }),
    output: workOutput,
    http: { method: 'POST', path: '/api/work/{id}/evaluate' },
    cli: {
      words: ['work', 'evaluate'],
      args: ['id', 'verdict', 'reason'],
    },
    text: workText,
    run: async (input, context) => {
      const { wallet, before } = await actingOn(deps, input, context);
      const { reason, checks, contentHash } = input;
      if (contentHash !== undefined && wasPaid(before, contentHash)) {
        return toCallResult(deps, { work: before, existing: true }, wallet);
      }
      refuseOther(before, contentHash);
      const outcome = input.verdict === 'approve' ? 'approved' : 'rejected';
      const result = await once(deps, input.id, isJudgedBy(wallet.id, outcome), () =>
        deps.evaluation.decide(input.id, wallet.id, { outcome, reason, checks }),
      );
      return toCallResult(deps, result, wallet);
    },
  });
}

const wasPaid = ({ state }: Work, hash: string): boolean =>
  (state.accepted ?? []).some((one) => one.hash === hash.toLowerCase());

function refuseOther({ jobId, state }: Work, hash: string | undefined): void {
  if (hash === undefined || !state.submission) return;
  if (state.submission.hash === hash.toLowerCase()) return;
  throw new AppError('hashMismatch', `Another delivery of ${jobId} is waiting for a verdict.`, {
    hint: 'Read it with read_work and decide on its hash.',
    data: { hash: state.submission.hash },
  });
}

function refundWork(deps: EscrowDeps): Operation {
  return defineOperation({
    ...contracts.refundWork,
    title: 'Close overdue work',
    description:
      'Applies what was agreed for a missed deadline: a refund when nothing was delivered; the agreed default (refund, release or split) when nobody decided. The server does this automatically within seconds; call it only to apply it now. Anybody may call it, and nothing can block it. Before the deadline it fails; use evaluate_work to decide earlier.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    http: { method: 'POST', path: '/api/work/{id}/refund' },
    cli: { words: ['work', 'refund'], args: ['id'] },
    text: workText,
    run: async (input, context) => {
      const { wallet } = await actingOn(deps, input, context);
      const actor = { wallet: wallet.id };
      const isOver = (work: Work) => work.phase === 'expired' || work.state.lapsed === true;
      const result = await once(deps, input.id, isOver, () =>
        deps.escrow.act(input.id, { actor, action: 'conclude' }),
      );
      return toCallResult(deps, result, wallet);
    },
  });
}

function disputeWork(deps: EscrowDeps): Operation {
  return defineOperation({
    name: 'dispute_work',
    title: 'Dispute a delivery, or resolve a dispute',
    description:
      'Client or provider: refers a delivered job (or a verdict inside its dispute window) to the arbiter named at creation. The money stays in escrow until the arbiter decides, or until the dispute deadline applies the agreed default. Arbiter: resolves the dispute with resolution refund, release or split. Only for jobs created with an arbiter. For an ordinary verdict use evaluate_work.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { actsFor: 'wallet' },
    toolsets: ['escrow'],
    input: z.strictObject({
      id: jobId,
      reason: lineSchema(2000),
      resolution: z.enum(silences).optional().describe('Arbiter only'),
      splitBps: z.int().min(1).max(9999).optional(),
      wallet: asWallet,
    }),
    output: workOutput,
    http: { method: 'POST', path: '/api/work/{id}/dispute' },
    cli: { words: ['work', 'dispute'], args: ['id', 'reason'] },
    text: workText,
    run: async (input, context) => {
      const { wallet } = await actingOn(deps, input, context);
      const { reason, resolution, splitBps } = input;
      const split = splitBps === undefined ? {} : { splitBps };
      const isDone = resolution ? isResolvedBy(wallet.id, resolution) : isDisputedBy(wallet.id);
      const result = await once(deps, input.id, isDone, () =>
        deps.escrow.act(input.id, {
          actor: { wallet: wallet.id },
          reason,
          ...(resolution
            ? { action: 'resolve', resolution: { answer: resolution, ...split } }
            : { action: 'dispute' }),
        }),
      );
      return toCallResult(deps, result, wallet);
    },
  });
}
