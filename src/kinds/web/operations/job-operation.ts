// Operations that are one job each: checked, paid for, submitted, waited for as long as a call may take, answered; and
// answered again later, for who comes back with the job's id (MCP tasks).
import { z } from 'zod';
import { visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type CallContext, type Operation } from '../../../operation.ts';
import { actionInputs, type Action, type ActionInput } from '../actions/inputs.ts';
import type { WebhookWish } from '../crawl/options.ts';
import type { Services } from '../services.ts';
import {
  answerOf,
  common,
  jobFields,
  pendingJob,
  submitAndWait,
  waitMs,
  webJobs,
  type Answer,
} from './run.ts';

type Said = 'name' | 'title' | 'description' | 'rareInput' | 'http' | 'cli' | 'text' | 'content';

export interface JobOperation<A extends Action> extends Pick<Operation<unknown, Answer>, Said> {
  action: A;
  effect?: 'read' | 'write';
  /** The job may be given a name, tags and an idempotency key. */
  named?: boolean;
  /** What can be known to be wrong is said now, not by a failed job. */
  check?(input: ActionInput<A>): void | Promise<unknown>;
  /** An answer that need not be asked for again. */
  known?(input: ActionInput<A>, owner: string): Promise<Answer | undefined>;
  /** Adds to an answer what does not stand in the job, or gives the piece of it that was asked for. */
  shown?(answer: Answer, input: ActionInput<A>, context: CallContext): Answer | Promise<Answer>;
}

interface Asked {
  waitMs: number;
  name?: string;
  tags?: string[];
  idempotencyKey?: string;
  webhook?: WebhookWish;
  labels?: string[];
}

export const answer: z.ZodType<Answer> = z.looseObject(jobFields);

export function jobOperation<A extends Action>(
  services: Services,
  definition: JobOperation<A>,
): Operation {
  const { action, effect = 'read', named, check, known, shown, ...said } = definition;
  const shape = (actionInputs[action] as z.ZodObject).extend({ ...(named ? common : {}), waitMs });
  const complete = async (out: Answer, input: unknown, context: CallContext) =>
    shown ? shown(out, input as ActionInput<A>, context) : out;
  return defineOperation<unknown, Answer>({
    ...said,
    effect,
    openWorld: true,
    scope: 'run',
    reach: webJobs,
    toolsets: ['web'],
    input: shape,
    rareInput: [...(said.rareInput ?? []), ...(named ? Object.keys(common) : []), 'waitMs'],
    output: answer,
    startsJob: pendingJob,
    answerFor: async (id, context) => {
      const job = await visibleJob(services.jobs, id, context.caller);
      return job.kind === 'web' && job.action === action
        ? complete(answerOf(job), job.input, context)
        : undefined;
    },
    run: async (asked, context) => {
      const { waitMs: wait, name, tags, idempotencyKey, webhook, labels, ...rest } = asked as Asked;
      const input = rest as ActionInput<A>;
      await check?.(input);
      const have = await known?.(input, context.caller!.owner);
      if (have) return complete(have, input, context);
      const wish = { action, input: rest, waitMs: wait };
      const job = { ...wish, name, tags, idempotencyKey, webhook, labels };
      return complete(answerOf(await submitAndWait(services, context, job)), input, context);
    },
  });
}
