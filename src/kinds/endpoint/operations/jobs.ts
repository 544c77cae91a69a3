// Operations on jobs of an endpoint: run, look, wait, stream. The plain ones (`*_endpoint_job`) are what dialects are made
// of and are no tools; run_endpoint is the one for agents.
import { z } from 'zod';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { statuses } from '../../../jobs/job.ts';
import { jobView, viewJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import { endpointJob, ownEndpointJob, statusJob, type Desk } from '../desk.ts';
import type { JobInput, RunWish } from '../intake.ts';
import { delayMs } from '../reports.ts';
import { endpointId } from '../spec.ts';
import { withPresent } from './present.ts';

const day = 86_400_000;
export const jobId = z.string().regex(/^[A-Za-z0-9_-]{1,80}$/, 'not a job id');
const waitMsMax = 300_000;
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

/** A job as dialects need it: every fact, the result wherever it is. */
export const endpointJobView = z.object({
  id: z.string(),
  endpointId: z.string(),
  status: z.enum(statuses),
  output: z.unknown().optional(),
  error: z.looseObject({ code: z.string(), message: z.string() }).optional(),
  delayMs: z.number().optional(),
  executionMs: z.number().optional(),
  retries: z.number(),
  workerId: z.string().optional(),
  input: z.unknown().optional(),
  webhook: z.string().optional(),
  createdAt: z.number(),
  startedAt: z.number().optional(),
  finishedAt: z.number().optional(),
});
export type EndpointJobView = z.infer<typeof endpointJobView>;

export function jobOperations(desk: Desk): Operation[] {
  return [
    runEndpoint(desk),
    submitJob(desk),
    getEndpointJob(desk),
    listEndpointJobs(desk),
    drainStream(desk),
    followStream(desk),
    readResult(desk),
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
      'A job that is still queued or running goes on: follow it with wait_for_jobs or get_job, stop it with cancel_job. list_endpoints shows which endpoints there are; run_batch submits many at once. The same idempotencyKey never runs twice.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    toolsets: ['default', 'endpoints'],
    input: z.object({
      endpointId,
      ...agentFields,
      waitMs: z.number().int().min(0).max(agentWaitMsMax).default(0),
    }),
    output: jobView,
    rareInput: ['webhook', 's3Config', 'ttlMs', 'lowPriority', 'idempotencyKey', 'name', 'tags'],
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
    input: z.object({
      endpointId: z.string().max(100),
      ...runFields,
      sync: z.boolean().optional(),
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
    input: z.object({
      endpointId: z.string().max(100),
      limit: z.number().int().min(1).max(200).default(50),
      cursor: z.number().int().min(0).optional(),
      idempotencyKey: z.string().max(200).optional(),
    }),
    output: z.object({ jobs: z.array(endpointJobView), next: z.number().optional() }),
    run: async (input, { caller }) => {
      const endpoint = await desk.endpoints.get(input.endpointId, caller);
      if (input.idempotencyKey !== undefined) {
        const found = await desk.jobs.ledger.findByKey(caller!.owner, input.idempotencyKey);
        const mine = found && found.queue === endpoint.id && found.kind === 'endpoint';
        return { jobs: mine ? [listed(found)] : [] };
      }
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

function drainStream(desk: Desk): Operation {
  return defineOperation({
    name: 'drain_stream',
    title: 'Drain stream',
    description:
      'Hands out the chunks of a streaming job that were not handed out before, each once; without any it waits up to waitMs for one. follow_stream reads all of them without taking them away.',
    effect: 'write',
    scope: 'read',
    input: z.object({
      endpointId: z.string().max(100),
      id: jobId,
      waitMs: z.number().int().min(0).max(waitMsMax).default(10_000),
    }),
    output: z.object({
      status: z.enum(statuses),
      chunks: z.array(z.unknown()),
      error: z.unknown(),
    }),
    run: async ({ waitMs, ...wish }, { caller, signal }) => {
      await endpointJob(desk, wish, caller);
      const timeUp = AbortSignal.any([signal]);
      const endsAt = desk.clock.now() + waitMs;
      return changes(
        desk,
        wish.id,
        async () => {
          const job = await desk.jobs.get(wish.id);
          const chunks = await desk.streams.drain(job, isFinal(job.status) ? 100_000 : 1000);
          const over = isFinal(job.status) || timeUp.aborted || desk.clock.now() >= endsAt;
          if (chunks.length === 0 && !over) return undefined;
          return { status: job.status, chunks, error: job.error };
        },
        { endsAt, signal },
      );
    },
  });
}

function followStream(desk: Desk): Operation {
  return defineOperation({
    name: 'follow_stream',
    title: 'Follow stream',
    description:
      'Reads the chunks a streaming job has yielded, from a number on, without taking them away; over SSE it goes on until the job is over. For the final result use get_job.',
    effect: 'read',
    scope: 'read',
    toolsets: ['endpoints'],
    input: z.object({
      id: jobId,
      after: z.number().int().min(0).default(0).describe('Number of the last chunk you have'),
      limit: z.number().int().min(1).max(1000).default(100),
      cursor: z.string().max(20).optional(),
    }),
    output: z.object({
      status: z.enum(statuses),
      chunks: z.array(z.object({ n: z.number(), output: z.unknown() })),
    }),
    http: { method: 'GET', path: '/api/jobs/{id}/stream' },
    cli: { words: ['endpoint', 'stream'], args: ['id'] },
    run: async (input, { caller }) => {
      const job = await streamJob(desk, input.id, caller);
      const after = input.cursor === undefined ? input.after : Number(input.cursor);
      return { status: job.status, chunks: await desk.streams.read(job, after, input.limit) };
    },
    stream: async function* (input, { caller, signal }) {
      let n = input.cursor === undefined ? input.after : Number(input.cursor);
      const { id } = await streamJob(desk, input.id, caller);
      while (!signal.aborted) {
        const page = await changes(
          desk,
          id,
          async () => {
            const job = await desk.jobs.get(id);
            const chunks = await desk.streams.read(job, n, 500);
            return chunks.length > 0 || isFinal(job.status) ? { job, chunks } : undefined;
          },
          { endsAt: Infinity, signal },
        );
        if (!page) return;
        for (const chunk of page.chunks) {
          n = chunk.n;
          yield { event: 'chunk', data: chunk, id: String(chunk.n) };
        }
        if (page.chunks.length === 0) return;
      }
    },
  });
}

function readResult(desk: Desk): Operation {
  return defineOperation({
    name: 'read_job_result',
    title: 'Read job result',
    description:
      'Reads the result of an endpoint job as JSON text, in pieces: for results too large for get_job, which are kept as files. Pass nextOffset to go on. For jobs whose result get_job shows, that is simpler.',
    effect: 'read',
    scope: 'read',
    toolsets: ['endpoints'],
    input: z.object({
      id: jobId,
      offset: z.number().int().min(0).default(0).describe('In characters'),
      limit: z.number().int().min(1).max(1_000_000).default(20_000),
    }),
    output: z.object({
      text: z.string(),
      totalChars: z.number(),
      nextOffset: z.number().optional(),
    }),
    http: { method: 'GET', path: '/api/jobs/{id}/result' },
    cli: { words: ['endpoint', 'result'], args: ['id'] },
    run: async ({ id, offset, limit }, { caller }) => {
      const job = await streamJob(desk, id, caller);
      const text = job.facts.resultFile
        ? (desk.results.text(job.attemptId) ?? '')
        : (JSON.stringify(job.result ?? null) ?? '');
      const next = offset + limit;
      return {
        text: text.slice(offset, next),
        totalChars: text.length,
        ...(next < text.length ? { nextOffset: next } : {}),
      };
    },
  });
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
      'Runs a failed, timed out or cancelled job of one endpoint again under the same id. What dialects are made of; agents use retry_job.',
    effect: 'write',
    scope: 'run',
    input: z.object({ endpointId: z.string().max(100), id: jobId }),
    output: endpointJobView,
    run: async (wish, { caller }) => {
      const job = await ownEndpointJob(desk, wish, caller);
      return viewEndpointJob(desk, await desk.jobs.retry(job.id, caller!.owner));
    },
  });
}

export function viewEndpointJob(desk: Desk, job: Job, includeInput = false): EndpointJobView {
  const body = (job.input ?? {}) as Partial<JobInput>;
  const output = isFinal(job.status) ? desk.results.of(job) : job.facts.progressOutput;
  return {
    ...listed(job),
    ...(output === undefined || output === null ? {} : { output }),
    ...(includeInput ? { input: body.input } : {}),
    ...(body.webhook === undefined ? {} : { webhook: body.webhook }),
  };
}

function listed(job: Job): EndpointJobView {
  const delay = delayMs(job);
  const started = job.startedAt !== null;
  return {
    id: job.id,
    endpointId: job.queue,
    status: job.status,
    retries: job.attempt - 1,
    createdAt: job.createdAt,
    ...(job.error ? { error: { ...job.error } } : {}),
    ...(delay === undefined ? {} : { delayMs: delay }),
    ...(started && job.finishedAt !== null
      ? { executionMs: Math.max(job.finishedAt - job.startedAt!, 0) }
      : {}),
    ...(job.holder === null ? {} : { workerId: job.holder }),
    ...(started ? { startedAt: job.startedAt! } : {}),
    ...(job.finishedAt === null ? {} : { finishedAt: job.finishedAt }),
  };
}

/** The job once it is over; undefined when the time was up first. The job goes on either way. */
export async function waitFor(
  desk: Desk,
  id: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<Job | undefined> {
  const stop = new AbortController();
  const off = desk.clock.after(waitMs, () => stop.abort());
  const leave = () => stop.abort();
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await desk.waiting.ended(id, stop.signal);
  } finally {
    off();
    signal.removeEventListener('abort', leave);
  }
}

/** Looks again after every change of the job, until the answer is there or the time is up. */
async function changes<T>(
  desk: Desk,
  jobIdToWatch: string,
  look: () => Promise<T | undefined>,
  limit: { endsAt: number; signal: AbortSignal },
): Promise<T> {
  let wake = new AbortController();
  const off = await desk.feed.subscribe(() => wake.abort(), jobIdToWatch);
  try {
    for (;;) {
      const present = new AbortController();
      wake = present;
      const found = await look();
      if (found !== undefined || limit.signal.aborted) return found as T;
      const leftMs = Math.min(limit.endsAt - desk.clock.now(), 60_000);
      await desk.clock.sleep(leftMs, AbortSignal.any([present.signal, limit.signal]));
    }
  } finally {
    off();
  }
}

async function streamJob(desk: Desk, id: string, caller: Parameters<typeof endpointJob>[2]) {
  const found = await desk.jobs.get(id);
  return endpointJob(desk, { endpointId: found.queue, id }, caller);
}

function setTtl(desk: Desk, id: string, ttlMs: number): Promise<Job> {
  return desk.jobs.change(id, (job) =>
    isFinal(job.status)
      ? undefined
      : {
          patch: { expiresAt: job.createdAt + ttlMs },
          events: [{ type: 'ttlChanged', data: { ttlMs } }],
          intents: [],
        },
  );
}

function runWish(wish: { [K in keyof RunWish]?: RunWish[K] | undefined }): RunWish {
  return withPresent(wish) as RunWish;
}
