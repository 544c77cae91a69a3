// The endpoint kind: serverless endpoints with queued jobs and workers.
import { ownerName } from '../../access/keys.ts';
import { definePlugin, type KindDeps, type KindParts } from '../../plugin.ts';
import { isAnything, isRecord } from '../../runtime/json.ts';
import type { Service } from '../../runtime/service.ts';
import { Address } from './workers/address.ts';
import { Batches } from './batch/batches.ts';
import { BatchStore } from './store/batches.ts';
import type { EndpointDeps } from './deps.ts';
import { Endpoints } from './endpoints.ts';
import { AssignmentLoop } from './jobs/assignment-loop.ts';
import { HealthService } from './health.ts';
import { WorkerRegistry } from './workers/registry.ts';
import { JobSubmitter } from './jobs/submitter.ts';
import { endpointKind } from './kind.ts';
import { WorkerLogs } from './workers/logs.ts';
import { endpointMigrations } from './migrations.ts';
import { batchOperations } from './operations/batches.ts';
import { endpointOperations } from './operations/endpoints.ts';
import { jobOperations } from './operations/jobs.ts';
import { logOperations } from './operations/logs.ts';
import { streamOperations } from './operations/streams.ts';
import { workerOperations } from './operations/workers.ts';
import { queueStates } from './jobs/queues.ts';
import { RemoteClient } from './remote/client.ts';
import { RemoteDriver } from './remote/driver.ts';
import { noticeRemote } from './operations/notice-remote.ts';
import { RemoteStore } from './store/remote-jobs.ts';
import { Reports } from './jobs/reports.ts';
import { Results } from './jobs/results.ts';
import { endpointSpec, remote } from './spec.ts';
import { endpointSettings, type EndpointSettings } from './settings.ts';
import { EndpointStore } from './store/endpoints.ts';
import { Streams } from './store/streams.ts';
import { Supervisor } from './workers/supervisor.ts';
import { DeadlineSweeper } from './jobs/deadline-sweeper.ts';
import { WorkerFolders } from './workers/folders.ts';

export const endpointPlugin = definePlugin<EndpointSettings>({
  name: 'endpoint',
  // Relays of workers outlive an upgrade and hold paths in this folder, so it keeps its name.
  folder: 'endpoints',
  settings: endpointSettings,
  // A worker failed while a caller waited for its response over HTTP.
  errors: { workerFailed: { http: 500, exit: 7 } },
  migrations: endpointMigrations,
  jsonColumns: {
    endpoints: { spec: (value) => endpointSpec.safeParse(value).success },
    endpoint_releases: { diff: Array.isArray },
    endpoint_chunks: { data: isAnything },
    endpoint_batch_drafts: { body: isRecord },
    endpoint_remote_jobs: { remote: (value) => remote.safeParse(value).success },
  },
  undispatched: ['batch'],
  create,
});

function create(deps: KindDeps<EndpointSettings>): KindParts {
  const { jobs, feed, waiting, clock, log, node, folder, access, home } = deps;
  const store = new EndpointStore(deps.store);
  const shared = deps.store.engine === 'postgres';
  const endpoints = new Endpoints(store, clock);
  const paused = queueStates(jobs, clock);
  const registry = new WorkerRegistry({ jobs, store, clock, log, node, paused });
  const logs = new WorkerLogs(folder, clock);
  const results = new Results(folder, { shared });
  const streams = new Streams(deps.store, jobs);
  const secretOf = (id: string) => `whsec_${deps.sign('endpoint webhook', id)}`;
  const submitter = new JobSubmitter({ jobs, clock, webhooks: deps.webhooks, secretOf });
  const supervisor = new Supervisor({
    jobs,
    registry,
    endpoints,
    store,
    logs,
    folders: new WorkerFolders(folder),
    access,
    clock,
    log,
    node,
    folder,
    home,
    secret: deps.secret,
    address: new Address(deps),
    recover: (worker, post) => reports.recover(worker, post),
  });
  const trouble = (row: Parameters<Supervisor['trouble']>[0]) => supervisor.trouble(row);
  const remoteClient = new RemoteClient(deps.egress, deps.secret);
  const remoteJobs = new RemoteStore(deps.store);
  const health = new HealthService({
    jobs,
    registry,
    clock,
    trouble,
    paused,
    remoteJobs,
    remote: remoteClient,
  });
  const batches = new Batches({
    jobs,
    store: new BatchStore(deps.store),
    endpoints,
    submitter,
    clock,
    log,
  });
  const reports = new Reports({
    jobs,
    registry,
    endpoints,
    results,
    streams,
    retire: (worker, reason) => supervisor.retire(worker, reason),
    markWorking: (endpointId) => supervisor.starts.markWorking(endpointId),
  });
  const endpointDeps: EndpointDeps = {
    jobs,
    feed,
    waiting,
    clock,
    store,
    endpoints,
    registry,
    submitter,
    reports,
    results,
    streams,
    logs,
    health,
    batches,
    home,
    waitForRemoteCancels: (endpointId) => remote.waitForCancels(endpointId),
    secretOf,
  };
  const remote = new RemoteDriver({
    jobs,
    endpoints,
    store: remoteJobs,
    client: remoteClient,
    results,
    streams,
    clock,
    log,
    node,
    sign: deps.sign,
  });
  jobs.addKind(batches.kind);
  const deadlineSweeper = new DeadlineSweeper({
    jobs,
    registry,
    store,
    clock,
    log,
    stopRemote: (_jobId, attemptId) => remote.cancel(attemptId),
  });
  const assignmentLoop = new AssignmentLoop({ jobs, registry, log, clock, endpoints, store });
  const opening: Service = {
    name: 'endpoints',
    start: async () => {
      await endpoints.applyConfig(deps.settings, ownerName, !shared);
      await registry.load();
    },
    stop: async () => {},
  };
  return {
    kind: endpointKind(endpointDeps),
    operations: [
      ...endpointOperations(endpointDeps),
      ...jobOperations(endpointDeps),
      ...streamOperations(endpointDeps),
      ...workerOperations(endpointDeps),
      ...logOperations(endpointDeps),
      ...batchOperations(endpointDeps),
      noticeRemote(remote),
    ],
    services: [opening, assignmentLoop, deadlineSweeper, batches, remote, supervisor],
    busy: async () => (await supervisor.busy()) || remote.busy(),
  };
}
