// The endpoint kind: serverless endpoints with queued jobs and workers, as a plugin of the core.
import { ownerName } from '../../access/access.ts';
import { definePlugin, type KindNeeds, type KindParts } from '../../jobs/plugin.ts';
import type { Service } from '../../runtime/service.ts';
import { Address } from './address.ts';
import { Batches } from './batch/batches.ts';
import { BatchStore } from './batch/store.ts';
import type { Desk } from './desk.ts';
import { Endpoints } from './endpoints.ts';
import { Followup } from './followup.ts';
import { HealthDesk } from './health.ts';
import { WorkerHub } from './hub.ts';
import { Intake } from './intake.ts';
import { endpointKind } from './kind.ts';
import { WorkerLogs } from './logs.ts';
import { endpointMigrations } from './migrations.ts';
import { batchOperations } from './operations/batches.ts';
import { endpointOperations } from './operations/endpoints.ts';
import { jobOperations } from './operations/jobs.ts';
import { logOperations } from './operations/logs.ts';
import { streamOperations } from './operations/streams.ts';
import { workerOperations } from './operations/workers.ts';
import { queueStates } from './queues.ts';
import { RemoteClient } from './remote/client.ts';
import { RemoteDriver } from './remote/driver.ts';
import { noticeRemote } from './remote/operation.ts';
import { RemoteStore } from './remote/store.ts';
import { Reports } from './reports.ts';
import { Results } from './results.ts';
import { endpointsSection, type EndpointsSection } from './spec.ts';
import { EndpointStore } from './store.ts';
import { Streams } from './stream/store.ts';
import { Supervisor } from './supervisor.ts';
import { Timekeeper } from './timekeeper.ts';
import { webhookBody, webhookHeaders } from './webhook-body.ts';

export const endpointPlugin = definePlugin<EndpointsSection>({
  name: 'endpoints',
  settings: endpointsSection,
  // What a worker did wrong while somebody waited for its answer over HTTP.
  errors: { workerFailed: { http: 500, exit: 7 } },
  migrations: endpointMigrations,
  jsonColumns: {
    endpoints: ['spec'],
    endpoint_releases: ['diff'],
    endpoint_chunks: ['data'],
    endpoint_batch_drafts: ['body'],
    endpoint_remote_jobs: ['remote'],
  },
  create,
});

function create(needs: KindNeeds<EndpointsSection>): KindParts {
  const { jobs, feed, waiting, clock, log, node, folder, access, home } = needs;
  const store = new EndpointStore(needs.store);
  const shared = needs.store.engine === 'postgres';
  const endpoints = new Endpoints(store, clock);
  const paused = queueStates(jobs, clock);
  const hub = new WorkerHub({ jobs, store, clock, log, node, paused });
  const logs = new WorkerLogs(folder, clock);
  const results = new Results(folder, { shared });
  const streams = new Streams(needs.store, jobs);
  const secretOf = (id: string) => `whsec_${needs.sign('endpoint webhook', id)}`;
  const intake = new Intake({ jobs, clock, webhooks: needs.webhooks, secretOf });
  needs.webhooks.addFormat('runpod', (job) => webhookBody(results, job), webhookHeaders);
  const supervisor = new Supervisor({
    jobs,
    hub,
    endpoints,
    store,
    logs,
    access,
    clock,
    log,
    node,
    folder,
    home,
    secret: needs.secret,
    address: new Address(needs),
  });
  const trouble = (row: Parameters<Supervisor['trouble']>[0]) => supervisor.trouble(row);
  const remoteClient = new RemoteClient(needs.egress, needs.secret);
  const remoteJobs = new RemoteStore(needs.store);
  const health = new HealthDesk({
    jobs,
    hub,
    clock,
    trouble,
    paused,
    remoteJobs,
    remote: remoteClient,
  });
  const batches = new Batches({
    jobs,
    store: new BatchStore(needs.store),
    endpoints,
    intake,
    clock,
    log,
  });
  const reports = new Reports({
    jobs,
    hub,
    results,
    streams,
    retire: (worker, reason) => supervisor.retire(worker, reason),
    proven: (endpointId) => supervisor.starts.proven(endpointId),
  });
  const desk: Desk = {
    jobs,
    feed,
    waiting,
    clock,
    store,
    endpoints,
    hub,
    intake,
    reports,
    results,
    streams,
    logs,
    health,
    batches,
    home,
    remoteSettled: (endpointId) => remote.settled(endpointId),
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
    sign: needs.sign,
  });
  jobs.addKind(batches.kind);
  const timekeeper = new Timekeeper({
    jobs,
    hub,
    store,
    clock,
    log,
    stopRemote: (_jobId, attemptId) => remote.cancel(attemptId),
  });
  const followup = new Followup({ feed, jobs, hub, log, clock, endpoints, store });
  const opening: Service = {
    name: 'endpoints',
    start: async () => {
      await endpoints.applyConfig(needs.settings, ownerName, !shared);
      await hub.load();
    },
    stop: async () => {},
  };
  return {
    kind: endpointKind(desk),
    operations: [
      ...endpointOperations(desk),
      ...jobOperations(desk),
      ...streamOperations(desk),
      ...workerOperations(desk),
      ...logOperations(desk),
      ...batchOperations(desk),
      noticeRemote(remote),
    ],
    services: [opening, followup, timekeeper, batches, remote, supervisor],
    busy: async () => (await supervisor.busy()) || remote.busy(),
  };
}
