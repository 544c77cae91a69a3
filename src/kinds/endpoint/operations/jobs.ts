// Operations on jobs of an endpoint: run, look, wait, stream. The plain ones (`*_endpoint_job`) are what dialects are made
// of and are no tools; run_endpoint is the one for agents.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { isOwn, jobView, viewJob } from '../../../jobs/view.ts';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { endpointJob, ownEndpointJob, statusJob, type Desk } from '../desk.ts';
import type { RunWish } from '../intake.ts';
import { endpointId } from '../spec.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { endpointJobView, listed, viewEndpointJob, type EndpointJobView } from './job-view.ts';
import { withPresent } from './present.ts';
import { waitFor, waitMsMax } from './waits.ts';
import { ofEndpoint } from './reach.ts';

const day = 86_400_000;
const agentWaitMsMax = 50_000;

export const runFields = {
  input: z.unknown().describe('What the handler gets as job.input: any JSON'),
  webhook: z.url().max(2000).optional().describe('Called with the job when it is over'),
  s3Config: z.record(z.string(), z.unknown()).optional().describe('Passed on to the worker'),
  executionTimeoutMs: z
    .number()
    .int()
    .min(5000)
    .max(7 * day)
    .optional(),
  ttlMs: z
    .number()
    .int()
    .min(10_000)
    .max(7 * day)
    .optional()
    .describe('Life from now, waiting and running'),
  lowPriority: z.boolean().optional().describe('Runs when nothing else waits; starts no worker'),
  idempotencyKey: z.string().min(1).max(200).optional(),
  name: z.string().max(200).optional(),
  tags: z.array(z.string().max(100)).max(20).optional(),
};

/** The tool list is paid for in every conversation: agents get the fields they use. */
const { s3Config: _s3, tags: _tags, ...agentFields } = runFields;

export function jobOperations(desk: Desk): Operation[] {
  return [
    runEndpoint(desk),
    submitJob(desk),
    getEndpointJob(desk),
    listEndpointJobs(desk),
    cancelEndpointJob(desk),
    retryEndpointJob(desk),
  ];
}

function runEndpoint(desk: Desk): Operation {
  return defineOperation({
    name: 'run_endpoint',
    title: 'Run endpoint',
    description:
      'Runs a job on a serverless endpoint: input goes to its handler, on this machine or on the remote it stands for. Answers at once with the job; with waitMs it waits so long for the result first. ' +
      'A job that goes on is followed with wait_for_jobs, stopped with cancel_job. list_endpoints shows which there are; run_batch submits many. The same idempotencyKey never runs twice.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['default', 'endpoints'],
    input: z.object({
      endpointId,
      ...agentFields,
      waitMs: z.number().int().min(0).max(agentWaitMsMax).default(0),
    }),
    output: jobView,
    rareInput: [
      'executionTimeoutMs',
      'webhook',
      's3Config',
      'ttlMs',
      'lowPriority',
      'idempotencyKey',
      'name',
      'tags',
    ],
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/run' },
    cli: { words: ['endpoint', 'run'], args: ['endpointId', 'input'] },
    startsJob: (view) => (isFinal(view.status) ? undefined : view.id),
    run: async ({ endpointId: id, waitMs, ...wish }, { caller, signal }) => {
      const endpoint = await desk.endpoints.get(id, caller);
      const { job } = await desk.intake.submit(endpoint, caller!.owner, runWish(wish));
      const ended = waitMs > 0 ? await waitFor(desk, job.id, waitMs, signal) : undefined;
      return viewJob(desk.jobs, ended ?? (await desk.jobs.get(job.id)), desk.clock.now());
    },
  });
}

function submitJob(desk: Desk): Operation {
  return defineOperation({
    name: 'submit_endpoint_job',
    title: 'Submit endpoint job',
    description:
      'Submits one job to an endpoint and answers its id, with waitMs the whole job once it is over or the time is up. What dialects are made of; agents use run_endpoint.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      ...runFields,
      waitMs: z.number().int().min(0).max(waitMsMax).optional(),
    }),
    output: endpointJobView,
    run: async ({ endpointId: id, waitMs, ...wish }, { caller, signal }) => {
      const endpoint = await desk.endpoints.get(id, caller);
      const { job } = await desk.intake.submit(endpoint, caller!.owner, runWish(wish));
      const ended = waitMs ? await waitFor(desk, job.id, waitMs, signal) : job;
      return viewEndpointJob(desk, ended ?? (await desk.jobs.get(job.id)));
    },
  });
}

function getEndpointJob(desk: Desk): Operation {
  return defineOperation({
    name: 'get_endpoint_job',
    title: 'Get endpoint job',
    description:
      'Shows one job of one endpoint with its whole output, with waitMs once it is over. What dialects are made of; agents use get_job and wait_for_jobs.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      id: jobId,
      waitMs: z.number().int().min(0).max(waitMsMax).optional(),
      ttlMs: z
        .number()
        .int()
        .min(10_000)
        .max(7 * day)
        .optional(),
      includeInput: z.boolean().optional(),
    }),
    output: endpointJobView,
    run: async ({ waitMs, ttlMs, includeInput, ...wish }, { caller, signal }) => {
      let job = await (includeInput ? endpointJob : statusJob)(desk, wish, caller);
      if (ttlMs !== undefined) job = await setTtl(desk, job.id, ttlMs);
      if (waitMs && !isFinal(job.status))
        job = (await waitFor(desk, job.id, waitMs, signal)) ?? (await desk.jobs.get(job.id));
      return viewEndpointJob(desk, job, includeInput);
    },
  });
}

function listEndpointJobs(desk: Desk): Operation {
  return defineOperation({
    name: 'list_endpoint_jobs',
    title: 'List endpoint jobs',
    description:
      'Lists jobs of one endpoint, newest first, with their states and times but without output; or finds the one with an idempotency key. What dialects are made of; agents use list_jobs.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      limit: z.number().int().min(1).max(200).default(50),
      cursor: z.number().int().min(0).optional(),
      idempotencyKey: z.string().max(200).optional(),
      retryOf: jobId.optional().describe('With a key: this job, if it was retried with that key'),
    }),
    output: z.object({ jobs: z.array(endpointJobView), next: z.number().optional() }),
    run: async (input, { caller }) => {
      const endpoint = await desk.endpoints.get(input.endpointId, caller);
      if (input.idempotencyKey !== undefined)
        return { jobs: await byKey(desk, { ...input, key: input.idempotencyKey }, caller!) };
      const filter = {
        kinds: ['endpoint'],
        queue: endpoint.id,
        ...(caller!.admin ? {} : { owner: caller!.owner }),
      };
      const before = input.cursor === undefined ? {} : { before: input.cursor };
      const page = await desk.jobs.ledger.list(filter, { limit: input.limit, ...before });
      return {
        jobs: page.jobs.map(listed),
        ...(page.next === undefined ? {} : { next: page.next }),
      };
    },
  });
}

async function byKey(
  desk: Desk,
  wish: { endpointId: string; key: string; retryOf?: string | undefined },
  caller: Caller,
): Promise<EndpointJobView[]> {
  const { endpointId: queue, key, retryOf } = wish;
  const found =
    retryOf === undefined
      ? await desk.jobs.ledger.findByKey(caller.owner, key)
      : await desk.jobs.ledger.find(retryOf);
  if (found?.kind !== 'endpoint' || found.queue !== queue) return [];
  if (!(await isOwn(desk.jobs, found, caller))) return [];
  const isIt = retryOf === undefined || (await desk.store.hasRetry(retryOf, key));
  return isIt ? [listed(found)] : [];
}

function cancelEndpointJob(desk: Desk): Operation {
  return defineOperation({
    name: 'cancel_endpoint_job',
    title: 'Cancel endpoint job',
    description:
      'Cancels one job of one endpoint and answers it as it then is. A job that is over stays as it is. What dialects are made of; agents use cancel_job.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: ofEndpoint,
    input: z.object({ endpointId: z.string().max(100), id: jobId }),
    output: endpointJobView,
    run: async (wish, { caller, signal }) => {
      const job = await ownEndpointJob(desk, wish, caller);
      const told = await desk.jobs.cancel(job.id, caller!.owner);
      const ended = isFinal(told.status) ? told : await waitFor(desk, job.id, 10_000, signal);
      return viewEndpointJob(desk, ended ?? (await desk.jobs.get(job.id)));
    },
  });
}

function retryEndpointJob(desk: Desk): Operation {
  return defineOperation({
    name: 'retry_endpoint_job',
    title: 'Retry endpoint job',
    description:
      'Runs a failed or timed out job of one endpoint again under the same id; the same idempotencyKey never does so twice. What dialects are made of; agents use retry_job.',
    effect: 'write',
    scope: 'run',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      id: jobId,
      idempotencyKey: z.string().min(1).max(200).optional(),
    }),
    output: endpointJobView,
    run: async ({ idempotencyKey: key, ...wish }, { caller }) => {
      const job = await ownEndpointJob(desk, wish, caller);
      const isDone = async () => key !== undefined && (await desk.store.hasRetry(job.id, key));
      if (await isDone()) return viewEndpointJob(desk, job);
      const steps = () =>
        key === undefined ? [] : [desk.store.addRetry(job.id, key, desk.clock.now())];
      try {
        if (job.status !== 'failed' && job.status !== 'timed_out') throw notRetryable(job);
        return viewEndpointJob(desk, await desk.jobs.retry(job.id, caller!.owner, steps));
      } catch (error) {
        // The same call came twice at once, and the other one was first.
        if (await isDone()) return viewEndpointJob(desk, await desk.jobs.get(job.id));
        throw error;
      }
    },
  });
}

function notRetryable({ status }: Job): AppError {
  return new AppError('wrongState', `The job is ${status}; only a failed one can be retried.`, {
    data: { status },
  });
}

function setTtl(desk: Desk, id: string, ttlMs: number): Promise<Job> {
  return desk.jobs.change(id, (job) =>
    isFinal(job.status)
      ? undefined
      : {
          patch: { ttlMs, expiresAt: job.createdAt + ttlMs },
          events: [{ type: 'ttlChanged', data: { ttlMs } }],
          intents: [],
        },
  );
}

function runWish(wish: { [K in keyof RunWish]?: RunWish[K] | undefined }): RunWish {
  return withPresent(wish) as RunWish;
}
