// Composition root: config → store → jobs → kinds → operations → faces and dialects, and the order of start and stop.
// One line per kind and per dialect; deleting a folder and its line leaves a system that compiles.
import { createHmac } from 'node:crypto';
import { Access, accessMigrations, ownerCaller } from './access/access.ts';
import { accessOperations } from './access/operations.ts';
import { createCluster, type Cluster } from './cluster/cluster.ts';
import { nodeOperations } from './cluster/operations.ts';
import { nodeMigrations } from './cluster/store.ts';
import { isPostgres, type Config } from './config.ts';
import type { Dialect } from './dialect.ts';
import { backgroundJobDialect } from './dialects/background-job/index.ts';
import { cardzeroDialect } from './dialects/cardzero/index.ts';
import { firecrawlDialect } from './dialects/firecrawl/index.ts';
import { searchclawDialect } from './dialects/searchclaw/index.ts';
import { runpodDialect } from './dialects/runpod/index.ts';
import { registerErrors } from './errors.ts';
import { clusterHome, standAlone, type Home } from './home.ts';
import { joinLedger, openHomeStore } from './home-ledger.ts';
import { EventFeed } from './jobs/events.ts';
import { counterScope } from './jobs/intents.ts';
import { Jobs } from './jobs/jobs.ts';
import { boundKinds, jobLimits } from './jobs/limits.ts';
import { Maintenance } from './jobs/maintenance.ts';
import { jobMigrations } from './jobs/migrations.ts';
import { jobOperations } from './jobs/operations.ts';
import type { KindParts, KindPlugin } from './jobs/plugin.ts';
import { queueOperations } from './jobs/queue-operations.ts';
import { JobReferences } from './jobs/references.ts';
import { deleteJob } from './jobs/removal-operations.ts';
import { Retention } from './jobs/retention.ts';
import { Runner } from './jobs/runner.ts';
import { Waiting } from './jobs/wait.ts';
import { webhookOperations } from './jobs/webhook-operations.ts';
import { Webhooks } from './jobs/webhooks.ts';
import { webhookMigrations } from './jobs/webhook.ts';
import type { WebhookSender } from './jobs/webhook-delivery.ts';
import { commandPlugin } from './kinds/command/index.ts';
import { endpointPlugin } from './kinds/endpoint/index.ts';
import { escrowPlugin } from './kinds/escrow/index.ts';
import { webPlugin } from './kinds/web/index.ts';
import { Operations } from './operation.ts';
import type { Clock } from './runtime/clock.ts';
import { createEgress, type Egress } from './runtime/egress/index.ts';
import type { Log } from './runtime/log.ts';
import type { Service } from './runtime/service.ts';
import { PostgresStore } from './store/postgres/postgres.ts';
import type { EventRow, Migration, SearchIndex, Store } from './store/store.ts';
import { createTracing } from './tracing.ts';
import { version } from './version.ts';

export const kinds: readonly KindPlugin[] = [
  commandPlugin,
  endpointPlugin,
  escrowPlugin,
  webPlugin,
];
export const dialects: readonly Dialect[] = [
  backgroundJobDialect,
  cardzeroDialect,
  runpodDialect,
  firecrawlDialect,
  searchclawDialect,
];

export interface App {
  jobs: Jobs;
  feed: EventFeed;
  operations: Operations;
  access: Access;
  store: Store;
  runner: Runner;
  /** The time all nodes agree on. */
  clock: Clock;
  cluster: Cluster;
  /** Of the home, or of the whole cluster. */
  ownerKey: string;
  ownerKeyFile: string;
  start(): Promise<void>;
  /** Stops taking work, lets what runs here go on or stop, closes the store. */
  stop(): Promise<void>;
  /** Nothing queued, delayed, running, waiting or pending: nobody would miss this server. */
  idle(): Promise<boolean>;
}

export interface AppNeeds {
  config: Config;
  home: Home;
  clock: Clock;
  log: Log;
  /** Where HTTP is reached, once it is. */
  baseUrl(): string | undefined;
  /** The same, opening a port on loopback when there is none yet: this one, where it is free. */
  openBaseUrl(port?: number): Promise<string>;
}

const never = new AbortController().signal;
const cancelMsDefault = 10_000;
/** A node that sees many waiting jobs leaves some to the others. */
const clusterClaimMax = 4;
const webhookMsMax = 15_000;

export async function createApp(wish: AppNeeds): Promise<App> {
  const joined = await openStore(wish);
  const needs = { ...wish, ...joined };
  const { config, home, clock, log } = needs;
  const core = await createCore(needs);
  const { store, jobs, feed, waiting, access, webhooks, egress } = core;
  const operations = new Operations();
  operations.jobLimits = jobLimits(jobs);
  const tracing = createTracing({ ...needs, egress, node: home.node });
  operations.tracer = jobs.tracer = tracing?.tracer;
  operations.references = new JobReferences(jobs);
  const parts = await createKinds(needs, core, operations);
  const { leaseMs, sweepMs, stopMsMax, waitMsMax } = config.server;
  const node = home.node;
  const cluster = await createCluster({
    ...needs,
    ...core,
    operations,
    node,
    version,
    secret: home.secret,
    url: () => needs.baseUrl(),
    running: (kind) => runner.activeCount(kind),
    resumed: () => runner.wake(),
  });
  const shared = cluster.router !== undefined;
  const runner = new Runner({
    jobs,
    clock,
    log,
    node,
    leaseMs,
    stopMsMax,
    pollMs: 1000,
    accepts: (job) => cluster.nodes.accepts(job),
    startSteps: (job) => cluster.startSteps(job),
    shared,
    ...(shared ? { claimMax: clusterClaimMax } : {}),
  });
  const retention = new Retention(jobs, clock, config.retention, cluster.retention);
  const maintenance = new Maintenance({ jobs, clock, log, leaseMs, sweepMs, retention });
  operations.add(jobOperations({ jobs, feed, waiting, clock, waitMsMax, cancelMsDefault }));
  operations.add([deleteJob(jobs, retention)]);
  operations.add(queueOperations(jobs, () => runner.wake()));
  operations.add(webhookOperations(webhooks, jobs));
  operations.add(accessOperations(access, jobs, clock));
  operations.add(nodeOperations(cluster.nodes, jobs, clock));
  for (const made of parts) operations.add(made.operations, made.kind.name);
  const services: Service[] = [
    ...(tracing ? [tracing.service] : []),
    ...cluster.services,
    runner,
    maintenance,
    webhooks,
    ...parts.flatMap((made) => [...(made.services ?? [])]),
  ];
  return {
    jobs,
    feed,
    operations,
    access,
    store,
    runner,
    clock,
    cluster,
    ownerKey: home.ownerKey,
    ownerKeyFile: home.ownerKeyFile,
    start: async () => {
      for (const service of services) await service.start();
      // A cancel may come through any node; where one machine works alone, jobs tells the runner itself.
      if (shared) await feed.subscribe((event) => onCancel(event, runner));
    },
    stop: async () => {
      for (const service of services.toReversed()) await service.stop();
      feed.close();
      await egress.close();
      await store.close();
      home.release();
    },
    idle: () => idle(core, parts),
  };
}

interface Core {
  store: Store;
  jobs: Jobs;
  feed: EventFeed;
  waiting: Waiting;
  access: Access;
  webhooks: Webhooks;
  egress: Egress;
}

function onCancel({ type, jobId }: EventRow, runner: Runner): void {
  if (type === 'cancelRequested') runner.cancelRequested(jobId);
}

async function createCore(needs: AppNeeds & { store: Store }): Promise<Core> {
  const { config, home, clock, log, store } = needs;
  for (const { errors } of kinds) if (errors) registerErrors(errors);
  const jobs = new Jobs(store, clock);
  const feed = new EventFeed(store, log);
  const egress = createEgress({ policy: config.egress, clock, log });
  const secretOf = (id: string) => hmac(home, 'webhook', id);
  const send = webhookSender(egress);
  return {
    store,
    jobs,
    feed,
    egress,
    waiting: new Waiting(jobs, feed, clock),
    access: new Access(store, clock, home.ownerKey, {
      withParts: (names) => jobs.withParts(names),
      ofSubject: (subject) => boundKinds(jobs, subject),
    }),
    webhooks: new Webhooks({ jobs, store, clock, log, send, secretOf, check: egress.check }),
  };
}

async function createKinds(
  needs: AppNeeds,
  core: Core,
  operations: Operations,
): Promise<KindParts[]> {
  const { config, home, clock, log } = needs;
  const parts: KindParts[] = [];
  for (const plugin of kinds) {
    const made = await plugin.create({
      ...core,
      clock,
      log,
      settings: config.sections[plugin.name],
      node: home.node,
      folder: home.folder(plugin.name),
      home: home.path,
      secret: (name) => config.secret(name),
      homeSecret: (name) => config.homeSecret(name),
      openBaseUrl: (port) => needs.openBaseUrl(port),
      call: (name, input, signal = never) =>
        operations.call(name, input, { caller: ownerCaller(true), signal }),
      sign: (purpose, text) => hmac(home, purpose, text).toString('base64'),
    });
    core.jobs.addKind(made.kind);
    parts.push(made);
  }
  return parts;
}

const hmac = (home: Home, purpose: string, text: string): Buffer =>
  createHmac('sha256', home.secret).update(`${purpose}\n${text}`).digest();

/** Webhook addresses come from callers: guarded. The answer's body is nobody's business. */
function webhookSender(egress: Egress): WebhookSender {
  return async ({ url, headers, body }) => {
    const options = {
      method: 'POST',
      trust: 'guarded',
      redirects: 0,
      timeoutMs: webhookMsMax,
    } as const;
    const response = await egress.request({ url, headers, body, ...options });
    response.body.discard();
    return response.status;
  };
}

async function idle({ jobs, webhooks }: Core, parts: readonly KindParts[]): Promise<boolean> {
  for (const queue of await jobs.ledger.queues()) {
    const counts = await jobs.store.counters(counterScope(queue.kind, queue.name));
    const due = (counts.queued ?? 0) + (counts.running ?? 0) + (counts.input_required ?? 0);
    if (due > 0) return false;
  }
  if (await webhooks.busy()) return false;
  for (const made of parts) if (await made.busy?.()) return false;
  return true;
}

/** Every table of the core and of the kinds, in order. */
export function allMigrations(): Migration[] {
  return [
    ...jobMigrations,
    ...accessMigrations,
    ...nodeMigrations,
    ...webhookMigrations,
    ...kinds.flatMap((kind) => [...(kind.migrations ?? [])]),
  ];
}

/** Those of the kinds, for a copy into another engine. */
export function searchIndexes(): SearchIndex[] {
  return kinds.flatMap((kind) => [...(kind.searchIndexes ?? [])]);
}

/** Opens the store and, in a cluster, takes over what its nodes share: the time, the secret, the owner's key. */
async function openStore({ config, home, clock }: AppNeeds): Promise<{
  store: Store;
  home: Home;
  clock: Clock;
  seenAs?: string | undefined;
}> {
  if (!isPostgres(config.store)) {
    standAlone(config.home, config.store !== undefined);
    return { store: await openHomeStore(config.home, allMigrations()), home, clock };
  }
  const store = await PostgresStore.open(config.store, clock);
  return closedOnError(store, async () => {
    await store.check(allMigrations());
    const key = config.secret('ERRAND_CLUSTER_KEY');
    const secret = await store.join({ name: config.cluster.name, key });
    const digest = hmac({ ...home, secret }, 'owner key', '').toString('hex');
    const shared = { secret, ownerKey: `errand_${digest.slice(0, 40)}` };
    const seenAs = await store.seenAs();
    await joinLedger(config.home, store, store.shown);
    const joined = clusterHome(home, shared);
    return { store, home: joined, clock: store.clock, seenAs };
  });
}

async function closedOnError<T>(store: Store, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    await store.close();
    throw error;
  }
}
