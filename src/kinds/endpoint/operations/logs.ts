// Worker logs: one operation that reads or follows them.
import type { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type CallContext, type Operation } from '../../../operation.ts';
import { fitItems } from '../../../runtime/response-budget.ts';
import type { EndpointDeps } from '../deps.ts';
import * as contracts from '../contracts/workers.ts';
import type { LogLine, LogQuery } from '../workers/logs.ts';
import { ofEndpoint } from './reach.ts';

const followMs = 300;

type Input = z.infer<typeof contracts.logInput>;

export function logOperations(deps: EndpointDeps): Operation[] {
  return [
    defineOperation({
      ...contracts.readWorkerLog,
      title: 'Read worker log',
      description:
        'Reads what a worker of an endpoint printed, and what the server logged about it (start, stop, exit), with timestamps and the job of each line if the worker reports it. Default: the newest worker. Use it when workers die or a job fails without a reason. list_workers shows the ids. Over SSE it follows the log.',
      effect: 'read',
      scope: 'read',
      reach: ofEndpoint,
      toolsets: ['endpoints'],
      http: { method: 'GET', path: '/api/endpoints/{endpointId}/log' },
      cli: {
        words: ['endpoint', 'log'],
        args: ['endpointId', 'workerId'],
        table: { rows: 'lines', columns: ['ts', 'source', 'jobId', 'line'] },
      },
      text: ({ workerId, lines, omitted: left }) =>
        [
          `worker ${workerId}`,
          ...(left?.items === undefined ? [] : [`[${left.items} earlier lines: ${left.reason}]`]),
          ...lines.map(({ ts, line }) => `${ts} ${line}`),
        ].join('\n'),
      run: async (input, { caller, maxResponseBytes }) => {
        const workerId = await workerOf(deps, input, caller);
        const lines = deps.logs.read(input.endpointId, workerId, queryOf(input));
        const rest = 'pass a jobId, or reduce the result with `source` or `tail`';
        const { shown, ...left } = fitItems(lines.toReversed(), maxResponseBytes, rest);
        return { workerId, lines: shown.toReversed(), ...left };
      },
      stream: (input, context) => follow(deps, input, context),
    }),
  ];
}

async function* follow(deps: EndpointDeps, input: Input, { caller, signal }: CallContext) {
  const { logs, clock, registry } = deps;
  const workerId = await workerOf(deps, input, caller);
  const resumed = input.cursor === undefined ? undefined : Number(input.cursor.split('/').at(-1));
  let after = resumed ?? 0;
  let systemAt = input.cursor === undefined ? '' : input.cursor.split('/')[0]!;
  const item = (line: LogLine) => {
    if (line.source === 'system') systemAt = line.ts;
    after = line.offset ?? after;
    const id = `${line.ts}/${String(after).padStart(12, '0')}`;
    return { event: 'line', data: line, id };
  };
  if (resumed === undefined) {
    const end = logs.end(input.endpointId, workerId);
    const lines = logs.read(input.endpointId, workerId, queryOf(input));
    // Until the first worker line was sent, the event id must not claim that worker lines were sent.
    after = lines.some(({ source }) => source === 'container') ? 0 : end;
    for (const line of lines) yield item(line);
    after = Math.max(after, end);
  }
  while (!signal.aborted) {
    const live = registry.find(input.endpointId, workerId) !== undefined;
    const query: LogQuery = { source: input.source, after };
    if (input.jobId !== undefined) query.jobId = input.jobId;
    for (const line of logs.read(input.endpointId, workerId, query)) {
      if (line.source === 'system' && line.ts <= systemAt) continue;
      yield item(line);
    }
    if (!live) return;
    await clock.sleep(followMs, signal);
  }
}

function queryOf(input: Input): LogQuery {
  return {
    source: input.source,
    tail: input.tail,
    ...(input.since === undefined ? {} : { since: Date.parse(input.since) }),
    ...(input.jobId === undefined ? {} : { jobId: input.jobId }),
  };
}

async function workerOf(
  deps: EndpointDeps,
  input: Input,
  caller: CallContext['caller'],
): Promise<string> {
  const endpoint = await deps.endpoints.get(input.endpointId, caller);
  if (input.workerId !== undefined) {
    if (await deps.store.worker({ endpointId: endpoint.id, id: input.workerId }))
      return input.workerId;
    throw noWorker(`Worker ${input.workerId} of endpoint ${endpoint.id} does not exist.`);
  }
  const live = await deps.store.liveWorkers(endpoint.id);
  const newest = live.at(-1) ?? (await deps.store.endedWorkers(endpoint.id, 1))[0];
  if (!newest) throw noWorker(`Endpoint ${endpoint.id} has not had a worker yet.`);
  return newest.id;
}

function noWorker(message: string): AppError {
  return new AppError('notFound', message, {
    hint: 'list_workers shows the workers of an endpoint.',
  });
}
