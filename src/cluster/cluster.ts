// What makes a server a node: its row, the way to the others, kept output. Composed by app.ts; one machine alone has the
// row and nothing else.
import { existsSync } from 'node:fs';
import { AppError } from '../errors.ts';
import type { Job } from '../jobs/job.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Kind } from '../jobs/kind.ts';
import type { RetentionShare } from '../jobs/retention.ts';
import type { Operations } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Egress } from '../runtime/egress/index.ts';
import type { Log } from '../runtime/log.ts';
import type { Service } from '../runtime/service.ts';
import type { Step, Store } from '../store/store.ts';
import { nodeUrl } from './address.ts';
import { Archive, type ArchiveSettings } from './archive.ts';
import { Litter } from './litter.ts';
import { Nodes } from './nodes.ts';
import { Router } from './router.ts';
import { NodeRows } from './store.ts';

/** What of the configuration a node needs. */
export interface ClusterConfig {
  home: string;
  server: { leaseMs: number; host: string };
  cluster: {
    labels: readonly string[];
    nodeUrl?: string | undefined;
    goneMs: number;
    archive?: ArchiveSettings | undefined;
  };
  secret(name: string): string | undefined;
}

export interface ClusterNeeds {
  config: ClusterConfig;
  store: Store;
  jobs: Jobs;
  operations: Operations;
  egress: Egress;
  clock: Clock;
  log: Log;
  node: string;
  version: string;
  /** Shared by all nodes. */
  secret: Buffer;
  url(): string | undefined;
  /** This node's address as the database sees it. */
  seenAs?: string | undefined;
  running(kind: string): number;
  resumed(): void;
}

export interface Cluster {
  nodes: Nodes;
  /** Only where there can be other nodes. */
  router: Router | undefined;
  services: Service[];
  /** Steps of the transaction that starts an attempt. */
  startSteps(job: Job): Step[];
  /** What retention needs to know of the other nodes; undefined where there are none. */
  retention: RetentionShare | undefined;
}

export async function createCluster(needs: ClusterNeeds): Promise<Cluster> {
  const { config, store, jobs, operations, egress, clock, log, node } = needs;
  const rows = new NodeRows(store);
  const perKind = (count: (kind: Kind) => number) =>
    Object.fromEntries(
      jobs
        .listKinds()
        .filter((kind) => kind.run)
        .map((kind) => [kind.name, count(kind)]),
    );
  const nodes = new Nodes({
    rows,
    clock,
    log,
    id: node,
    home: config.home,
    version: needs.version,
    labels: config.cluster.labels,
    leaseMs: config.server.leaseMs,
    url: () => config.cluster.nodeUrl?.replace(/\/+$/, '') ?? ownUrl(needs),
    capacity: () => perKind((kind) => kind.capacity()),
    running: () => perKind((kind) => needs.running(kind.name)),
    resumed: () => needs.resumed(),
  });
  jobs.admits = () => nodes.takesWork;
  jobs.whyWaits = (job) => nodes.whyWaits(job);
  const folderOf = (job: Job) => jobs.kind(job.kind).folder?.(job.id);
  const archive = await openArchive(needs, rows, folderOf);
  const router =
    store.engine === 'postgres'
      ? new Router({
          jobs,
          nodes,
          operations,
          egress,
          clock,
          secret: needs.secret,
          isHere: (job) => {
            const folder = folderOf(job);
            return folder !== undefined && existsSync(folder);
          },
          restore: async (job) => {
            const folder = folderOf(job);
            return archive && folder ? archive.restore(job, folder) : false;
          },
        })
      : undefined;
  if (router) operations.elsewhere = router;
  const { goneMs } = config.cluster;
  const litter = new Litter({ rows, node, goneMs, kinds: () => jobs.listKinds(), clock, log });
  return {
    nodes,
    router,
    services: [nodes, ...(archive ? [archive] : []), ...(router ? [litter] : [])],
    startSteps: (job) =>
      archive && jobs.kind(job.kind).folder ? [rows.archiveStep(job.id, node)] : [],
    retention: router && {
      node,
      goneMs,
      steps: (jobIds) => rows.litterSteps(jobIds, node),
      forget: async (jobIds) => archive?.forget(jobIds),
    },
  };
}

function ownUrl({ config, url, seenAs }: ClusterNeeds): string | undefined {
  const local = url();
  return local && nodeUrl({ url: local, host: config.server.host, seenAs });
}

async function openArchive(
  { config, egress, clock, log, node, jobs }: ClusterNeeds,
  rows: NodeRows,
  folderOf: (job: Job) => string | undefined,
): Promise<Archive | undefined> {
  const settings = config.cluster.archive;
  if (!settings) return undefined;
  const accessKeyId = config.secret('ERRAND_S3_ACCESS_KEY_ID');
  const secretAccessKey = config.secret('ERRAND_S3_SECRET_ACCESS_KEY');
  if (!accessKeyId || !secretAccessKey) {
    throw new AppError('invalidInput', 'cluster.archive is set, but its keys are not.', {
      hint: 'Set ERRAND_S3_ACCESS_KEY_ID and ERRAND_S3_SECRET_ACCESS_KEY in the environment or in home/env.',
    });
  }
  return Archive.create({
    settings,
    accessKeyId,
    secretAccessKey,
    rows,
    node,
    egress,
    clock,
    log,
    folderOf,
    find: (id) => jobs.ledger.find(id),
  });
}
