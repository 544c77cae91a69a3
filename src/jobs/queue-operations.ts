// Queues as people see them: what waits, what runs, how many at once, paused or not.
import { z } from 'zod';
import { defineOperation, type Caller, type Operation } from '../operation.ts';
import { partScope } from '../store/store.ts';
import { counterScope } from './intents.ts';
import { finalStatuses } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { QueueRow } from './ledger.ts';
import { queueName } from './operation-needs.ts';
import { boundKinds, queueOf } from './limits.ts';

const queueView = z.object({
  kind: z.string(),
  name: z.string(),
  paused: z.boolean(),
  concurrencyMax: z.number().nullable(),
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
      'Shows queues and what is in them: how many jobs wait, run and ended, how many run at once, whether a queue is paused. Admin keys see all; others the queues they use, with the numbers of their own jobs. Use it to see why jobs wait; for the jobs themselves use list_jobs with queue. Changes nothing; set_queue changes limits.',
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
        columns: ['kind', 'name', 'queued', 'running', 'ended', 'concurrencyMax', 'paused'],
      },
    },
    run: async ({ kind: wanted }, { caller }) => {
      if (wanted !== undefined) jobs.kind(wanted);
      const rows = (await jobs.ledger.queues(wanted)).filter((row) => reaches(jobs, row, caller!));
      const views = await Promise.all(rows.map((row) => show(row, jobs, caller!)));
      return { queues: views.filter((view) => isKnown(view, caller!)) };
    },
  });
}

function setQueue(jobs: Jobs, wake: () => void): Operation {
  return defineOperation({
    name: 'set_queue',
    title: 'Set queue',
    description:
      'Changes a queue: how many of its jobs run at once (null: no limit of its own), and whether it is paused (running jobs go on, waiting ones wait). Use it to hold work back or to let more run. Makes the queue if there is none. list_queues shows the effect; to stop single jobs use cancel_job.',
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: { kind: ({ kind }) => kind, queue: ({ name }) => name },
    toolsets: ['jobs'],
    input: z.object({
      name: queueName,
      kind: z.string().max(40).default('command').describe('Whose jobs wait in it'),
      concurrencyMax: z
        .number()
        .int()
        .min(1)
        .max(100_000)
        .nullable()
        .optional()
        .describe('So many at once; null: no limit of its own'),
      paused: z.boolean().optional().describe('Nothing starts until it is false again'),
    }),
    output: queueView,
    http: { method: 'PUT', path: '/api/queues/{kind}/{name}' },
    cli: { words: ['queue', 'set'], args: ['name'] },
    run: async ({ name, kind, ...settings }, { caller }) => {
      jobs.kind(kind);
      await jobs.setQueue(kind, name, {
        ...(settings.concurrencyMax === undefined
          ? {}
          : { concurrencyMax: settings.concurrencyMax }),
        ...(settings.paused === undefined ? {} : { paused: settings.paused }),
      });
      wake();
      const row = (await jobs.ledger.queues(kind)).find((queue) => queue.name === name)!;
      return show(row, jobs, caller!);
    },
  });
}

/** Of what a key is bound to only where that has a queue of its own: else the counts would be about more. */
function reaches(jobs: Jobs, { kind, name }: QueueRow, caller: Caller): boolean {
  const { kinds, queues, subject } = caller;
  if (kinds && !kinds.includes(kind)) return false;
  if (queues && !queues.includes(name)) return false;
  if (subject === undefined) return true;
  return boundKinds(jobs, subject).includes(kind) && queueOf(jobs, subject) === name;
}

type QueueView = z.infer<typeof queueView>;

async function show(row: QueueRow, jobs: Jobs, caller: Caller): Promise<QueueView> {
  const { kind, name } = row;
  const scope = counterScope(kind, name);
  // Of a queue that others use too, a key that is not admin may know its owner's jobs.
  const counts = await jobs.store.counters(caller.admin ? scope : partScope(scope, caller.owner));
  const sum = (...keys: string[]) => keys.reduce((total, key) => total + (counts[key] ?? 0), 0);
  return {
    ...row,
    queued: sum('queued'),
    running: sum('running', 'input_required'),
    ended: sum(...finalStatuses),
  };
}

/** The name of a queue is nobody's business but of those who use it, or whose key names it. */
const isKnown = ({ name, queued, running, ended }: QueueView, caller: Caller): boolean =>
  caller.admin || queued + running + ended > 0 || caller.queues?.includes(name) === true;
