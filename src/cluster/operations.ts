// Nodes as people see them: who is there, and taking one out of service.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Operation } from '../operation.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import type { Nodes } from './nodes.ts';
import { nodeStates, type NodeRow } from './store.ts';

const nodeId = z.string().min(1).max(60);

const nodeView = z.object({
  id: z.string(),
  name: z.string(),
  alive: z.boolean(),
  state: z.enum(nodeStates),
  here: z.boolean().describe('The node that answered'),
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
      'Keeps a node from taking new jobs; what runs there goes on. Use it before looking into a node; drain_node is the same with the wish to stop it afterwards, uncordon_node lets it take jobs again. It lasts over restarts of the node.',
    ),
    changeNode(
      nodes,
      { verb: 'drain', state: 'draining' },
      'Takes a node out of service: it gets no new jobs and its running ones go on to their end. Use it before a node is stopped or upgraded, then watch `running` in list_nodes until it is 0. uncordon_node takes it back.',
    ),
    changeNode(
      nodes,
      { verb: 'uncordon', state: 'active' },
      'Lets a cordoned or draining node take jobs again. Use it after cordon_node or drain_node. list_nodes shows the effect.',
    ),
    watchJob(jobs),
    forgetNode(nodes, clock),
  ];
}

function listNodes(nodes: Nodes): Operation {
  return defineOperation({
    name: 'list_nodes',
    title: 'List nodes',
    description:
      'Shows the servers that share this store: alive or not, whether they take work, their labels, what they can take and what they run. Use it to see why jobs wait or where they run. Changes nothing; drain_node and cordon_node take a node out of service. One machine alone has one node.',
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
    run: async () => ({ nodes: (await nodes.rows.list()).map((row) => show(row, nodes)) }),
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
    run: async ({ id }) => show(await nodes.setState(id, state), nodes),
  });
}

function watchJob(jobs: Jobs): Operation {
  return defineOperation({
    name: 'watch_job',
    title: 'Watch job',
    description:
      'Waits on the node that runs a job until a condition of its kind is met. Used between nodes by wait_for_jobs; call that instead.',
    effect: 'read',
    scope: 'admin',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    input: z.object({ id: z.string(), until: z.record(z.string(), z.unknown()) }),
    output: z.object({ reason: z.string().optional(), detail: z.unknown() }),
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
      'Removes the row of a node that is gone for good. Use it after a machine was taken away; output that was only on that machine is gone with it. Refused while the node is alive.',
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
  new AppError('notFound', `There is no node ${id}.`, {
    hint: '`errand node list` (list_nodes) shows all nodes with their ids.',
  });

function show(row: NodeRow, nodes: Nodes): z.infer<typeof nodeView> {
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
    // What a dead node said last is no news of it.
    running: alive ? Object.values(row.running).reduce((sum, n) => sum + n, 0) : 0,
    version,
    ...(row.url ? { url: row.url } : {}),
    seenAt: isoTime(row.seenAt),
  };
}
