// The operations on webhooks: subscribe, list, delete, and inspect or replay deliveries.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, isLimited, type Caller, type Operation } from '../operation.ts';
import { fitItems, omitted } from '../runtime/response-budget.ts';
import { isoTime } from '../runtime/clock.ts';
import { unknownJob } from '../jobs/dependencies.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { jobId } from '../contracts/jobs.ts';
import { endReceiver } from '../contracts/webhooks.ts';
import { isParty } from '../jobs/view.ts';
import type { Webhooks } from './webhooks.ts';
import { webhookKeyOf, type Delivery, type Webhook } from './rows.ts';

const eventTypes = [
  '*',
  'submitted',
  'dependencyMet',
  'started',
  'progress',
  'input_required',
  'inputReceived',
  'cancelRequested',
  'attemptFailed',
  'attemptLost',
  'snoozed',
  'retried',
  'completed',
  'failed',
  'cancelled',
  'timed_out',
  'pinned',
  'unpinned',
] as const;

/** Former spellings, still accepted but no longer listed. */
const formerEventTypes = new Map<unknown, string>([
  ['timedOut', 'timed_out'],
  ['inputRequired', 'input_required'],
]);

const eventType = z.preprocess((given) => formerEventTypes.get(given) ?? given, z.enum(eventTypes));

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

interface WebhookOperationsDeps {
  webhooks: Webhooks;
  jobs: Jobs;
}

export function webhookOperations(webhooks: Webhooks, jobs: Jobs): Operation[] {
  const deps = { webhooks, jobs };
  return [
    createWebhook(deps),
    listWebhooks(deps),
    deleteWebhook(deps),
    listDeliveries(deps),
    replayDelivery(deps),
  ];
}

function createWebhook({ webhooks, jobs }: WebhookOperationsDeps): Operation {
  return defineOperation({
    name: 'create_webhook',
    title: 'Create webhook',
    description:
      'Subscribes a URL to events of all your jobs or of one job. Each event is sent as a signed POST (Standard Webhooks headers). Use it for push notifications (`notify` shows them on the desktop of the server); to wait within a call use wait_for_jobs. Returns the secret that verifies the signatures. Private addresses are refused unless egress.allow lists them.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ jobId: id }) => [id ?? refuseAllJobs()] },
    toolsets: ['jobs'],
    input: z.strictObject({
      url: endReceiver.describe(
        'http(s) URL; or notify (desktop notification), or run:NAME (a command of the settings)',
      ),
      events: z.array(eventType).min(1).default(['completed', 'failed', 'cancelled', 'timed_out']),
      jobId: jobId.optional().describe('Only events of this job'),
    }),
    output: webhookView.extend({ secret: z.string() }),
    http: { method: 'POST', path: '/api/webhooks' },
    cli: { words: ['webhook', 'create'], args: ['url'] },
    run: async (input, { caller }) => {
      const { url, events } = input;
      await refuseUnreadableJob(input.jobId, caller!, jobs);
      const hook = await webhooks.create({
        owner: caller!.owner,
        url,
        allowsActions: true,
        events: [...new Set(events)],
        ...(input.jobId === undefined ? {} : { jobId: input.jobId }),
        ...webhookKeyOf(caller!),
      });
      return { ...toWebhookView(hook), secret: webhooks.secret(hook.id) };
    },
  });
}

function listWebhooks({ webhooks, jobs }: WebhookOperationsDeps): Operation {
  return defineOperation({
    name: 'list_webhooks',
    title: 'List webhooks',
    description:
      'Lists your webhooks with their URLs and events, without secrets. Use it to find the id for list_deliveries or delete_webhook. Changes nothing.',
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
      return { webhooks: found.filter((_, i) => mine[i]).map(toWebhookView) };
    },
  });
}

function deleteWebhook({ webhooks, jobs }: WebhookOperationsDeps): Operation {
  return defineOperation({
    name: 'delete_webhook',
    title: 'Delete webhook',
    description:
      'Deletes a webhook. Use it when the receiver no longer exists. Pending deliveries are cancelled; jobs are not affected. list_webhooks shows the ids.',
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
      await findOwnHook({ webhooks, jobs }, id, caller!);
      await webhooks.remove(id);
      return { deleted: id };
    },
  });
}

function listDeliveries({ webhooks, jobs }: WebhookOperationsDeps): Operation {
  return defineOperation({
    name: 'list_deliveries',
    title: 'List deliveries',
    description:
      'Lists the deliveries of one webhook, newest first: event, job, number of tries, the response of the receiver and the time of the next try. Use it when a receiver missed an event; replay_delivery sends one again. Changes nothing.',
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
    output: z.object({
      deliveries: z.array(deliveryView),
      nextCursor: z.string().optional(),
      omitted: omitted.optional(),
    }),
    pages: true,
    http: { method: 'GET', path: '/api/webhooks/{id}/deliveries' },
    cli: {
      words: ['webhook', 'deliveries'],
      args: ['id'],
      table: {
        rows: 'deliveries',
        columns: ['id', 'event', 'status', 'tries', 'answer', 'createdAt'],
      },
    },
    run: async (input, { caller, maxResponseBytes }) => {
      await findOwnHook({ webhooks, jobs }, input.id, caller!);
      const before = input.cursor === undefined ? undefined : Number(input.cursor);
      const found = await webhooks.deliveries(input.id, input.limit, before);
      const views = found.deliveries.map(toDeliveryView);
      const { shown, ...left } = fitItems(views, maxResponseBytes);
      const next = shown.length < views.length ? found.cursors[shown.length - 1] : found.next;
      return {
        deliveries: shown,
        ...(next === undefined ? {} : { nextCursor: String(next) }),
        ...left,
      };
    },
  });
}

function replayDelivery({ webhooks, jobs }: WebhookOperationsDeps): Operation {
  return defineOperation({
    name: 'replay_delivery',
    title: 'Replay delivery',
    description:
      'Sends one webhook delivery again now, with the same id and body, whether it succeeded before or not. Use it when the receiver works again; list_deliveries shows the ids.',
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
      await findOwnHook({ webhooks, jobs }, delivery.webhookId, caller!);
      return toDeliveryView(await webhooks.replay(id));
    },
  });
}

async function findOwnHook(
  { webhooks, jobs }: WebhookOperationsDeps,
  id: string,
  caller: Caller,
): Promise<Webhook> {
  const hook = await webhooks.find(id);
  if (hook && (await mayUse(hook, caller, jobs))) return hook;
  throw unknownHook(id);
}

function unknownHook(id: string): AppError {
  return new AppError('notFound', `Webhook ${id} does not exist.`, {
    hint: 'list_webhooks shows your webhooks.',
  });
}

const unknownDelivery = (id: string): AppError =>
  new AppError('notFound', `Delivery ${id} does not exist.`);

/** A limited key cannot see webhooks for all jobs. */
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

/** Everyone who may read the job may subscribe to it. */
async function refuseUnreadableJob(
  id: string | undefined,
  caller: Caller,
  jobs: Jobs,
): Promise<void> {
  if (id === undefined) return;
  const job = await jobs.get(id);
  if (!(await isParty(jobs, job, caller))) throw unknownJob(id);
}

function refuseAllJobs(): never {
  throw new AppError('forbidden', 'A limited key cannot subscribe to all jobs.', {
    hint: 'Set jobId to subscribe to one job. For a wallet use set_wallet_webhook.',
  });
}

async function mayUse(hook: Webhook, caller: Caller, jobs: Jobs): Promise<boolean> {
  if (!caller.admin && hook.owner !== caller.owner) return false;
  if (!isLimited(caller)) return true;
  const job = hook.jobId === null ? undefined : await jobs.ledger.find(hook.jobId);
  return job !== undefined && isParty(jobs, job, caller);
}

function toWebhookView(hook: Webhook): z.infer<typeof webhookView> {
  return {
    id: hook.id,
    url: hook.url,
    events: hook.events,
    ...(hook.jobId === null ? {} : { jobId: hook.jobId }),
    createdAt: isoTime(hook.createdAt),
  };
}

function toDeliveryView(delivery: Delivery): z.infer<typeof deliveryView> {
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
