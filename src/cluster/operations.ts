// Nodes as people see them: who is there, and taking one out of service.
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { defineOperation, type Operation } from '../operation.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Clock } from '../runtime/clock.ts';
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
  const show = (row: NodeRow) => ({
    id: row.id,
    name: row.name,
    alive: nodes.isAlive(row),
    state: row.state,
    here: row.id === nodes.id,
    labels: row.labels,
    capacity: row.capacity,
    // What a dead node said last is no news of it.
    running: nodes.isAlive(row) ? Object.values(row.running).reduce((sum, n) => sum + n, 0) : 0,
    version: row.version,
    ...(row.url ? { url: row.url } : {}),
    seenAt: new Date(row.seenAt).toISOString(),
  });
  const change = (
    verb: 'cordon' | 'drain' | 'uncordon',
    state: NodeRow['state'],
    description: string,
  ): Operation =>
    defineOperation({
      name: `${verb}_node`,
      title: `${verb[0]!.toUpperCase()}${verb.slice(1)} node`,
      description,
      effect: 'write',
      idempotent: true,
      scope: 'admin',
      input: z.object({ id: nodeId }),
      output: nodeView,
      http: { method: 'POST', path: `/api/nodes/{id}/${verb}` },
      cli: { words: ['node', verb], args: ['id'] },
      run: async ({ id }) => show(await nodes.setState(id, state)),
    });
  return [
    defineOperation({
      name: 'list_nodes',
      title: 'List nodes',
      description:
        'Shows the servers that share this store: alive or not, whether they take work, their labels, what they can take and what they run. Use it to see why jobs wait or where they run. Changes nothing; drain_node and cordon_node take a node out of service. One machine alone has one node.',
      effect: 'read',
      scope: 'read',
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
      run: async () => ({ nodes: (await nodes.rows.list()).map(show) }),
    }),
    change(
      'cordon',
      'cordoned',
      'Keeps a node from taking new jobs; what runs there goes on. Use it before looking into a node; drain_node is the same with the wish to stop it afterwards, uncordon_node lets it take jobs again. It lasts over restarts of the node.',
    ),
    change(
      'drain',
      'draining',
      'Takes a node out of service: it gets no new jobs and its running ones go on to their end. Use it before a node is stopped or upgraded, then watch `running` in list_nodes until it is 0. uncordon_node takes it back.',
    ),
    change(
      'uncordon',
      'active',
      'Lets a cordoned or draining node take jobs again. Use it after cordon_node or drain_node. list_nodes shows the effect.',
    ),
    defineOperation({
      name: 'watch_job',
      title: 'Watch job',
      description:
        'Waits on the node that runs a job until a condition of its kind is met. Used between nodes by wait_for_jobs; call that instead.',
      effect: 'read',
      scope: 'admin',
      at: 'job',
      input: z.object({ id: z.string(), until: z.record(z.string(), z.unknown()) }),
      output: z.object({ reason: z.string().optional(), detail: z.unknown() }),
      run: async ({ id, until }, { signal }) => {
        const job = await jobs.get(id);
        const met = await jobs.kind(job.kind).watch?.(job, until, signal);
        return { reason: met?.reason, detail: met?.detail };
      },
    }),
    defineOperation({
      name: 'forget_node',
      title: 'Forget node',
      description:
        'Removes the row of a node that is gone for good. Use it after a machine was taken away; output that was only on that machine is gone with it. Refused while the node is alive.',
      effect: 'destroy',
      idempotent: true,
      scope: 'admin',
      input: z.object({ id: nodeId }),
      output: z.object({ id: z.string(), at: z.string() }),
      http: { method: 'DELETE', path: '/api/nodes/{id}' },
      cli: { words: ['node', 'forget'], args: ['id'] },
      run: async ({ id }) => {
        const row = await nodes.rows.find(id);
        if (row && nodes.isAlive(row))
          throw new AppError('wrongState', `Node ${id} is alive.`, { hint: 'Stop it first.' });
        await nodes.rows.forget(id);
        return { id, at: new Date(clock.now()).toISOString() };
      },
    }),
  ];
}
