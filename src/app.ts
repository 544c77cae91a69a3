// Composition root: config → store → jobs → kinds → operations, and the order of start and stop. Each kind and each dialect
// has one line here. Deleting its folder and its line leaves a system that compiles.
import { createHmac } from 'node:crypto';
import { Access, accessMigrations, ownerCaller } from './access/keys.ts';
import { accessOperations } from './access/operations.ts';
import { sessionMigrations } from './access/session-migrations.ts';
import { sessionOperations } from './access/session-operations.ts';
import { Sessions } from './access/sessions.ts';
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
import { changeKind } from './jobs/change-kind.ts';
import { EventFeed } from './jobs/events.ts';
import { counterScope } from './jobs/intents.ts';
import type { JobsHooks } from './jobs/hooks.ts';
import { Jobs } from './jobs/jobs.ts';
import { boundKinds, jobLimits } from './jobs/limits.ts';
import { Maintenance } from './jobs/maintenance.ts';
import { jobMigrations } from './jobs/migrations.ts';
import { jobOperations } from './jobs/operations/index.ts';
import { folderName, type KindParts, type KindPlugin } from './plugin.ts';
import { queueOperations } from './jobs/operations/queues.ts';
import { JobReferences } from './jobs/references.ts';
import { deleteJob } from './jobs/operations/removal.ts';
import { Retention } from './jobs/retention.ts';
import { Runner } from './jobs/runner.ts';
import { JobWaiter } from './jobs/wait.ts';
import { changeJobs } from './jobs/operations/change.ts';
import { countJobs } from './jobs/operations/count.ts';
import { getStats } from './jobs/operations/stats.ts';
import { JobWatch } from './jobs/watch.ts';
import { watchJobs } from './jobs/operations/watch.ts';
import { webhookOperations } from './webhooks/operations.ts';
import { Webhooks } from './webhooks/webhooks.ts';
import { removeWebhooksOfKey, webhookMigrations } from './webhooks/rows.ts';
import type { WebhookSender } from './webhooks/sender.ts';
import { withEndActions } from './webhooks/end-actions.ts';
import { commandPlugin } from './kinds/command/index.ts';
import { endpointPlugin } from './kinds/endpoint/index.ts';
import { escrowPlugin } from './kinds/escrow/index.ts';
import { webPlugin } from './kinds/web/index.ts';
import { Operations } from './operation.ts';
import type { Clock } from './runtime/clock.ts';
import { createEgress, type Egress } from './runtime/egress/index.ts';
import type { Log } from './runtime/log.ts';
import { showNotification } from './runtime/notification.ts';
import type { Service } from './runtime/service.ts';
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
  sessions: Sessions;
  store: Store;
  runner: Runner;
  /** The clock that all nodes share. */
  clock: Clock;
  cluster: Cluster;
  /** The home's owner key, or that of the whole cluster. */
  ownerKey: string;
  ownerKeyFile: string;
  /** Distinguishes the session cookies of several homes on one host. The nodes of a cluster share it. */
  cookieTag: string;
  start(): Promise<void>;
  /** Stops claiming work, lets running attempts continue or stop as their kind decides, and closes the store. */
  stop(): Promise<void>;
  /** True if no job is queued, delayed or running and no delivery is pending. */
  idle(): Promise<boolean>;
}

interface AppDeps {
  config: Config;
  home: Home;
  clock: Clock;
  log: Log;
  /** The HTTP base URL, once a port is open. */
  baseUrl(): string | undefined;
  /** Returns the base URL and opens a loopback port if there is none: the given port if it is free. */
  openBaseUrl(port?: number): Promise<string>;
}

const never = new AbortController().signal;
const cancelMsDefault = 10_000;
/** A node claims at most this many jobs at a time, so that other nodes get some. */
const maxClusterClaim = 4;
const maxWebhookMs = 15_000;

export async function createApp(options: AppDeps): Promise<App> {
  const joined = await openStore(options);
  const deps = { ...options, ...joined };
  const { config, home, clock, log } = deps;
  // The cluster needs the jobs and the operations, which use it once it exists.
  const late: { cluster?: Cluster; operations?: Operations } = {};
  const hooks: JobsHooks = {
    acceptsWork: () => late.cluster?.nodes.acceptsWork ?? true,
    explainWait: async (job) => late.cluster?.nodes.explainWait(job),
    tracer: () => tracing?.tracer,
  };
  const core = await createCore(deps, hooks, () => late.operations!);
  const { store, jobs, feed, waiting, access, webhooks, egress } = core;
  const tracing = createTracing({ ...deps, egress, node: home.node });
  const operations = new Operations({
    jobLimits: jobLimits(jobs),
    references: new JobReferences(jobs),
    tracer: tracing?.tracer,
    elsewhere: () => late.cluster?.router,
  });
  late.operations = operations;
  const parts = await createKinds(deps, core, operations);
  for (const format of dialects.flatMap((dialect) => dialect.webhooks ?? []))
    webhooks.addFormat(format);
  const { leaseMs, sweepMs, maxStopMs, maxWaitMs } = config.server;
  const node = home.node;
  const cluster = await createCluster({
    ...deps,
    ...core,
    operations,
    node,
    version,
    secret: home.secret,
    url: () => deps.baseUrl(),
    running: (kind) => runner.activeCount(kind),
    onResume: () => runner.wake(),
  });
  late.cluster = cluster;
  const shared = cluster.router !== undefined;
  const retention = new Retention(jobs, clock, config.retention, cluster.retention);
  // Before the runner, which reads the kinds once.
  jobs.addKind(changeKind(jobs, retention, () => clock.now()));
  const runner = new Runner({
    jobs,
    clock,
    log,
    node,
    leaseMs,
    maxStopMs,
    pollMs: 1000,
    accepts: (job) => cluster.nodes.accepts(job),
    startSteps: (job) => cluster.startSteps(job),
    shared,
    ...(shared ? { maxClaim: maxClusterClaim } : {}),
  });
  const maintenance = new Maintenance({ jobs, clock, log, leaseMs, sweepMs, retention });
  operations.add(jobOperations({ jobs, feed, waiting, clock, maxWaitMs, cancelMsDefault }));
  operations.add([deleteJob(jobs, retention)]);
  operations.add([
    countJobs({ jobs }),
    getStats({ jobs, clock }),
    changeJobs({ jobs, clock, retention }),
  ]);
  operations.add([watchJobs({ jobs, watch: new JobWatch({ jobs, feed, clock }) })]);
  operations.add(queueOperations(jobs, () => runner.wake()));
  operations.add(webhookOperations(webhooks, jobs));
  operations.add(accessOperations(access, jobs, clock));
  const { sessions } = core;
  const offered = () => parts.map((made) => made.kind.name);
  operations.add(sessionOperations({ sessions, version, kinds: offered, ...browserUrls(deps) }));
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
    sessions,
    store,
    runner,
    clock,
    cluster,
    ownerKey: home.ownerKey,
    ownerKeyFile: home.ownerKeyFile,
    cookieTag: hmac(home, 'session cookie', '').toString('hex').slice(0, 8),
    start: async () => {
      for (const service of services) await service.start();
      // Any node may receive a cancel. On a single server, `jobs` notifies the runner directly.
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
  waiting: JobWaiter;
  access: Access;
  sessions: Sessions;
  webhooks: Webhooks;
  egress: Egress;
}

/** Where browsers find this server: at its public URL behind a proxy, otherwise at its own. */
function browserUrls({ baseUrl, openBaseUrl, config: { server } }: AppDeps) {
  const url = () => server.publicUrl?.replace(/\/$/, '') ?? baseUrl();
  return {
    url,
    openUrl: async () => {
      const opened = await openBaseUrl(server.port);
      return url() ?? opened;
    },
  };
}

function onCancel({ type, jobId }: EventRow, runner: Runner): void {
  if (type === 'cancelRequested') runner.cancelRequested(jobId);
}

async function createCore(
  deps: AppDeps & { store: Store },
  hooks: JobsHooks,
  operations: () => Operations,
): Promise<Core> {
  const { config, home, clock, log, store } = deps;
  for (const { errors } of kinds) if (errors) registerErrors(errors);
  const jobs = new Jobs(store, clock, hooks);
  const feed = new EventFeed(store, log);
  const egress = createEgress({ policy: config.egress, clock, log });
  const secretOf = (id: string) => hmac(home, 'webhook', id);
  const { commands } = config.onEnd;
  const send = withEndActions(webhookSender(egress), {
    commands,
    notify: showNotification,
    call: (contract, input) =>
      operations().call(contract, input, { caller: ownerCaller(true), signal: never }),
  });
  const access = new Access(store, clock, home.ownerKey, {
    withParts: (names) => jobs.withParts(names),
    ofSubject: (subject) => boundKinds(jobs, subject),
  });
  access.onEnd(removeWebhooksOfKey);
  const { maxSessionMs } = config.http;
  return {
    store,
    jobs,
    feed,
    egress,
    waiting: new JobWaiter(jobs, feed, clock),
    access,
    sessions: new Sessions({ store, clock, access, ownerKey: home.ownerKey, maxSessionMs }),
    webhooks: new Webhooks({
      ...{ jobs, store, clock, log, send, secretOf, commands },
      check: egress.check,
    }),
  };
}

async function createKinds(
  deps: AppDeps,
  core: Core,
  operations: Operations,
): Promise<KindParts[]> {
  const { config, home, clock, log } = deps;
  const parts: KindParts[] = [];
  for (const plugin of kinds) {
    const made = await plugin.create({
      ...core,
      clock,
      log,
      settings: config.sections[plugin.name],
      node: home.node,
      folder: home.folder(folderName(plugin)),
      home: home.path,
      secret: (name) => config.secret(name),
      homeSecret: (name) => config.homeSecret(name),
      openBaseUrl: (port) => deps.openBaseUrl(port),
      call: (contract, input, signal = never) =>
        operations.call(contract, input, { caller: ownerCaller(true), signal }),
      sign: (purpose, text) => hmac(home, purpose, text).toString('base64'),
    });
    core.jobs.addKind(made.kind);
    parts.push(made);
  }
  return parts;
}

const hmac = (home: Home, purpose: string, text: string): Buffer =>
  createHmac('sha256', home.secret).update(`${purpose}\n${text}`).digest();

/** Webhook URLs come from callers, so they are guarded. The response body is not read. */
function webhookSender(egress: Egress): WebhookSender {
  return async ({ url, headers, body }) => {
    const options = {
      method: 'POST',
      trust: 'guarded',
      redirects: 0,
      timeoutMs: maxWebhookMs,
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

/** The migrations of the core and of all kinds, in order. */
export function allMigrations(): Migration[] {
  return [
    ...jobMigrations,
    ...accessMigrations,
    ...sessionMigrations,
    ...nodeMigrations,
    ...webhookMigrations,
    ...kinds.flatMap((kind) => [...(kind.migrations ?? [])]),
  ];
}

/** The kinds' search indexes, which a copy to another database rebuilds. */
export function searchIndexes(): SearchIndex[] {
  return kinds.flatMap((kind) => [...(kind.searchIndexes ?? [])]);
}

/** Opens the store. In a cluster it also adopts what the nodes share: clock, secret and owner key. */
async function openStore({ config, home, clock }: AppDeps): Promise<{
  store: Store;
  home: Home;
  clock: Clock;
  clientAddress?: string | undefined;
}> {
  if (!isPostgres(config.store)) {
    standAlone(config.home, config.store !== undefined);
    return { store: await openHomeStore(config.home, allMigrations()), home, clock };
  }
  const { PostgresStore } = await import('./store/postgres/postgres.ts');
  const store = await PostgresStore.open(config.store, clock);
  return closedOnError(store, async () => {
    await store.check(allMigrations());
    const key = config.secret('ERRAND_CLUSTER_KEY');
    const secret = await store.join({ name: config.cluster.name, key });
    const digest = hmac({ ...home, secret }, 'owner key', '').toString('hex');
    const shared = { secret, ownerKey: `errand_${digest.slice(0, 40)}` };
    const clientAddress = await store.clientAddress();
    await joinLedger(config.home, store, store.label);
    const joined = clusterHome(home, shared);
    return { store, home: joined, clock: store.clock, clientAddress };
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
