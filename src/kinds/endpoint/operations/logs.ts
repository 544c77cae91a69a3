// What workers printed: one operation, to read or to follow.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type CallContext, type Operation } from '../../../operation.ts';
import type { Desk } from '../desk.ts';
import { tailMax, type LogLine, type LogQuery } from '../logs.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { ofEndpoint } from './reach.ts';

const followMs = 300;
const textCharsMax = 30_000;

const input = z.object({
  endpointId: z.string().max(100),
  workerId: z
    .string()
    .max(120)
    .optional()
    .describe('Default: the newest worker, also one that ended'),
  source: z.enum(['container', 'system', 'both']).default('both'),
  tail: z.number().int().min(0).max(tailMax).default(100).describe('Last lines'),
  since: z.iso.datetime({ offset: true }).optional().describe('Instead of tail'),
  jobId: jobId.optional().describe('Only lines the worker says belong to this job'),
  cursor: z.string().max(80).optional().describe('Id of the last event, to go on'),
});
type Input = z.infer<typeof input>;

export function logOperations(desk: Desk): Operation[] {
  return [
    defineOperation({
      name: 'read_worker_log',
      title: 'Read worker log',
      description:
        'Reads what a worker of an endpoint printed, and what the server notes about it (start, stop, exit), with times and, where the worker says so, the job of each line. Without workerId the newest worker. Use it when workers die or a job fails without a reason; list_workers shows the ids. Over SSE it follows.',
      effect: 'read',
      scope: 'read',
      reach: ofEndpoint,
      toolsets: ['endpoints'],
      input,
      output: z.object({
        workerId: z.string(),
        lines: z.array(
          z.object({
            ts: z.string(),
            source: z.enum(['container', 'system']),
            line: z.string(),
            jobId: z.string().optional(),
            level: z.string().optional(),
            offset: z.number().optional(),
          }),
        ),
      }),
      http: { method: 'GET', path: '/api/endpoints/{endpointId}/log' },
      cli: {
        words: ['endpoint', 'log'],
        args: ['endpointId', 'workerId'],
        table: { rows: 'lines', columns: ['ts', 'source', 'jobId', 'line'] },
      },
      text: ({ workerId, lines }) =>
        [`worker ${workerId}`, ...lines.map(({ ts, line }) => `${ts} ${line}`)]
          .join('\n')
          .slice(-textCharsMax),
      run: async (wish, { caller }) => {
        const workerId = await workerOf(desk, wish, caller);
        return { workerId, lines: desk.logs.read(wish.endpointId, workerId, queryOf(wish)) };
      },
      stream: (wish, context) => follow(desk, wish, context),
    }),
  ];
}

async function* follow(desk: Desk, wish: Input, { caller, signal }: CallContext) {
  const { logs, clock, hub } = desk;
  const workerId = await workerOf(desk, wish, caller);
  const resumed = wish.cursor === undefined ? undefined : Number(wish.cursor.split('/').at(-1));
  let after = resumed ?? 0;
  let systemAt = wish.cursor === undefined ? '' : wish.cursor.split('/')[0]!;
  const item = (line: LogLine) => {
    if (line.source === 'system') systemAt = line.ts;
    after = line.offset ?? after;
    const id = `${line.ts}/${String(after).padStart(12, '0')}`;
    return { event: 'line', data: line, id };
  };
  if (resumed === undefined) {
    after = logs.end(wish.endpointId, workerId);
    const end = after;
    for (const line of logs.read(wish.endpointId, workerId, queryOf(wish))) yield item(line);
    after = Math.max(after, end);
  }
  while (!signal.aborted) {
    const live = hub.find(wish.endpointId, workerId) !== undefined;
    const query: LogQuery = { source: wish.source, after };
    if (wish.jobId !== undefined) query.jobId = wish.jobId;
    for (const line of logs.read(wish.endpointId, workerId, query)) {
      if (line.source === 'system' && line.ts <= systemAt) continue;
      yield item(line);
    }
    if (!live) return;
    await clock.sleep(followMs, signal);
  }
}

function queryOf(wish: Input): LogQuery {
  return {
    source: wish.source,
    tail: wish.tail,
    ...(wish.since === undefined ? {} : { since: Date.parse(wish.since) }),
    ...(wish.jobId === undefined ? {} : { jobId: wish.jobId }),
  };
}

async function workerOf(desk: Desk, wish: Input, caller: CallContext['caller']): Promise<string> {
  const endpoint = await desk.endpoints.get(wish.endpointId, caller);
  if (wish.workerId !== undefined) {
    if (await desk.store.worker({ endpointId: endpoint.id, id: wish.workerId }))
      return wish.workerId;
    throw noWorker(`There is no worker ${wish.workerId} of ${endpoint.id}.`);
  }
  const live = await desk.store.liveWorkers(endpoint.id);
  const newest = live.at(-1) ?? (await desk.store.endedWorkers(endpoint.id, 1))[0];
  if (!newest) throw noWorker(`${endpoint.id} has had no worker yet.`);
  return newest.id;
}

function noWorker(message: string): AppError {
  return new AppError('notFound', message, { hint: 'list_workers shows them.' });
}
