// Defines operations that run one job: validate, submit, wait, respond. A caller can also fetch the response later by job
// id (MCP tasks).
import { hash } from 'node:crypto';
import type { z } from 'zod';
import { visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type CallContext, type Operation } from '../../../operation.ts';
import { actionInputs, type Action, type ActionInput } from '../jobs/inputs.ts';
import type { WebhookOptions } from '../crawl/options.ts';
import type { JobResponse } from '../contracts.ts';
import type { WebDeps } from '../deps.ts';
import { toResponse, pendingJob, submitAndWait, webJobs } from './run.ts';

type OperationTexts =
  | 'name'
  | 'input'
  | 'output'
  | 'title'
  | 'description'
  | 'rareInput'
  | 'http'
  | 'cli'
  | 'text'
  | 'content'
  | 'pages';

interface JobOperation<A extends Action> extends Pick<
  Operation<unknown, JobResponse>,
  OperationTexts
> {
  action: A;
  effect?: 'read' | 'write';
  /** Rejects invalid input now instead of with a failed job. */
  check?(input: ActionInput<A>): void | Promise<unknown>;
  /** Returns an earlier response that can be reused. */
  cached?(input: ActionInput<A>, owner: string): Promise<JobResponse | undefined>;
  /** Adds data that is not stored in the job, or selects the requested piece. */
  present?(
    response: JobResponse,
    input: ActionInput<A>,
    context: CallContext,
  ): JobResponse | Promise<JobResponse>;
}

interface Asked {
  waitMs: number;
  name?: string;
  tags?: string[];
  idempotencyKey?: string;
  webhook?: WebhookOptions;
  labels?: string[];
}

export function jobOperation<A extends Action>(
  services: WebDeps,
  definition: JobOperation<A>,
): Operation {
  const { action, effect = 'read', check, cached, present, ...texts } = definition;
  const more = Object.keys((definition.input as z.ZodObject).shape).filter(
    (field) => !(field in (actionInputs[action] as z.ZodObject).shape),
  );
  const complete = async (out: JobResponse, input: unknown, context: CallContext) =>
    present ? present(out, input as ActionInput<A>, context) : out;
  return defineOperation<unknown, JobResponse>({
    ...texts,
    effect,
    openWorld: true,
    scope: 'run',
    reach: webJobs,
    toolsets: ['web'],
    rareInput: [...(texts.rareInput ?? []), ...more],
    startsJob: pendingJob,
    outputFor: async (id, context) => {
      const job = await visibleJob(services.jobs, id, context.caller);
      return job.kind === 'web' && job.action === action
        ? complete(toResponse(job), job.input, context)
        : undefined;
    },
    run: async (asked, context) => {
      const {
        waitMs: wait,
        name,
        tags,
        idempotencyKey: key,
        webhook,
        labels,
        ...rest
      } = asked as Asked;
      const input = rest as ActionInput<A>;
      await check?.(input);
      const cachedResponse = await cached?.(input, context.caller!.owner);
      if (cachedResponse) return complete(cachedResponse, input, context);
      const request = { action, input: rest, waitMs: wait };
      const idempotencyKey = key ?? keyOf(context, action, rest);
      const job = { ...request, name, tags, idempotencyKey, webhook, labels };
      return complete(toResponse(await submitAndWait(services, context, job)), input, context);
    },
  });
}

/** A dialect request can start several jobs, so their keys combine the request's key and the input. */
function keyOf({ idempotencyKey: key }: CallContext, ...work: unknown[]): string | undefined {
  if (key === undefined) return undefined;
  return `request:${hash('sha256', JSON.stringify([key, ...work]))}`;
}
