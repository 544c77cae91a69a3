// Job operations of an endpoint: run, get, wait, list, cancel, retry. `*_endpoint_job` operations are for dialects
// and are not tools. Agents use run_endpoint.
import { defined } from '../../../runtime/defined.ts';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { briefJob, briefJobSchema } from '../../../jobs/brief-view.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { reportWait, limitWait } from '../../../jobs/wait-progress.ts';
import { jobView, waitField } from '../../../contracts/jobs.ts';
import { isOwn, viewJob } from '../../../jobs/view.ts';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { onDisconnect } from '../../../runtime/disconnect.ts';
import { fitItems } from '../../../runtime/response-budget.ts';
import { endpointJob, ownEndpointJob, statusJob, type EndpointDeps } from '../deps.ts';
import type { RunRequest } from '../jobs/submitter.ts';
import { endpointId } from '../spec.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import * as contracts from '../contracts/jobs.ts';
import { runFields, type EndpointJobView } from '../contracts/jobs.ts';
import { listed, viewEndpointJob } from './job-view.ts';
import { waitFor } from './waits.ts';
import { ofEndpoint } from './reach.ts';

/** Every conversation pays for the tool list, so agents get only the fields they use. */
const { s3Config: _s3, tags: _tags, ...agentFields } = runFields;

export function jobOperations(deps: EndpointDeps): Operation[] {
  return [
    runEndpoint(deps),
    submitJob(deps),
    getEndpointJob(deps),
    listEndpointJobs(deps),
    cancelEndpointJob(deps),
    retryEndpointJob(deps),
  ];
}

function runEndpoint(deps: EndpointDeps): Operation {
  return defineOperation({
    name: 'run_endpoint',
    title: 'Run endpoint',
    description:
      'Runs a job on a serverless endpoint (a deployed handler, such as GPU inference); use it instead of curl or an SDK script. ' +
      'The handler gets `input`, here or on the remote service of the endpoint, where it may cost money. Not for shell commands: use run_command. ' +
      'Returns the job id immediately, or with waitMs the result if it is ready in time. Continue with wait_for_jobs. Stop it with cancel_job. To see the endpoints use list_endpoints. To submit many inputs use run_batch.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['default', 'endpoints'],
    input: z.object({
      endpointId,
      ...agentFields,
      waitMs: waitField('Wait this long for the result').default(0),
    }),
    output: jobView,
    brief: { schema: briefJobSchema, of: (view) => briefJob(deps.jobs, view) },
    rareInput: [
      'executionTimeoutMs',
      'idempotencyKey (same key, same job)',
      'name',
      'webhook (URL for the result)',
    ],
    unlistedInput: ['ttlMs', 'lowPriority'],
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/run' },
    cli: { words: ['endpoint', 'run'], args: ['endpointId', 'input'] },
    startsJob: (view) => (isFinal(view.status) ? undefined : view.id),
    run: async ({ endpointId: id, waitMs: asked, ...input }, context) => {
      const { caller, signal } = context;
      const endpoint = await deps.endpoints.get(id, caller);
      const { job } = await deps.submitter.submit(endpoint, caller!.owner, toRunRequest(input));
      const waitMs = limitWait(asked, context);
      const stopProgress = waitMs > 0 ? reportWait(context, [job.id], deps) : () => {};
      const ended =
        waitMs > 0 ? await waitFor(deps, job.id, waitMs, signal).finally(stopProgress) : undefined;
      return viewJob(deps.jobs, ended ?? (await deps.jobs.get(job.id)), deps.clock.now());
    },
  });
}

function submitJob(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.submitEndpointJob,
    title: 'Submit endpoint job',
    description:
      'Submits one job to an endpoint and returns its id, or with waitMs the whole job when it has ended or the wait times out. For dialects; agents use run_endpoint.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: ofEndpoint,
    run: async ({ endpointId: id, waitMs, connection, ...input }, { caller, signal }) => {
      const endpoint = await deps.endpoints.get(id, caller);
      const owner = caller!.owner;
      const { job, existing } = await deps.submitter.submit(endpoint, owner, toRunRequest(input));
      // An existing job belongs to another caller, who may still wait for it.
      if (!existing && cancelsOnDisconnect(endpoint, connection))
        onDisconnect(signal, () => void deps.jobs.cancel(job.id, owner).catch(() => {}));
      const ended = waitMs ? await waitFor(deps, job.id, waitMs, signal) : job;
      return viewEndpointJob(deps, ended ?? (await deps.jobs.get(job.id)));
    },
  });
}

function getEndpointJob(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.getEndpointJob,
    title: 'Get endpoint job',
    description:
      'Shows one job of one endpoint with its whole output; with waitMs, waits for its end first. For dialects; agents use get_job and wait_for_jobs.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/jobs/{id}' },
    run: async ({ waitMs, ttlMs, includeInput, ...input }, { caller, signal }) => {
      let job = await (includeInput ? endpointJob : statusJob)(deps, input, caller);
      if (ttlMs !== undefined) job = await setTtl(deps, job.id, ttlMs);
      if (waitMs && !isFinal(job.status))
        job = (await waitFor(deps, job.id, waitMs, signal)) ?? (await deps.jobs.get(job.id));
      return viewEndpointJob(deps, job, includeInput);
    },
  });
}

function listEndpointJobs(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listEndpointJobs,
    title: 'List endpoint jobs',
    description:
      'Lists jobs of one endpoint, newest first, with their states and times but without output, or finds the job with an idempotency key. For dialects; agents use list_jobs.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/jobs' },
    pages: true,
    run: async (input, { caller, maxResponseBytes }) => {
      const endpoint = await deps.endpoints.get(input.endpointId, caller);
      if (input.idempotencyKey !== undefined)
        return { jobs: await byKey(deps, { ...input, key: input.idempotencyKey }, caller!) };
      const filter = {
        kinds: ['endpoint'],
        queue: endpoint.id,
        ...(caller!.admin ? {} : { owner: caller!.owner }),
      };
      const before = input.cursor === undefined ? {} : { before: input.cursor };
      const page = await deps.jobs.ledger.list(filter, { limit: input.limit, ...before });
      const { shown, ...left } = fitItems(
        page.jobs.map(listed),
        maxResponseBytes,
        'pass `next` as `cursor`',
      );
      const next = shown.length < page.jobs.length ? page.cursors[shown.length - 1] : page.next;
      return { jobs: shown, ...(next === undefined ? {} : { next }), ...left };
    },
  });
}

async function byKey(
  deps: EndpointDeps,
  input: { endpointId: string; key: string; retryOf?: string | undefined },
  caller: Caller,
): Promise<EndpointJobView[]> {
  const { endpointId: queue, key, retryOf } = input;
  const found =
    retryOf === undefined
      ? await deps.jobs.ledger.findByKey(caller.owner, key)
      : await deps.jobs.ledger.find(retryOf);
  if (found?.kind !== 'endpoint' || found.queue !== queue) return [];
  if (!(await isOwn(deps.jobs, found, caller))) return [];
  const isIt = retryOf === undefined || (await deps.store.hasRetry(retryOf, key));
  return isIt ? [listed(found)] : [];
}

function cancelEndpointJob(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.cancelEndpointJob,
    title: 'Cancel endpoint job',
    description:
      'Cancels one job of one endpoint and returns its new state. An ended job does not change. For dialects; agents use cancel_job.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: ofEndpoint,
    run: async (input, { caller, signal }) => {
      const job = await ownEndpointJob(deps, input, caller);
      const cancelled = await deps.jobs.cancel(job.id, caller!.owner);
      const ended = isFinal(cancelled.status)
        ? cancelled
        : await waitFor(deps, job.id, 10_000, signal);
      return viewEndpointJob(deps, ended ?? (await deps.jobs.get(job.id)));
    },
  });
}

function retryEndpointJob(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.retryEndpointJob,
    title: 'Retry endpoint job',
    description:
      'Runs a failed or timed out job of one endpoint again under the same id. The same idempotencyKey never does so twice. For dialects; agents use retry_job.',
    effect: 'write',
    scope: 'run',
    reach: ofEndpoint,
    run: async ({ idempotencyKey: key, ...input }, { caller }) => {
      const job = await ownEndpointJob(deps, input, caller);
      const isDone = async () => key !== undefined && (await deps.store.hasRetry(job.id, key));
      if (await isDone()) return viewEndpointJob(deps, job);
      const steps = () =>
        key === undefined ? [] : [deps.store.addRetry(job.id, key, deps.clock.now())];
      try {
        if (job.status !== 'failed' && job.status !== 'timed_out') throw notRetryable(job);
        return viewEndpointJob(deps, await deps.jobs.retry(job.id, caller!.owner, steps));
      } catch (error) {
        // A concurrent call with the same key was first.
        if (await isDone()) return viewEndpointJob(deps, await deps.jobs.get(job.id));
        throw error;
      }
    },
  });
}

function cancelsOnDisconnect(
  { spec }: EndpointRow,
  connection: 'stream' | 'request' | undefined,
): boolean {
  if (connection === undefined || spec.cancelOnDisconnect === 'never') return false;
  return connection === 'stream' || spec.cancelOnDisconnect === 'always';
}

function notRetryable({ status }: Job): AppError {
  return new AppError('wrongState', `The job is ${status}. Only failed jobs can be retried.`, {
    data: { status },
  });
}

function setTtl(deps: EndpointDeps, id: string, ttlMs: number): Promise<Job> {
  return deps.jobs.change(id, (job) =>
    isFinal(job.status)
      ? undefined
      : {
          patch: { ttlMs, expiresAt: job.createdAt + ttlMs },
          events: [{ type: 'ttlChanged', data: { ttlMs } }],
          intents: [],
        },
  );
}

function toRunRequest(input: { [K in keyof RunRequest]?: RunRequest[K] | undefined }): RunRequest {
  return defined(input) as RunRequest;
}
