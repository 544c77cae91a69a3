// Operations on what a job yields and brings: chunks taken away or followed, and a large result in pieces.
import { z } from 'zod';
import { isFinal, statuses, type Job } from '../../../jobs/job.ts';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import { endpointJob, type Desk } from '../desk.ts';
import { jobId } from '../../../jobs/operation-needs.ts';
import { changes, waitMsMax } from './waits.ts';
import { ofEndpoint } from './reach.ts';

export function streamOperations(desk: Desk): Operation[] {
  return [drainStream(desk), followStream(desk), readResult(desk)];
}

function drainStream(desk: Desk): Operation {
  return defineOperation({
    name: 'drain_stream',
    title: 'Drain stream',
    description:
      'Hands out the chunks of a streaming job that were not handed out before, each once; without any it waits up to waitMs for one. follow_stream reads all of them without taking them away.',
    effect: 'write',
    scope: 'read',
    reach: ofEndpoint,
    input: z.object({
      endpointId: z.string().max(100),
      id: jobId,
      waitMs: z.number().int().min(0).max(waitMsMax).default(10_000),
      bytesMax: z.number().int().min(1).optional().describe('Most to hand out at once'),
    }),
    output: z.object({
      status: z.enum(statuses),
      stage: z.string().nullable(),
      chunks: z.array(z.unknown()),
      error: z.unknown(),
      bytes: z.number(),
      more: z.boolean(),
    }),
    run: async ({ waitMs, bytesMax, ...wish }, { caller, signal }) => {
      await endpointJob(desk, wish, caller);
      const timeUp = AbortSignal.any([signal]);
      const endsAt = desk.clock.now() + waitMs;
      return changes(
        desk,
        wish.id,
        async () => {
          const job = await desk.jobs.get(wish.id);
          const limit = isFinal(job.status) ? 100_000 : 1000;
          const drained = await desk.streams.drain(job, limit, bytesMax);
          const over = isFinal(job.status) || timeUp.aborted || desk.clock.now() >= endsAt;
          if (drained.chunks.length === 0 && !over) return undefined;
          return { status: job.status, stage: job.stage, error: job.error, ...drained };
        },
        { endsAt, signal },
      );
    },
  });
}

function followStream(desk: Desk): Operation {
  return defineOperation({
    name: 'follow_stream',
    title: 'Follow stream',
    description:
      'Reads the chunks a streaming job has yielded, from a number on, without taking them away; over SSE it goes on until the job is over. For the final result use get_job.',
    effect: 'read',
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    toolsets: ['endpoints'],
    input: z.object({
      id: jobId,
      after: z.number().int().min(0).default(0).describe('Number of the last chunk you have'),
      limit: z.number().int().min(1).max(1000).default(100),
      cursor: z
        .string()
        .regex(/^\d{1,15}$/, 'not a cursor of this list')
        .optional(),
    }),
    output: z.object({
      status: z.enum(statuses),
      stage: z.string().nullable(),
      chunks: z.array(z.object({ n: z.number(), output: z.unknown() })),
    }),
    http: { method: 'GET', path: '/api/jobs/{id}/stream' },
    cli: { words: ['endpoint', 'stream'], args: ['id'] },
    run: async (input, { caller }) => {
      const job = await streamJob(desk, input.id, caller);
      const after = input.cursor === undefined ? input.after : Number(input.cursor);
      const chunks = await desk.streams.read(job, after, input.limit);
      return { status: job.status, stage: job.stage, chunks };
    },
    stream: async function* (input, { caller, signal }) {
      let n = input.cursor === undefined ? input.after : Number(input.cursor);
      const { id } = await streamJob(desk, input.id, caller);
      while (!signal.aborted) {
        const page = await changes(
          desk,
          id,
          async () => {
            const job = await desk.jobs.get(id);
            const chunks = await desk.streams.read(job, n, 500);
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

function readResult(desk: Desk): Operation {
  return defineOperation({
    name: 'read_job_result',
    title: 'Read job result',
    description:
      'Reads the result of an endpoint job as JSON text, in pieces: for results too large for get_job, which are kept as files. Pass nextOffset to go on. For jobs whose result get_job shows, that is simpler.',
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
    http: { method: 'GET', path: '/api/jobs/{id}/result' },
    cli: { words: ['endpoint', 'result'], args: ['id'] },
    run: async ({ id, offset, limit }, { caller }) => {
      const job = await streamJob(desk, id, caller);
      const text = job.facts.resultFile
        ? (desk.results.text(job.attemptId) ?? '')
        : (JSON.stringify(job.result ?? null) ?? '');
      const next = offset + limit;
      return {
        text: text.slice(offset, next),
        totalChars: text.length,
        ...(next < text.length ? { nextOffset: next } : {}),
      };
    },
  });
}

async function streamJob(desk: Desk, id: string, caller: Caller | undefined): Promise<Job> {
  const found = await desk.jobs.get(id);
  return endpointJob(desk, { endpointId: found.queue, id }, caller);
}
