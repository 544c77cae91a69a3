// The operations on queues: list_queues and set_queue.
import { z } from 'zod';
import { defineOperation, type Caller, type Operation } from '../../operation.ts';
import { partScope } from '../../store/store.ts';
import { counterScope } from '../intents.ts';
import { finalStatuses } from '../job.ts';
import type { Jobs } from '../jobs.ts';
import type { QueueRow } from '../ledger.ts';
import { queueName } from '../../contracts/jobs.ts';
import { boundKinds, queueOf } from '../limits.ts';

const queueView = z.object({
  kind: z.string(),
  name: z.string(),
  paused: z.boolean(),
  maxConcurrency: z.number().nullable(),
  queued: z.number(),
  running: z.number(),
  ended: z.number(),
});

export function queueOperations(jobs: Jobs, wake: () => void): Operation[] {
  return [listQueues(jobs), setQueue(jobs, wake)];
}

function listQueues(jobs: Jobs): Operation {
  return defineOperation({
    name: 'list_queues',
    title: 'List queues',
    description:
      'Lists queues with their numbers of queued, running and ended jobs, their concurrency limit and whether they are paused. Admin keys see all queues; other keys see the queues they use, with the numbers of their own jobs. Use it to find out why jobs wait; for the jobs themselves use list_jobs with queue. Changes nothing; set_queue changes limits.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    toolsets: ['jobs'],
    input: z.object({ kind: z.string().max(40).optional() }),
    output: z.object({ queues: z.array(queueView) }),
    http: { method: 'GET', path: '/api/queues' },
    cli: {
      words: ['queue', 'list'],
      table: {
        rows: 'queues',
        columns: ['kind', 'name', 'queued', 'running', 'ended', 'maxConcurrency', 'paused'],
      },
    },
    run: async ({ kind: wanted }, { caller }) => {
      if (wanted !== undefined) jobs.kind(wanted);
      const rows = (await jobs.ledger.queues(wanted)).filter((row) =>
        mayAccess(jobs, row, caller!),
      );
      const views = await Promise.all(rows.map((row) => toQueueView(row, jobs, caller!)));
      return { queues: views.filter((view) => isVisible(view, caller!)) };
    },
  });
}

function setQueue(jobs: Jobs, wake: () => void): Operation {
  return defineOperation({
    name: 'set_queue',
    title: 'Set queue',
    description:
      'Sets how many jobs of a queue run concurrently (null: no queue limit) and whether the queue is paused (running jobs continue, queued jobs do not start). Use it to hold work back or to let more jobs run. Creates the queue if it does not exist. list_queues shows the effect; to stop single jobs use cancel_job.',
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: { kind: ({ kind }) => kind, queue: ({ name }) => name },
    toolsets: ['jobs'],
    input: z.object({
      name: queueName,
      kind: z.string().max(40).default('command').describe('Job kind of the queue'),
      maxConcurrency: z
        .number()
        .int()
        .min(1)
        .max(100_000)
        .nullable()
        .optional()
        .describe('Maximum concurrent jobs; null: no queue limit'),
      paused: z.boolean().optional().describe('true: no job of the queue starts'),
    }),
    output: queueView,
    http: { method: 'PUT', path: '/api/queues/{kind}/{name}' },
    cli: { words: ['queue', 'set'], args: ['name'] },
    run: async ({ name, kind, ...settings }, { caller }) => {
      jobs.kind(kind);
      await jobs.setQueue(kind, name, {
        ...(settings.maxConcurrency === undefined
          ? {}
          : { maxConcurrency: settings.maxConcurrency }),
        ...(settings.paused === undefined ? {} : { paused: settings.paused }),
      });
      wake();
      const row = (await jobs.ledger.queues(kind)).find((queue) => queue.name === name)!;
      return toQueueView(row, jobs, caller!);
    },
  });
}

/** A key with a subject sees only that subject's own queue: the counts of a shared queue would include other jobs. */
function mayAccess(jobs: Jobs, { kind, name }: QueueRow, caller: Caller): boolean {
  const { kinds, queues, subject } = caller;
  if (kinds && !kinds.includes(kind)) return false;
  if (queues && !queues.includes(name)) return false;
  if (subject === undefined) return true;
  return boundKinds(jobs, subject).includes(kind) && queueOf(jobs, subject) === name;
}

type QueueView = z.infer<typeof queueView>;

async function toQueueView(row: QueueRow, jobs: Jobs, caller: Caller): Promise<QueueView> {
  const { kind, name } = row;
  const scope = counterScope(kind, name);
  // Queues can be shared. Keys without admin see only the counts of their owner's jobs.
  const counts = await jobs.store.counters(caller.admin ? scope : partScope(scope, caller.owner));
  const sum = (...keys: string[]) => keys.reduce((total, key) => total + (counts[key] ?? 0), 0);
  return {
    ...row,
    queued: sum('queued'),
    running: sum('running', 'input_required'),
    ended: sum(...finalStatuses),
  };
}

/** Queue names are visible only to callers who use the queue or whose key names it. */
const isVisible = ({ name, queued, running, ended }: QueueView, caller: Caller): boolean =>
  caller.admin || queued + running + ended > 0 || caller.queues?.includes(name) === true;
