// The operations that look at jobs: one, a list, the history of one.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Caller, type Operation } from '../operation.ts';
import { isoTime } from '../runtime/clock.ts';
import { decodeJsonOr } from '../runtime/json.ts';
import type { EventRow } from '../store/store.ts';
import { isFinal, statuses, type Job } from './job.ts';
import type { Attempt, JobFilter } from './ledger.ts';
import { limitFilter } from './limits.ts';
import { jobId, type JobOperationsNeeds } from './operation-needs.ts';
import {
  isOwn,
  isParty,
  jobLine,
  jobView,
  lineOf,
  viewJob,
  viewPublicJob,
  visibleJob,
} from './view.ts';
import { jobText, pageText } from './text.ts';

const listLimitMax = 200;

export function getJob({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'get_job',
    title: 'Get job',
    description:
      'Shows one job of any kind: status, stage, progress, result or error, attempts, timings, and what its kind adds (exit code, page counts, who must act next). ' +
      'Use it for the state now; to wait for a change use wait_for_jobs, never this in a loop; for what a command printed use read_output; without an id use list_jobs. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    input: z.object({
      id: jobId,
      includeInput: z.boolean().optional().describe('Also show what was submitted'),
      includeAttempts: z.boolean().optional().describe('Also show earlier attempts'),
      includeResult: z.boolean().optional().describe('Show the whole result even when it is large'),
    }),
    output: jobView,
    http: { method: 'GET', path: '/api/jobs/{id}' },
    cli: { words: ['show'], args: ['id'], custom: true },
    text: (view) => jobText(jobs, view),
    run: async (input, { caller }) => {
      const job = await visibleJob(jobs, input.id, caller);
      if (!(await isOwn(jobs, job, caller))) return viewPublicJob(jobs, job, clock.now(), caller);
      const view = await viewJob(jobs, job, clock.now(), caller);
      if (input.includeInput) view.input = job.input;
      if (input.includeResult && job.result !== null) {
        view.result = job.result;
        delete view.resultOmitted;
      }
      if (input.includeAttempts) {
        view.earlierAttempts = (await jobs.ledger.attempts(job.id)).map(attemptView);
      }
      return view;
    },
  });
}

function attemptView({ attempt, status, error, facts, startedAt, finishedAt }: Attempt) {
  const { cancelGraceMs: _grace, ...shown } = facts;
  return {
    number: attempt,
    status,
    ...(error ? { error } : {}),
    facts: shown,
    ...(startedAt === null ? {} : { startedAt: isoTime(startedAt) }),
    ...(finishedAt === null ? {} : { finishedAt: isoTime(finishedAt) }),
  };
}

export function listJobs({ jobs, clock }: JobOperationsNeeds): Operation {
  return defineOperation({
    name: 'list_jobs',
    title: 'List jobs',
    description:
      'Lists jobs of every kind, newest first, one short line each, filtered by status, kind, queue, name, tag, text or time. ' +
      'Use it to find a job whose id you do not have (after a restart, or one another agent started) or to see what runs. With an id use get_job. Changes nothing. Pages with nextCursor.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    toolsets: ['default', 'jobs'],
    input: z.strictObject({
      status: z.array(z.enum(statuses)).optional().describe('Any of these'),
      kind: z.array(z.string().max(40)).optional().describe('command, endpoint, web, escrow'),
      queue: z.string().max(100).optional(),
      name: z.string().max(200).optional().describe('Exact name'),
      tag: z.array(z.string().max(100)).optional().describe('All of these'),
      text: z.string().max(200).optional().describe('Part of the name, input or error'),
      parent: jobId.optional().describe('Children of this job'),
      since: z.iso.datetime({ offset: true }).optional().describe('Created at or after'),
      before: z.iso.datetime({ offset: true }).optional().describe('Created before'),
      limit: z.number().int().min(1).max(listLimitMax).default(20),
      cursor: z.string().max(40).optional().describe('nextCursor of the page before'),
    }),
    output: z.object({ jobs: z.array(jobLine), nextCursor: z.string().optional() }),
    rareInput: ['queue', 'name', 'tag', 'parent', 'since', 'before'],
    http: { method: 'GET', path: '/api/jobs' },
    cli: {
      words: ['list'],
      summary: 'jobs, newest first (--watch: live)',
      about: 'Lists jobs, newest first. An id in the first column can be typed as it is shown.',
      examples: ['errand list --watch', 'errand list --status failed --since 1d'],
      shorts: { limit: 'n', status: 's' },
      table: {
        rows: 'jobs',
        columns: ['id', 'status', 'exitCode', 'createdAt', 'runMs', 'kind', 'name', 'summary'],
        ages: ['createdAt'],
        variable: ['kind'],
      },
    },
    text: pageText,
    run: async (input, { caller }) => {
      for (const kind of input.kind ?? []) jobs.kind(kind);
      const filter: JobFilter = {
        ...(caller!.admin ? {} : { owner: caller!.owner }),
        ...(input.status && input.status.length > 0 ? { statuses: input.status } : {}),
        ...limitFilter(jobs, caller!, input.kind),
        ...(input.queue === undefined ? {} : { queue: input.queue }),
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.tag ? { tags: input.tag } : {}),
        ...(input.text === undefined ? {} : { text: input.text }),
        ...(input.parent === undefined ? {} : { parentId: input.parent }),
        ...(input.since === undefined ? {} : { createdAfter: Date.parse(input.since) }),
        ...(input.before === undefined ? {} : { createdBefore: Date.parse(input.before) }),
      };
      const before = input.cursor === undefined ? {} : { before: cursorNumber(input.cursor) };
      const page = await jobs.ledger.list(filter, { limit: input.limit, ...before });
      const own = await Promise.all(page.jobs.map((job) => isOwn(jobs, job, caller)));
      const now = clock.now();
      return {
        jobs: page.jobs.filter((_, n) => own[n]).map((job) => lineOf(jobs, job, now)),
        ...(page.next === undefined ? {} : { nextCursor: String(page.next) }),
      };
    },
  });
}

const eventView = z.object({
  cursor: z.number(),
  jobId: z.string(),
  n: z.number(),
  type: z.string(),
  at: z.string(),
  data: z.unknown(),
});

export function jobEvents({ jobs, feed }: Pick<JobOperationsNeeds, 'jobs' | 'feed'>): Operation {
  const show = (event: EventRow) => ({
    cursor: event.cursor,
    jobId: event.jobId,
    n: event.n,
    type: event.type,
    at: isoTime(event.at),
    data: decodeJsonOr<Record<string, unknown>>(event.data, { undecodable: true }),
  });
  const shownTo = async (job: Job, caller: Caller | undefined) => {
    const party = await isParty(jobs, job, caller);
    return (event: EventRow) => (party ? show(event) : withoutWords(show(event)));
  };
  return defineOperation({
    name: 'list_events',
    title: 'List events',
    description:
      'Shows the numbered history of one job: submitted, started, progress, ends, retries. Use it to see how a job came to its state; for the state itself use get_job. Changes nothing. Over HTTP with Accept: text/event-stream it follows the job live.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    input: z.object({
      id: jobId,
      after: z.number().int().min(0).default(0).describe('Number of the last event you have'),
      limit: z.number().int().min(1).max(1000).default(100),
      cursor: z.string().max(40).optional(),
    }),
    output: z.object({ events: z.array(eventView) }),
    http: { method: 'GET', path: '/api/jobs/{id}/events' },
    cli: {
      words: ['events'],
      args: ['id'],
      summary: 'what happened to a job, in order',
      about: 'Shows what happened to a job, in order: submitted, started, ended, retried.',
      table: { rows: 'events', columns: ['n', 'at', 'type', 'data'] },
    },
    run: async (input, { caller }) => {
      const shown = await shownTo(await visibleJob(jobs, input.id, caller), caller);
      const after = input.cursor === undefined ? input.after : cursorNumber(input.cursor);
      return { events: (await jobs.ledger.events(input.id, after, input.limit)).map(shown) };
    },
    stream: async function* (input, { caller, signal }) {
      const job = await visibleJob(jobs, input.id, caller);
      const shown = await shownTo(job, caller);
      let n = input.cursor === undefined ? input.after : cursorNumber(input.cursor);
      let wake = () => {};
      const off = await feed.subscribe(() => wake(), job.id);
      signal.addEventListener('abort', () => wake(), { once: true });
      try {
        while (!signal.aborted) {
          const changed = new Promise<void>((resolve) => (wake = resolve));
          // Looked at before its events: an end that comes in between is told in the next turn, not left out.
          const isOver = isFinal((await jobs.get(job.id)).status);
          const events = await jobs.ledger.events(job.id, n, 500);
          for (const event of events) {
            n = event.n;
            yield { event: event.type, data: shown(event), id: String(event.n) };
          }
          if (events.length > 0) continue;
          if (isOver) return;
          await changed;
        }
      } finally {
        off();
      }
    },
  });
}

/** Strangers to a public job see what happened, not what people called it or said about it. */
function withoutWords<E extends { data: Record<string, unknown> }>(event: E): E {
  const { name: _name, reason: _reason, ...data } = event.data;
  return { ...event, data };
}

function cursorNumber(cursor: string): number {
  const n = Number(cursor);
  if (Number.isSafeInteger(n) && n >= 0) return n;
  throw new AppError('invalidInput', 'That is not a cursor of this list.', {
    hint: 'Pass nextCursor as it came.',
  });
}
