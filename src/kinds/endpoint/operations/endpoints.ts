// Endpoint operations: save, list with health, delete, purge, releases.
import { defined } from '../../../runtime/defined.ts';
import { resolve } from 'node:path';
import { AppError } from '../../../errors.ts';
import { randomId } from '../../../runtime/id.ts';
import { defineOperation, type Caller, type Operation, type Origin } from '../../../operation.ts';
import { fitItems } from '../../../runtime/response-budget.ts';
import { isoTime } from '../../../runtime/clock.ts';
import * as contracts from '../contracts/endpoints.ts';
import type { EndpointDeps } from '../deps.ts';
import { manages, mayChange, mayUse, unknownEndpoint } from '../endpoints.ts';
import type { Health } from '../health.ts';
import { withFiles } from '../workers/recipe.ts';
import type { EndpointRow } from '../store/endpoints.ts';
import { ofEndpoint } from './reach.ts';

export function endpointOperations(deps: EndpointDeps): Operation[] {
  return [
    saveEndpoint(deps),
    listEndpoints(deps),
    getEndpoint(deps),
    deleteEndpoint(deps),
    purgeQueue(deps),
    listReleases(deps),
  ];
}

function saveEndpoint(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.saveEndpoint,
    title: 'Save endpoint',
    description:
      'Creates a serverless endpoint, or changes the given fields of one. recipe defines its workers: {module} a JS/TS handler file, {perJob} a command per job, {worker} a program that speaks the RunPod worker protocol, {image} a container. Without a recipe, workers connect from outside. remote sends jobs to RunPod or another Errand instead. ' +
      'A changed recipe creates a new version: idle workers are replaced immediately, busy ones after their job. Then use run_endpoint. delete_endpoint removes the endpoint.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: {},
    toolsets: ['endpoints'],
    http: { method: 'POST', path: '/api/endpoints' },
    cli: { words: ['endpoint', 'save'], args: ['id'] },
    run: async ({ id: givenId, create, ...fields }, { caller, origin }) => {
      const isEmpty = Object.values(fields).every((value) => value === undefined);
      if (givenId === undefined && isEmpty)
        throw new AppError('invalidInput', 'An endpoint needs an id or a recipe.', {
          hint: 'Pass an id, and a recipe for its workers (or a remote).',
        });
      const id = givenId ?? randomId('ep', 12);
      const before = await deps.endpoints.find(id);
      if (before && !mayChange(before, caller)) throw cannotChange(before, caller);
      refuseForeignCode(fields, caller);
      const given = defined(fields);
      const row = await deps.endpoints.save({
        id,
        fields: withPaths(given, origin, deps.home),
        owner: before?.owner ?? caller!.owner,
        // An endpoint of config.json keeps its source: every key may use it, and the next start restores the settings
        // of the file.
        source: before?.source ?? 'api',
        merge: true,
        ...(create ? { create } : {}),
      });
      const view = await viewEndpoint(deps, row);
      return row.source === 'config' ? { ...view, note: passingNote } : view;
    },
  });
}

const passingNote =
  'The endpoint is defined in config.json of the server, so this change lasts until the next start. Change config.json to keep it.';

function listEndpoints(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listEndpoints,
    title: 'List endpoints',
    description:
      'Lists the serverless endpoints you can use, with the health of each: jobs waiting, running, done and failed, workers idle, running, starting and unhealthy, and why workers do not start. Use it before run_endpoint, or when jobs stay queued. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['queues', 'subject'] },
    toolsets: ['endpoints'],
    pages: true,
    http: { method: 'GET', path: '/api/endpoints' },
    cli: {
      words: ['endpoint', 'list'],
      table: { rows: 'endpoints', columns: ['id', 'version', 'state', 'createdAt', 'trouble'] },
    },
    run: async ({ limit, after }, { caller, maxResponseBytes }) => {
      const rows = (await deps.endpoints.list()).filter((row) => mayUse(row, caller));
      const start = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
      const page = rows.slice(start, start + limit);
      const views = await Promise.all(page.map((row) => viewEndpoint(deps, row)));
      const { shown, ...left } = fitItems(views, maxResponseBytes, 'pass `next` as `after`');
      const more = start + shown.length < rows.length;
      return {
        endpoints: shown,
        ...(more ? { next: page[shown.length - 1]!.id } : {}),
        ...left,
      };
    },
  });
}

function getEndpoint(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.getEndpoint,
    title: 'Get endpoint',
    description:
      'Shows one endpoint: recipe, scaling, timeouts, version and health, and for its owner the secret that signs job webhooks. Use list_endpoints to find its id. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { queue: ({ id }) => id, subject: { type: 'endpoint', id: ({ id }) => id } },
    http: { method: 'GET', path: '/api/endpoints/{id}' },
    cli: { words: ['endpoint', 'show'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      const row = await deps.endpoints.get(id, caller);
      const view = await viewEndpoint(deps, row);
      return mayChange(row, caller) ? { ...view, webhookSecret: deps.secretOf(id) } : view;
    },
  });
}

function deleteEndpoint(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.deleteEndpoint,
    title: 'Delete endpoint',
    description:
      'Deletes an endpoint permanently. Use it when the endpoint is no longer needed. Its waiting and running jobs are cancelled and its workers are stopped. Ended jobs and their results stay readable with get_job. To pause the endpoint instead, set maxWorkers to 0 with save_endpoint.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: {},
    toolsets: ['endpoints'],
    http: { method: 'DELETE', path: '/api/endpoints/{id}' },
    cli: { words: ['endpoint', 'delete'], args: ['id'] },
    run: async ({ id }, { caller }) => {
      const row = await deps.endpoints.get(id, caller);
      if (!mayChange(row, caller)) throw cannotChange(row, caller);
      const by = caller!.owner;
      let cancelled = 0;
      if (row.spec.remote) {
        // Jobs on a remote can be stopped only while the endpoint exists.
        cancelled = await stopJobs(deps, id, by);
        await deps.waitForRemoteCancels(id);
      }
      await deps.endpoints.delete(id);
      cancelled += await stopJobs(deps, id, by);
      for (const worker of deps.registry.ofEndpoint(id))
        if (worker.origin === 'external')
          await deps.registry.end(worker, { reason: 'its endpoint was deleted' });
      return { id, cancelled };
    },
  });
}

function purgeQueue(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.purgeQueue,
    title: 'Purge queue',
    description:
      'Cancels every waiting job of an endpoint. Running jobs continue. The endpoint owner and admin keys cancel the jobs of all users; on an endpoint of config.json, other keys cancel only the jobs of their owner. Use it to drop a backlog that is no longer needed. To cancel one job use cancel_job. Returns how many were removed.',
    effect: 'destroy',
    idempotent: true,
    scope: 'run',
    reach: ofEndpoint,
    toolsets: ['endpoints'],
    http: { method: 'POST', path: '/api/endpoints/{endpointId}/purge' },
    cli: { words: ['endpoint', 'purge'], args: ['endpointId'] },
    run: async (input, { caller }) => {
      const row = await deps.endpoints.get(input.endpointId, caller);
      const why = { by: caller!.owner, reason: 'The queue was purged.' };
      const whose = manages(row, caller!) ? {} : { owner: caller!.owner };
      return { removed: await purge(deps, row.id, { ...why, ...whose }) };
    },
  });
}

function listReleases(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.listReleases,
    title: 'List releases',
    description:
      'Shows the versions of an endpoint, newest first, with the changes of each and how many workers run it. Use it to check whether a rollout has finished. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: ofEndpoint,
    http: { method: 'GET', path: '/api/endpoints/{endpointId}/releases' },
    cli: { words: ['endpoint', 'releases'], args: ['endpointId'] },
    run: async (input, { caller }) => {
      const row = await deps.endpoints.get(input.endpointId, caller);
      const workers = deps.registry.ofEndpoint(row.id);
      const on = (version: number) => workers.filter((worker) => worker.version === version).length;
      const releases = await deps.store.releases(row.id, 100);
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

async function viewEndpoint(deps: EndpointDeps, row: EndpointRow) {
  const trouble = await deps.health.troubleText(row);
  const health = await deps.health.health(row);
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

async function stopJobs(deps: EndpointDeps, id: string, by: string): Promise<number> {
  const reason = 'The endpoint was deleted.';
  let cancelled = await purge(deps, id, { by, reason });
  for (const job of await deps.jobs.ledger.running({ kinds: ['endpoint'] })) {
    if (job.queue !== id) continue;
    await deps.jobs.cancel(job.id, by, reason);
    cancelled += 1;
  }
  return cancelled;
}

const purgeChunk = 200;

async function purge(
  deps: EndpointDeps,
  id: string,
  { by, reason, owner }: { by: string; reason: string; owner?: string },
): Promise<number> {
  const ids = await deps.store.queuedIds(id, {
    limit: 1_000_000,
    ...(owner === undefined ? {} : { owner }),
  });
  let removed = 0;
  for (let i = 0; i < ids.length; i += purgeChunk) {
    const some = ids.slice(i, i + purgeChunk);
    const ended = await Promise.all(some.map((jobId) => deps.jobs.cancel(jobId, by, reason)));
    removed += ended.filter((job) => job.status === 'cancelled').length;
  }
  return removed;
}

/** A recipe runs a program as the user of this server, so only an admin key may set one. */
function refuseForeignCode(fields: Record<string, unknown>, caller: Caller | undefined): void {
  if (fields.recipe === undefined && fields.remote === undefined && fields.envFrom === undefined)
    return;
  if (caller?.admin) return;
  throw new AppError('forbidden', 'Only an admin key may set what runs on this machine.', {
    hint: 'Omit recipe, remote and envFrom (workers then connect from outside), or use an admin key.',
  });
}

function cannotChange(row: EndpointRow, caller: Caller | undefined): AppError {
  if (!mayUse(row, caller)) return unknownEndpoint(row.id);
  return new AppError('forbidden', `You may not change endpoint ${row.id}.`, {
    hint:
      row.source === 'config' ? 'It is defined in config.json of the server.' : 'Ask its owner.',
  });
}

/** Relative paths are relative to the caller's working folder. */
function withPaths(
  fields: Record<string, unknown>,
  origin: Origin | undefined,
  home: string,
): Record<string, unknown> {
  const { recipe } = fields;
  if (!recipe || typeof recipe !== 'object') return fields;
  const known = recipe as Record<string, unknown>;
  const base = origin?.cwd ?? home;
  // A worker keeps files in its working folder, so each worker gets a separate one unless the recipe sets it.
  const usual = 'module' in known || 'perJob' in known ? origin?.cwd : undefined;
  const cwd = typeof known.cwd === 'string' ? resolve(base, known.cwd) : usual;
  const file = known.module;
  const words = ['worker', 'perJob'].filter((name) => name in known && cwd === undefined);
  return {
    ...fields,
    recipe: {
      ...known,
      ...(cwd === undefined ? {} : { cwd }),
      ...(typeof file === 'string' ? { module: resolve(cwd ?? base, file) } : {}),
      ...Object.fromEntries(words.map((name) => [name, withFiles(known[name] as string[], base)])),
    },
  };
}
