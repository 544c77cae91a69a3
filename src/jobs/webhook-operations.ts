// Webhooks as people manage them: subscribe, see what was delivered, send again.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, isLimited, type Caller, type Operation } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';
import { unknownJob } from './dependencies.ts';
import type { Jobs } from './jobs.ts';
import { jobId } from './operation-needs.ts';
import { isOwn, isParty } from './view.ts';
import type { Webhooks } from './webhooks.ts';
import type { Delivery, Webhook } from './webhook.ts';

const eventTypes = [
  '*',
  'submitted',
  'dependencyMet',
  'started',
  'progress',
  'inputRequired',
  'inputReceived',
  'cancelRequested',
  'attemptFailed',
  'attemptLost',
  'snoozed',
  'retried',
  'completed',
  'failed',
  'cancelled',
  'timedOut',
  'pinned',
  'unpinned',
] as const;

const webhookView = z.object({
  id: z.string(),
  url: z.string(),
  events: z.array(z.string()),
  jobId: z.string().optional(),
  createdAt: z.string(),
});
const deliveryView = z.object({
  id: z.string(),
  jobId: z.string(),
  event: z.string(),
  status: z.enum(['pending', 'delivered', 'failed']),
  tries: z.number(),
  answer: z.string().optional(),
  createdAt: z.string(),
  nextAt: z.string().optional(),
  deliveredAt: z.string().optional(),
});
const hookId = z.string().regex(/^hook_[0-9a-z]{16}$/, 'not a webhook id');

interface Needs {
  webhooks: Webhooks;
  jobs: Jobs;
}

export function webhookOperations(webhooks: Webhooks, jobs: Jobs): Operation[] {
  const needs = { webhooks, jobs };
  return [
    createWebhook(needs),
    listWebhooks(needs),
    deleteWebhook(needs),
    listDeliveries(needs),
    replayDelivery(needs),
  ];
}

function createWebhook({ webhooks, jobs }: Needs): Operation {
  return defineOperation({
    name: 'create_webhook',
    title: 'Create webhook',
    description:
      'Calls a URL with a signed POST (Standard Webhooks headers) whenever one of your jobs, or one given job, has one of these events. Use it to be told by push; to wait inside a call use wait_for_jobs. The answer holds the secret for checking signatures. Private addresses are refused unless egress.allow names them.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ jobId: id }) => [id ?? refuseAllJobs()] },
    toolsets: ['jobs'],
    input: z.strictObject({
      url: z.url().max(2000),
      events: z
        .array(z.enum(eventTypes))
        .min(1)
        .default(['completed', 'failed', 'cancelled', 'timedOut']),
      jobId: jobId.optional().describe('Only this job'),
    }),
    output: webhookView.extend({ secret: z.string() }),
    http: { method: 'POST', path: '/api/webhooks' },
    cli: { words: ['webhook', 'create'], args: ['url'] },
    run: async (input, { caller }) => {
      const { url, events } = input;
      await refuseForeign(input.jobId, caller!, jobs);
      const hook = await webhooks.create({
        owner: caller!.owner,
        url,
        events,
        ...(input.jobId === undefined ? {} : { jobId: input.jobId }),
      });
      return { ...show(hook), secret: webhooks.secret(hook.id) };
    },
  });
}

function listWebhooks({ webhooks, jobs }: Needs): Operation {
  return defineOperation({
    name: 'list_webhooks',
    title: 'List webhooks',
    description:
      'Shows your webhooks with their URLs and events, without secrets. Use it to find the id for list_deliveries or delete_webhook. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    toolsets: ['jobs'],
    input: z.object({}),
    output: z.object({ webhooks: z.array(webhookView) }),
    http: { method: 'GET', path: '/api/webhooks' },
    cli: {
      words: ['webhook', 'list'],
      table: { rows: 'webhooks', columns: ['id', 'url', 'events', 'jobId', 'createdAt'] },
    },
    run: async (_input, { caller }) => {
      const found = await webhooks.list(caller!.admin ? undefined : caller!.owner);
      const mine = await Promise.all(found.map((hook) => mayUse(hook, caller!, jobs)));
      return { webhooks: found.filter((_, i) => mine[i]).map(show) };
    },
  });
}

function deleteWebhook({ webhooks, jobs }: Needs): Operation {
  return defineOperation({
    name: 'delete_webhook',
    title: 'Delete webhook',
    description:
      'Ends a webhook, for when nobody listens any more; what was not delivered yet is given up. Jobs are not touched. list_webhooks shows the ids.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => jobsOfHook(webhooks, id) },
    toolsets: ['jobs'],
    input: z.object({ id: hookId }),
    output: z.object({ deleted: z.string() }),
    http: { method: 'DELETE', path: '/api/webhooks/{id}' },
    cli: { words: ['webhook', 'delete'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      await ownHook({ webhooks, jobs }, id, caller!);
      await webhooks.remove(id);
      return { deleted: id };
    },
  });
}

function listDeliveries({ webhooks, jobs }: Needs): Operation {
  return defineOperation({
    name: 'list_deliveries',
    title: 'List deliveries',
    description:
      'Shows what one webhook was sent, newest first: event, job, tries, what the receiver answered, when it is tried again. Use it when a receiver missed something; replay_delivery sends one again. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => jobsOfHook(webhooks, id) },
    toolsets: ['jobs'],
    input: z.object({
      id: hookId,
      limit: z.number().int().min(1).max(200).default(50),
      cursor: z
        .string()
        .regex(/^\d{1,16}$/)
        .optional(),
    }),
    output: z.object({ deliveries: z.array(deliveryView), nextCursor: z.string().optional() }),
    http: { method: 'GET', path: '/api/webhooks/{id}/deliveries' },
    cli: {
      words: ['webhook', 'deliveries'],
      args: ['id'],
      table: {
        rows: 'deliveries',
        columns: ['id', 'event', 'status', 'tries', 'answer', 'createdAt'],
      },
    },
    run: async (input, { caller }) => {
      await ownHook({ webhooks, jobs }, input.id, caller!);
      const before = input.cursor === undefined ? undefined : Number(input.cursor);
      const found = await webhooks.deliveries(input.id, input.limit, before);
      return {
        deliveries: found.deliveries.map(showDelivery),
        ...(found.next === undefined ? {} : { nextCursor: String(found.next) }),
      };
    },
  });
}

function replayDelivery({ webhooks, jobs }: Needs): Operation {
  return defineOperation({
    name: 'replay_delivery',
    title: 'Replay delivery',
    description:
      'Sends one delivery of a webhook again now, with the same id and body, whatever became of it before. Use it once the receiver works again; list_deliveries shows the ids.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ id }) => jobsOfDelivery(webhooks, id) },
    toolsets: ['jobs'],
    input: z.object({ id: z.string().regex(/^msg_\w{1,80}$/, 'not a delivery id') }),
    output: deliveryView,
    http: { method: 'POST', path: '/api/deliveries/{id}/replay' },
    cli: { words: ['webhook', 'replay'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      const delivery = await webhooks.findDelivery(id);
      if (!delivery) throw unknownDelivery(id);
      await ownHook({ webhooks, jobs }, delivery.webhookId, caller!);
      return showDelivery(await webhooks.replay(id));
    },
  });
}

async function ownHook({ webhooks, jobs }: Needs, id: string, caller: Caller): Promise<Webhook> {
  const hook = await webhooks.find(id);
  if (hook && (await mayUse(hook, caller, jobs))) return hook;
  throw unknownHook(id);
}

function unknownHook(id: string): AppError {
  return new AppError('notFound', `There is no webhook ${id}.`, {
    hint: 'list_webhooks shows yours.',
  });
}

const unknownDelivery = (id: string): AppError =>
  new AppError('notFound', `There is no delivery ${id}.`);

/** A webhook of all jobs is unknown to a limited key. */
async function jobsOfHook(webhooks: Webhooks, id: string): Promise<string[]> {
  const hook = await webhooks.find(id);
  if (!hook || hook.jobId === null) throw unknownHook(id);
  return [hook.jobId];
}

async function jobsOfDelivery(webhooks: Webhooks, id: string): Promise<string[]> {
  const delivery = await webhooks.findDelivery(id);
  const hook = delivery && (await webhooks.find(delivery.webhookId));
  if (!hook || hook.jobId === null) throw unknownDelivery(id);
  return [hook.jobId];
}

/** Everybody who may read the job may hear of it. */
async function refuseForeign(id: string | undefined, caller: Caller, jobs: Jobs): Promise<void> {
  if (id === undefined) return;
  const job = await jobs.get(id);
  if (!(await isParty(jobs, job, caller))) throw unknownJob(id);
}

function refuseAllJobs(): never {
  throw new AppError('forbidden', 'This key is limited: it may not hear of all jobs.', {
    hint: 'Name one job with jobId; a wallet has a webhook of its own (set_wallet_webhook).',
  });
}

async function mayUse(hook: Webhook, caller: Caller, jobs: Jobs): Promise<boolean> {
  if (!caller.admin && hook.owner !== caller.owner) return false;
  if (!isLimited(caller)) return true;
  const job = hook.jobId === null ? undefined : await jobs.ledger.find(hook.jobId);
  return job !== undefined && isOwn(jobs, job, caller);
}

function show(hook: Webhook): z.infer<typeof webhookView> {
  return {
    id: hook.id,
    url: hook.url,
    events: hook.events,
    ...(hook.jobId === null ? {} : { jobId: hook.jobId }),
    createdAt: isoTime(hook.createdAt),
  };
}

function showDelivery(delivery: Delivery): z.infer<typeof deliveryView> {
  return {
    id: delivery.id,
    jobId: delivery.jobId,
    event: delivery.event,
    status: delivery.status,
    tries: delivery.tries,
    ...(delivery.answer === null ? {} : { answer: delivery.answer }),
    createdAt: isoTime(delivery.createdAt),
    ...(delivery.status === 'pending' ? { nextAt: isoTime(delivery.nextAt) } : {}),
    ...(delivery.deliveredAt === null ? {} : { deliveredAt: isoTime(delivery.deliveredAt) }),
  };
}
