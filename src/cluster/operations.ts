// Operations on nodes: list them, take them out of service, and forget them.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Operation } from '../operation.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import type { Nodes } from './nodes.ts';
import { nodeStates, type NodeRow } from './store.ts';
import { watchJob } from '../contracts/jobs.ts';

const nodeId = z.string().min(1).max(60);

const nodeView = z.object({
  id: z.string(),
  name: z.string(),
  alive: z.boolean(),
  state: z.enum(nodeStates),
  here: z.boolean().describe('The node that handled this call'),
  labels: z.array(z.string()),
  capacity: z.record(z.string(), z.number()),
  running: z.number(),
  version: z.string(),
  url: z.string().optional(),
  seenAt: z.string(),
});

export function nodeOperations(nodes: Nodes, jobs: Jobs, clock: Clock): Operation[] {
  return [
    listNodes(nodes),
    changeNode(
      nodes,
      { verb: 'cordon', state: 'cordoned' },
      'Stops a node from taking new jobs; running jobs continue. Use it before investigating a node; use drain_node before stopping one. uncordon_node reverses it. The state survives restarts of the node.',
    ),
    changeNode(
      nodes,
      { verb: 'drain', state: 'draining' },
      'Takes a node out of service: it gets no new jobs, and running jobs continue to their end. Use it before stopping or upgrading a node, then watch `running` in list_nodes until it is 0. uncordon_node reverses it.',
    ),
    changeNode(
      nodes,
      { verb: 'uncordon', state: 'active' },
      'Lets a cordoned or draining node take jobs again. Use it after cordon_node or drain_node. list_nodes shows the effect.',
    ),
    watchJobOperation(jobs),
    forgetNode(nodes, clock),
  ];
}

function listNodes(nodes: Nodes): Operation {
  return defineOperation({
    name: 'list_nodes',
    title: 'List nodes',
    description:
      'Lists the servers that share this store: whether each is alive and accepts work, its labels, capacity and running jobs. Use it to see why jobs wait or where they run. Read-only; drain_node and cordon_node take a node out of service. A single machine has one node.',
    effect: 'read',
    scope: 'read',
    reach: 'everything',
    input: z.object({}),
    output: z.object({ nodes: z.array(nodeView) }),
    http: { method: 'GET', path: '/api/nodes' },
    cli: {
      words: ['node', 'list'],
      table: {
        rows: 'nodes',
        columns: ['id', 'name', 'alive', 'state', 'running', 'labels', 'version'],
      },
    },
    run: async () => ({ nodes: (await nodes.rows.list()).map((row) => toView(row, nodes)) }),
  });
}

function changeNode(
  nodes: Nodes,
  { verb, state }: { verb: 'cordon' | 'drain' | 'uncordon'; state: NodeRow['state'] },
  description: string,
): Operation {
  return defineOperation({
    name: `${verb}_node`,
    title: `${verb[0]!.toUpperCase()}${verb.slice(1)} node`,
    description,
    effect: 'write',
    idempotent: true,
    scope: 'admin',
    reach: 'everything',
    input: z.object({ id: nodeId }),
    output: nodeView,
    http: { method: 'POST', path: `/api/nodes/{id}/${verb}` },
    cli: { words: ['node', verb], args: ['id'] },
    run: async ({ id }) => toView(await nodes.setState(id, state), nodes),
  });
}

function watchJobOperation(jobs: Jobs): Operation {
  return defineOperation({
    ...watchJob,
    isInternal: true,
    title: 'Watch job',
    description:
      'Waits on the node that runs a job until a condition of its kind is met. Nodes use it for wait_for_jobs; call that instead.',
    effect: 'read',
    scope: 'admin',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    run: async ({ id, until }, { signal }) => {
      const job = await jobs.get(id);
      const met = await jobs.kind(job.kind).watch?.(job, until, signal);
      return { reason: met?.reason, detail: met?.detail };
    },
  });
}

function forgetNode(nodes: Nodes, clock: Clock): Operation {
  return defineOperation({
    name: 'forget_node',
    title: 'Forget node',
    description:
      'Removes a node that is permanently gone. Use it after a machine was decommissioned; output that existed only on that machine is lost. Fails while the node is alive.',
    effect: 'destroy',
    idempotent: true,
    scope: 'admin',
    reach: 'everything',
    input: z.object({ id: nodeId }),
    output: z.object({ id: z.string(), at: z.string() }),
    http: { method: 'DELETE', path: '/api/nodes/{id}' },
    cli: { words: ['node', 'forget'], args: ['id'] },
    run: async ({ id }) => {
      const row = await nodes.rows.find(id);
      if (!row) throw unknownNode(id);
      if (nodes.isAlive(row))
        throw new AppError('wrongState', `Node ${id} is alive.`, { hint: 'Stop it first.' });
      await nodes.rows.forget(id);
      return { id, at: isoTime(clock.now()) };
    },
  });
}

const unknownNode = (id: string): AppError =>
  new AppError('notFound', `Node ${id} does not exist.`, {
    hint: '`errand node list` (list_nodes) shows all nodes with their ids.',
  });

function toView(row: NodeRow, nodes: Nodes): z.infer<typeof nodeView> {
  const { id, name, state, labels, capacity, version } = row;
  const alive = nodes.isAlive(row);
  return {
    id,
    name,
    alive,
    state,
    here: id === nodes.id,
    labels,
    capacity,
    // The last report of a dead node is outdated.
    running: alive ? Object.values(row.running).reduce((sum, n) => sum + n, 0) : 0,
    version,
    ...(row.url ? { url: row.url } : {}),
    seenAt: isoTime(row.seenAt),
  };
}
