// Operations on endpoints themselves: save, list with health, delete, purge, releases.
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { randomId } from '../../../jobs/job.ts';
import { defineOperation, type Caller, type Operation, type Origin } from '../../../operation.ts';
import { isoTime } from '../../../runtime/clock.ts';
import type { Desk } from '../desk.ts';
import { manages, mayChange, mayUse, unknownEndpoint } from '../endpoints.ts';
import type { Health } from '../health.ts';
import { endpointChanges, endpointId, endpointSpec } from '../spec.ts';
import type { EndpointRow } from '../store.ts';
import { ofEndpoint } from './reach.ts';

const healthView = z.object({
  jobs: z.record(z.string(), z.number()),
  workers: z.record(z.string(), z.number()),
});

const endpointView = z.looseObject({
  id: z.string(),
  version: z.number(),
  source: z.enum(['api', 'config']),
  spec: endpointSpec,
  health: healthView,
  state: z.string().describe('The health in a few words'),
  trouble: z.string().optional().describe('Why its workers do not come up'),
  note: z.string().optional().describe('What to know about a change'),
  webhookSecret: z.string().optional(),
  createdAt: z.string(),
});

export function endpointOperations(desk: Desk): Operation[] {
  return [
    saveEndpoint(desk),
    listEndpoints(desk),
    getEndpoint(desk),
    deleteEndpoint(desk),
    purgeQueue(desk),
    listReleases(desk),
  ];
}

function saveEndpoint(desk: Desk): Operation {
  return defineOperation({
    name: 'save_endpoint',
    title: 'Save endpoint',
    description:
      'Makes a serverless endpoint, or changes the given fields of one. recipe says what its workers are: {module} a JS/TS handler file, {perJob} a command per job, {worker} a program with the RunPod worker protocol, {image} a container; none: workers come from outside. remote points to RunPod or another Errand instead. ' +
      'A changed recipe is a new version: idle workers are replaced now, busy ones after their job. Then use run_endpoint; delete_endpoint removes it.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: {},
    toolsets: ['endpoints'],
    input: z.object({
      id: endpointId.optional().describe('Default: a new random id'),
      ...endpointChanges,
      create: z.boolean().optional().describe('Refuse when it exists already'),
    }),
    output: endpointView,
    http: { method: 'POST', path: '/api/endpoints' },
    cli: { words: ['endpoint', 'save'], args: ['id'] },
    run: async ({ id: wished, create, ...fields }, { caller, origin }) => {
      const isEmpty = Object.values(fields).every((value) => value === undefined);
      if (wished === undefined && isEmpty)
        throw new AppError('invalidInput', 'An endpoint needs an id or a recipe.', {
          hint: 'Give an id, and with recipe what its workers are (or remote).',
        });
      const id = wished ?? randomId('ep', 12);
      const before = await desk.endpoints.find(id);
      if (before && !mayChange(before, caller)) throw cannotChange(before, caller);
      refuseForeignCode(fields, caller);
      const given = Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== undefined));
      const row = await desk.endpoints.save({
        id,
        fields: withPaths(given, origin, desk.home),
        owner: before?.owner ?? caller!.owner,
        // One of config.json stays one: every key may use it, and the next start makes it what the file says.
        source: before?.source ?? 'api',
        merge: true,
        ...(create ? { create } : {}),
      });
      const view = await viewEndpoint(desk, row);
      return row.source === 'config' ? { ...view, note: passingNote } : view;
    },
  });
}

const passingNote =
  'It is written in config.json of the server: this change lasts until the next start. Write it there to keep it.';

function listEndpoints(desk: Desk): Operation {
  return defineOperation({
    name: 'list_endpoints',
    title: 'List endpoints',
    description:
      'Lists the serverless endpoints you can use, with the health of each: jobs waiting, running, done and failed, workers idle, running, starting and unhealthy, and why workers do not come up. Use it before run_endpoint, or when jobs stay queued. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['queues', 'subject'] },
    toolsets: ['endpoints'],
    input: z.object({
      limit: z.number().int().min(1).max(1000).default(100),
      after: z.string().max(100).optional().describe('Id of the last one of the page before'),
    }),
    output: z.object({ endpoints: z.array(endpointView), next: z.string().optional() }),
    http: { method: 'GET', path: '/api/endpoints' },
    cli: {
      words: ['endpoint', 'list'],
      table: { rows: 'endpoints', columns: ['id', 'version', 'state', 'createdAt', 'trouble'] },
    },
    run: async ({ limit, after }, { caller }) => {
      const rows = (await desk.endpoints.list()).filter((row) => mayUse(row, caller));
      const start = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
      const page = rows.slice(start, start + limit);
      const more = start + limit < rows.length;
      return {
        endpoints: await Promise.all(page.map((row) => viewEndpoint(desk, row))),
        ...(more ? { next: page.at(-1)!.id } : {}),
      };
    },
  });
}

function getEndpoint(desk: Desk): Operation {
  return defineOperation({
    name: 'get_endpoint',
    title: 'Get endpoint',
    description:
      'Shows one endpoint: recipe, scaling, times, version and health; to its owner also what the webhooks of its jobs are signed with. Use list_endpoints to find its id. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { queue: ({ id }) => id, subject: { type: 'endpoint', id: ({ id }) => id } },
    input: z.object({ id: z.string().max(100) }),
    output: endpointView,
    http: { method: 'GET', path: '/api/endpoints/{id}' },
    cli: { words: ['endpoint', 'show'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      const row = await desk.endpoints.get(id, caller);
      const view = await viewEndpoint(desk, row);
      return mayChange(row, caller) ? { ...view, webhookSecret: desk.secretOf(id) } : view;
    },
  });
}

function deleteEndpoint(desk: Desk): Operation {
  return defineOperation({
    name: 'delete_endpoint',
    title: 'Delete endpoint',
    description:
      'Removes an endpoint that nobody needs, for good: waiting and running jobs are cancelled, its workers are stopped. Ended jobs and their results stay readable with get_job. Cannot be undone; to pause it instead, set workersMax to 0 with save_endpoint.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: {},
    toolsets: ['endpoints'],
    input: z.object({ id: z.string().max(100) }),
    output: z.object({ id: z.string(), cancelled: z.number() }),
    http: { method: 'DELETE', path: '/api/endpoints/{id}' },
    cli: { words: ['endpoint', 'delete'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      const row = await desk.endpoints.get(id, caller);
      if (!mayChange(row, caller)) throw cannotChange(row, caller);
      const by = caller!.owner;
      let cancelled = 0;
      if (row.spec.remote) {
        // As long as the endpoint is there it is known where its jobs are to be stopped.
        cancelled = await stopJobs(desk, id, by);
        await desk.remoteSettled(id);
      }
      await desk.endpoints.delete(id);
      cancelled += await stopJobs(desk, id, by);
      for (const worker of desk.hub.of(id))
        if (worker.origin === 'external')
          await desk.hub.end(worker, { reason: 'its endpoint was deleted' });
      return { id, cancelled };
    },
  });
}

function purgeQueue(desk: Desk): Operation {
  return defineOperation({
    name: 'purge_queue',
    title: 'Purge queue',
    description:
      'Cancels every waiting job of an endpoint; running ones go on. Its owner and admin keys cancel the jobs of all its users; on an endpoint of config.json other keys cancel only those of their owner. Use it when the queue holds work nobody wants. To cancel one job use cancel_job. Answers how many were removed.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
    input: z.object({ endpointId: z.string().max(100) }),
    output: z.object({ removed: z.number() }),
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/purge' },
    cli: { words: ['endpoint', 'purge'], args: ['endpointId'] },
    run: async (input, { caller }) => {
      const row = await desk.endpoints.get(input.endpointId, caller);
      const why = { by: caller!.owner, reason: 'The queue was purged.' };
      const whose = manages(row, caller!) ? {} : { owner: caller!.owner };
      return { removed: await purge(desk, row.id, { ...why, ...whose }) };
    },
  });
}

function listReleases(desk: Desk): Operation {
  return defineOperation({
    name: 'list_releases',
    title: 'List releases',
    description:
      'Shows the versions of an endpoint, newest first, with what each changed and how many workers run it. Use it to see whether a rollout is through. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    input: z.object({ endpointId: z.string().max(100) }),
    output: z.object({
      version: z.number(),
      workers: z.number(),
      workersOnLatest: z.number(),
      releases: z.array(
        z.object({
          version: z.number(),
          by: z.string(),
          workers: z.number(),
          createdAt: z.string(),
          diff: z.array(z.object({ field: z.string(), old: z.unknown(), new: z.unknown() })),
        }),
      ),
    }),
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/releases' },
    cli: { words: ['endpoint', 'releases'], args: ['endpointId'] },
    run: async (input, { caller }) => {
      const row = await desk.endpoints.get(input.endpointId, caller);
      const workers = desk.hub.of(row.id);
      const on = (version: number) => workers.filter((worker) => worker.version === version).length;
      const releases = await desk.store.releases(row.id, 100);
      return {
        version: row.version,
        workers: workers.length,
        workersOnLatest: on(row.version),
        releases: releases.map((release) => ({
          version: release.version,
          by: release.by,
          workers: on(release.version),
          createdAt: isoTime(release.createdAt),
          diff: release.diff,
        })),
      };
    },
  });
}

async function viewEndpoint(desk: Desk, row: EndpointRow) {
  const trouble = await desk.health.troubleText(row);
  const health = await desk.health.health(row);
  return {
    id: row.id,
    ...(row.undecodable ? { undecodable: true } : {}),
    version: row.version,
    source: row.source,
    spec: row.spec,
    health,
    state: stateText(health),
    ...(trouble === undefined ? {} : { trouble }),
    createdAt: isoTime(row.createdAt),
  };
}

function stateText({ jobs, workers }: Health): string {
  const waiting = `${jobs.inQueue} queued, ${jobs.inProgress} running`;
  const starting = workers.initializing > 0 ? `, ${workers.initializing} starting` : '';
  const sick = workers.unhealthy > 0 ? `, ${workers.unhealthy} unhealthy` : '';
  return `${waiting}; ${workers.ready} ${workers.ready === 1 ? 'worker' : 'workers'} ready${starting}${sick}`;
}

async function stopJobs(desk: Desk, id: string, by: string): Promise<number> {
  const reason = 'Its endpoint was deleted.';
  let cancelled = await purge(desk, id, { by, reason });
  for (const job of await desk.jobs.ledger.running({ kinds: ['endpoint'] })) {
    if (job.queue !== id) continue;
    await desk.jobs.cancel(job.id, by, reason);
    cancelled += 1;
  }
  return cancelled;
}

const purgeAtOnce = 200;

async function purge(
  desk: Desk,
  id: string,
  { by, reason, owner }: { by: string; reason: string; owner?: string },
): Promise<number> {
  const ids = await desk.store.queuedIds(id, {
    limit: 1_000_000,
    ...(owner === undefined ? {} : { owner }),
  });
  let removed = 0;
  for (let i = 0; i < ids.length; i += purgeAtOnce) {
    const some = ids.slice(i, i + purgeAtOnce);
    const ended = await Promise.all(some.map((jobId) => desk.jobs.cancel(jobId, by, reason)));
    removed += ended.filter((job) => job.status === 'cancelled').length;
  }
  return removed;
}

/** A recipe runs a program as the user of this server: only they, or a key of theirs with `admin`, may name one. */
function refuseForeignCode(fields: Record<string, unknown>, caller: Caller | undefined): void {
  if (fields.recipe === undefined && fields.remote === undefined && fields.envFrom === undefined)
    return;
  if (caller?.admin) return;
  throw new AppError('forbidden', 'Only an admin key may say what runs on this machine.', {
    hint: 'Leave recipe, remote and envFrom out (workers then come from outside), or use an admin key.',
  });
}

function cannotChange(row: EndpointRow, caller: Caller | undefined): AppError {
  if (!mayUse(row, caller)) return unknownEndpoint(row.id);
  return new AppError('forbidden', `The endpoint ${row.id} is not yours to change.`, {
    hint:
      row.source === 'config'
        ? 'It is written in config.json of the server.'
        : 'Ask whoever made it.',
  });
}

/** Relative paths mean the folder where the caller stands. */
function withPaths(
  fields: Record<string, unknown>,
  origin: Origin | undefined,
  home: string,
): Record<string, unknown> {
  const { recipe } = fields;
  if (!recipe || typeof recipe !== 'object') return fields;
  const known = recipe as Record<string, unknown>;
  const base = origin?.cwd ?? home;
  const cwd = typeof known.cwd === 'string' ? resolve(base, known.cwd) : base;
  const file = known.module;
  return {
    ...fields,
    recipe: {
      ...known,
      ...('image' in known ? {} : { cwd }),
      ...(typeof file === 'string' && !isAbsolute(file) ? { module: resolve(cwd, file) } : {}),
    },
  };
}
