// The operations that read jobs: get_job, list_jobs, list_events.
import { z } from 'zod';
import { defineOperation, type Caller, type Operation } from '../../operation.ts';
import { isoTime } from '../../runtime/clock.ts';
import { decodeRecordOr } from '../../runtime/json.ts';
import { fitItems } from '../../runtime/response-budget.ts';
import type { EventRow } from '../../store/store.ts';
import { isFinal, type Job } from '../job.ts';
import { briefJobSchema, briefLine, briefJobDetails } from '../brief-view.ts';
import type { Attempt } from '../ledger.ts';
import { toJobFilter } from './filter.ts';
import { cursorNumber, listPage } from './list-page.ts';
import type { JobOperationsDeps } from './deps.ts';
import { isOwn, isParty, toJobLine, viewJob, viewPublicJob, visibleJob } from '../view.ts';
import { jobText, pageText } from '../job-text.ts';
import { getJob, listJobs, listEvents } from '../../contracts/jobs.ts';

export function getJobOperation({ jobs, clock }: JobOperationsDeps): Operation {
  return defineOperation({
    ...getJob,
    title: 'Get job',
    description:
      'Shows the state of one job (status, exit code, progress, result or error); use it instead of ps or log files. ' +
      'Looks once: to wait for a change use wait_for_jobs, never this in a loop. For what a command printed use read_output; output is not included. Without an id use list_jobs. ' +
      'Large results are cut unless includeResult is true. Works for every kind of job. Changes nothing.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['default', 'jobs'],
    brief: {
      schema: briefJobSchema,
      of: (view, { details }) => (details === true ? view : briefJobDetails(jobs, view)),
    },
    http: { method: 'GET', path: '/api/jobs/{id}' },
    cli: { words: ['show'], args: ['id'], custom: true },
    text: (view) => jobText(jobs, view),
    run: async (input, { caller }) => {
      const job = await visibleJob(jobs, input.id, caller);
      if (!(await isOwn(jobs, job, caller))) return viewPublicJob(jobs, job, clock.now(), caller);
      const view = await viewJob(jobs, job, clock.now(), caller);
      const latestLine = isFinal(job.status)
        ? undefined
        : await jobs.findKind(job.kind)?.latestLine?.(job);
      if (latestLine !== undefined) view.latestLine = latestLine;
      if (input.includeInput)
        view.input = jobs.findKind(job.kind)?.inputFor?.(job, caller) ?? job.input;
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

export function listJobsOperation({ jobs, clock }: JobOperationsDeps): Operation {
  return defineOperation({
    ...listJobs,
    title: 'List jobs',
    description:
      'Lists jobs of every kind, newest first, including those of earlier sessions and other agents; use it instead of ps in a shell. ' +
      'Use it to find a job whose id you do not have, or to see what is running (status: running). All filters must match. With an id use get_job, which shows more. ' +
      'Returns one short entry per job, and nextCursor if there are more. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    toolsets: ['default', 'jobs'],
    pages: true,
    brief: {
      schema: z.object({ jobs: z.array(briefJobSchema) }),
      of: (page) => ({ ...page, jobs: page.jobs.map(briefLine) }),
    },
    rareInput: ['tag (array)', 'since and before (ISO times)', 'queue', 'parent (job id)'],
    unlistedInput: ['since', 'before', 'sort'],
    http: { method: 'GET', path: '/api/jobs' },
    cli: {
      words: ['list'],
      summary: 'jobs, newest first (--watch: live)',
      about: 'Lists jobs, newest first. Commands accept the shortened ids of the first column.',
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
    run: async (input, { caller, maxResponseBytes }) => {
      const filter = toJobFilter(jobs, input, caller!);
      const page = await listPage(jobs, filter, input);
      const own = await Promise.all(page.jobs.map((job) => isOwn(jobs, job, caller)));
      const now = clock.now();
      const mine = page.jobs.map((job, n) => ({ job, n })).filter(({ n }) => own[n]);
      const lines = mine.map(({ job }) => toJobLine(jobs, job, now));
      const { shown, ...left } = fitItems(lines, maxResponseBytes);
      const last = shown.length < lines.length ? mine[shown.length - 1]!.n : undefined;
      const next = last === undefined ? page.next : page.cursors[last];
      return {
        jobs: shown,
        ...(next === undefined ? {} : { nextCursor: next }),
        ...left,
      };
    },
  });
}

export const viewEvent = (event: EventRow) => ({
  cursor: event.cursor,
  jobId: event.jobId,
  n: event.n,
  type: event.type,
  at: isoTime(event.at),
  data: decodeRecordOr<Record<string, unknown>>(event.data, { undecodable: true }),
});

export function listEventsOperation({
  jobs,
  feed,
}: Pick<JobOperationsDeps, 'jobs' | 'feed'>): Operation {
  const shownTo = async (job: Job, caller: Caller | undefined) => {
    const party = await isParty(jobs, job, caller);
    return (event: EventRow) => (party ? viewEvent(event) : withoutNames(viewEvent(event)));
  };
  return defineOperation({
    ...listEvents,
    title: 'List events',
    description:
      'Lists the numbered events of one job: submitted, started, progress, ended, retried. Use it to see how a job reached its state; for the state itself use get_job. Changes nothing. Over HTTP with Accept: text/event-stream it streams new events.',
    effect: 'read',
    scope: 'public',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['jobs'],
    pages: true,
    http: { method: 'GET', path: '/api/jobs/{id}/events' },
    cli: {
      words: ['events'],
      args: ['id'],
      summary: 'events of a job, in order',
      about: 'Lists the events of a job in order: submitted, started, ended, retried.',
      table: { rows: 'events', columns: ['n', 'at', 'type', 'data'] },
    },
    run: async (input, { caller, maxResponseBytes }) => {
      const view = await shownTo(await visibleJob(jobs, input.id, caller), caller);
      const after = input.cursor === undefined ? input.after : cursorNumber(input.cursor);
      const rows = await jobs.ledger.events(input.id, after, input.limit + 1);
      const { shown, ...left } = fitItems(rows.slice(0, input.limit).map(view), maxResponseBytes);
      const next = shown.length < rows.length ? { nextCursor: String(shown.at(-1)!.n) } : {};
      return { events: shown, ...next, ...left };
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
          // Reads the status before the events: an end that happens in between is sent in the next round, not lost.
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

/** Callers who are not a party to a public job see its events without names and reasons. */
function withoutNames<E extends { data: Record<string, unknown> }>(event: E): E {
  const { name: _name, reason: _reason, ...data } = event.data;
  return { ...event, data };
}
