// Operations on job output: chunks, drained or followed, and large results in pieces.
import { z } from 'zod';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { fitItems, fitText } from '../../../runtime/response-budget.ts';
import { endpointJob, type EndpointDeps } from '../deps.ts';
import * as contracts from '../contracts/jobs.ts';
import { changes } from './waits.ts';
import { ofEndpoint } from './reach.ts';

export function streamOperations(deps: EndpointDeps): Operation[] {
  return [drainStream(deps), followStream(deps), readResult(deps)];
}

function drainStream(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.drainStream,
    title: 'Drain stream',
    description:
      'Returns the chunks of a streaming job that no call has returned yet. Without new chunks it waits up to waitMs for one. follow_stream reads all chunks without consuming them.',
    effect: 'write',
    scope: 'read',
    reach: ofEndpoint,
    run: async ({ waitMs, maxBytes, strict, ...input }, { caller, signal }) => {
      await endpointJob(deps, input, caller);
      const timeUp = AbortSignal.any([signal]);
      const endsAt = deps.clock.now() + waitMs;
      return changes(
        deps,
        input.id,
        async () => {
          const job = await deps.jobs.get(input.id);
          const limit = isFinal(job.status) ? 100_000 : 1000;
          const drained = await deps.streams.drain(job, limit, maxBytes, strict);
          const over = isFinal(job.status) || timeUp.aborted || deps.clock.now() >= endsAt;
          if (drained.chunks.length === 0 && !drained.more && !over) return undefined;
          return { status: job.status, stage: job.stage, error: job.error, ...drained };
        },
        { endsAt, signal },
      );
    },
  });
}

function followStream(deps: EndpointDeps): Operation {
  return defineOperation({
    ...contracts.followStream,
    title: 'Follow stream',
    description:
      'Reads the chunks that a streaming job has yielded after a given number, without consuming them. Over SSE it follows until the job has ended. For the final result use get_job.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['endpoints'],
    pages: true,
    http: { method: 'GET', path: '/api/jobs/{id}/stream' },
    cli: { words: ['endpoint', 'stream'], args: ['id'] },
    run: async (input, { caller, maxResponseBytes }) => {
      const job = await streamJob(deps, input.id, caller);
      const after = input.cursor === undefined ? input.after : Number(input.cursor);
      const chunks = await deps.streams.read(job, after, input.limit + 1);
      const { shown, ...left } = fitItems(chunks.slice(0, input.limit), maxResponseBytes);
      const next = shown.length < chunks.length ? { nextCursor: String(shown.at(-1)!.n) } : {};
      return { status: job.status, stage: job.stage, chunks: shown, ...next, ...left };
    },
    stream: async function* (input, { caller, signal }) {
      let n = input.cursor === undefined ? input.after : Number(input.cursor);
      const { id } = await streamJob(deps, input.id, caller);
      while (!signal.aborted) {
        const page = await changes(
          deps,
          id,
          async () => {
            const job = await deps.jobs.get(id);
            const chunks = await deps.streams.read(job, n, 500);
            return chunks.length > 0 || isFinal(job.status) ? { job, chunks } : undefined;
          },
          { endsAt: Infinity, signal },
        );
        if (!page) return;
        for (const chunk of page.chunks) {
          n = chunk.n;
          yield { event: 'chunk', data: chunk, id: String(chunk.n) };
        }
        if (page.chunks.length === 0) return;
      }
    },
  });
}

function readResult(deps: EndpointDeps): Operation {
  return defineOperation({
    name: 'read_job_result',
    title: 'Read job result',
    description:
      'Reads the result of an endpoint job as JSON text, in pieces. Use it for results that are too large for get_job and are stored as files. Pass nextOffset to continue. If get_job shows the result, use get_job.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['endpoints'],
    input: z.object({
      id: jobId,
      offset: z.number().int().min(0).default(0).describe('In characters'),
      limit: z.number().int().min(1).max(1_000_000).default(20_000),
    }),
    output: z.object({
      text: z.string(),
      totalChars: z.number(),
      nextOffset: z.number().optional(),
    }),
    pages: true,
    http: { method: 'GET', path: '/api/jobs/{id}/result' },
    cli: { words: ['endpoint', 'result'], args: ['id'] },
    run: async ({ id, offset, limit }, { caller, maxResponseBytes }) => {
      const job = await streamJob(deps, id, caller);
      const text = job.facts.resultFile
        ? (deps.results.text(job.attemptId) ?? '')
        : (JSON.stringify(job.result ?? null) ?? '');
      const room = maxResponseBytes === undefined ? undefined : maxResponseBytes - pieceBytes;
      const piece = fitText(text.slice(offset, offset + limit), room);
      const next = offset + piece.length;
      return {
        text: piece,
        totalChars: text.length,
        ...(next < text.length ? { nextOffset: next } : {}),
      };
    },
  });
}

/** Reserved for the fields around a piece. */
const pieceBytes = 100;

async function streamJob(deps: EndpointDeps, id: string, caller: Caller | undefined): Promise<Job> {
  const found = await deps.jobs.get(id);
  return endpointJob(deps, { endpointId: found.queue, id }, caller);
}
