// Turns a server into a cluster node: its row, the route to other nodes, and archived output. app.ts composes it. A
// single machine has only the row.
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
import { OrphanedFiles } from './orphaned-files.ts';
import { Nodes } from './nodes.ts';
import { Router } from './router.ts';
import { NodeRows } from './store.ts';

/** The part of the configuration that a node needs. */
interface ClusterConfig {
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

interface ClusterDeps {
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
  clientAddress?: string | undefined;
  running(kind: string): number;
  onResume(): void;
}

export interface Cluster {
  nodes: Nodes;
  /** Undefined if there cannot be other nodes. */
  router: Router | undefined;
  services: Service[];
  /** Steps for the transaction that starts an attempt. */
  startSteps(job: Job): Step[];
  /** What retention needs to know about other nodes; undefined if there cannot be any. */
  retention: RetentionShare | undefined;
}

export async function createCluster(deps: ClusterDeps): Promise<Cluster> {
  const { config, store, jobs, operations, egress, clock, log, node } = deps;
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
    version: deps.version,
    labels: config.cluster.labels,
    leaseMs: config.server.leaseMs,
    url: () => config.cluster.nodeUrl?.replace(/\/+$/, '') ?? ownUrl(deps),
    capacity: () => perKind((kind) => kind.capacity()),
    running: () => perKind((kind) => deps.running(kind.name)),
    onResume: () => deps.onResume(),
  });
  const folderOf = (job: Job) => jobs.kind(job.kind).folder?.(job.id);
  const archive = await openArchive(deps, rows, folderOf);
  const router =
    store.engine === 'postgres'
      ? new Router({
          jobs,
          nodes,
          operations,
          egress,
          clock,
          secret: deps.secret,
          isHere: (job) => existsSync(folderOf(job) ?? ''),
          restore: async (job) => {
            const folder = folderOf(job);
            return archive && folder ? archive.restore(job, folder) : false;
          },
        })
      : undefined;
  const { goneMs } = config.cluster;
  const orphanedFiles = new OrphanedFiles({
    rows,
    node,
    goneMs,
    kinds: () => jobs.listKinds(),
    clock,
    log,
  });
  return {
    nodes,
    router,
    services: [nodes, ...(archive ? [archive] : []), ...(router ? [orphanedFiles] : [])],
    startSteps: (job) =>
      archive && jobs.kind(job.kind).folder ? [rows.archiveStep(job.id, node)] : [],
    retention: router && {
      node,
      goneMs,
      steps: (jobIds) => rows.orphanedFileSteps(jobIds, node),
      forget: async (jobIds) => archive?.forget(jobIds),
    },
  };
}

function ownUrl({ config, url, clientAddress }: ClusterDeps): string | undefined {
  const local = url();
  return local && nodeUrl({ url: local, host: config.server.host, clientAddress });
}

async function openArchive(
  { config, egress, clock, log, node, jobs }: ClusterDeps,
  rows: NodeRows,
  folderOf: (job: Job) => string | undefined,
): Promise<Archive | undefined> {
  const settings = config.cluster.archive;
  if (!settings) return undefined;
  const accessKeyId = config.secret('ERRAND_S3_ACCESS_KEY_ID');
  const secretAccessKey = config.secret('ERRAND_S3_SECRET_ACCESS_KEY');
  if (!accessKeyId || !secretAccessKey) {
    throw new AppError('invalidInput', 'cluster.archive is set, but its access keys are not.', {
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
