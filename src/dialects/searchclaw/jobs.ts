// job_status: a job in SearchClaw's format, plus counts by outcome, a cursor and the stop reason.
import { readPages as readPagesContract } from '../../kinds/web/contracts.ts';
import { textOf } from '../../runtime/json.ts';
import type { DialectCall } from '../../dialect.ts';
import { getJob, type JobView } from '../../contracts/jobs.ts';
import { AppError } from '../../errors.ts';
import { number, run, type Fields } from './call.ts';

/** A job of the web kind: its result is an object, and a running crawl shows its counts. */
type WebJob = JobView & Counts & { result?: Fields };

interface Counts {
  outcomes?: Record<string, number>;
  pages?: number;
  stopReason?: string | undefined;
  creditsUsed?: number;
}

/** Limit over HTTP. Responses to a model are smaller (tools.ts). */
const bytesDefault = 1_000_000;
const longer = 'The page is longer. Raise max_bytes, or read it with markdown.';
const final = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

export async function jobStatusOf(call: DialectCall, input: Fields): Promise<Fields> {
  const id = textOf(input.job_id ?? '');
  const job = (await run(call, getJob, { id, includeResult: true })) as WebJob;
  if (job.kind !== 'web') {
    throw new AppError('notFound', `${id} is not a web job.`, {
      hint: 'Pass a job_id that crawl or another call returned.',
    });
  }
  return job.action === 'crawl' ? crawlStatus(call, job, input) : otherStatus(job);
}

async function crawlStatus(call: DialectCall, job: WebJob, input: Fields): Promise<Fields> {
  const counts = (job.result ?? job) as Counts;
  const { outcomes = {}, pages = 0, stopReason, creditsUsed = 0 } = counts;
  const isOver = final.has(job.status);
  const wants = isOver || input.cursor !== undefined;
  const read = wants ? await readPages(call, job.id, input) : undefined;
  const status = crawlStatusOf(job.status, counts);
  return {
    job_id: job.id,
    status,
    progress: {
      pages_crawled: pages,
      total_pages: isOver ? pages : (job.progress?.total ?? pages),
      items_extracted: pages,
    },
    counts: outcomes,
    data: read?.data ?? null,
    next_cursor: read?.next ?? null,
    stop_reason: stopReason ?? null,
    error: job.error?.message ?? null,
    meta: isOver
      ? {
          total_items: pages,
          pages_crawled: pages,
          credits_used: creditsUsed,
          duration_ms: job.timings.runMs ?? 0,
        }
      : null,
  };
}

async function readPages(call: DialectCall, id: string, { cursor, max_bytes: maxBytes }: Fields) {
  const out = await run(call, readPagesContract, {
    id,
    fields: ['markdown', 'data'],
    maxBytes: number(maxBytes) ?? bytesDefault,
    ...(cursor === undefined || cursor === null ? {} : { cursor: String(cursor) }),
  });
  const data = out.pages.map(({ url, title, markdown, data: found, status, cut, detail }) => ({
    url,
    title: title ?? null,
    status_code: status,
    // What could not be done, such as rendering without a browser.
    ...(detail === undefined ? {} : { notice: detail }),
    ...(cut === undefined ? {} : { truncated: true, notice: longer }),
    markdown,
    ...extractionOf(found as Fields | undefined),
  }));
  return { data, next: out.nextCursor ?? out.laterCursor };
}

/** The data in SearchClaw's format, with metadata next to it. */
export function extractionOf(found: Fields | undefined): Fields {
  if (found === undefined) return {};
  const { data, ...extraction } = found;
  return { data, extraction };
}

/** `partial`: the job ended with some of the requested pages. */
export function crawlStatusOf(
  status: string,
  { pages = 0, outcomes = {}, stopReason }: Counts,
): string {
  if (status === 'queued') return 'queued';
  if (!final.has(status)) return 'processing';
  const isWhole = stopReason === 'limit' || (stopReason === 'exhausted' && !outcomes.errored);
  if (status === 'completed') return isWhole ? 'completed' : 'partial';
  return pages > 0 ? 'partial' : 'failed';
}

function otherStatus(job: WebJob): Fields {
  const isOver = final.has(job.status);
  const result = job.result ?? null;
  const items = (result?.items as unknown[] | undefined) ?? (result === null ? [] : [result]);
  const credits = (result?.creditsUsed as number | undefined) ?? 0;
  return {
    job_id: job.id,
    status:
      job.status === 'queued'
        ? 'queued'
        : !isOver
          ? 'processing'
          : job.status === 'completed'
            ? 'completed'
            : 'failed',
    progress: {
      pages_crawled: items.length,
      total_pages: items.length,
      items_extracted: items.length,
    },
    data: isOver && result !== null ? items : null,
    ...(result?.data === undefined
      ? {}
      : { result: result.data, sources: result.sources, conflicts: result.conflicts }),
    steps: stepsOf(result?.steps ?? job.steps),
    stop_reason: result?.stopReason ?? null,
    error: job.error?.message ?? null,
    meta: isOver
      ? {
          total_items: items.length,
          pages_crawled: items.length,
          credits_used: credits,
          duration_ms: job.timings.runMs ?? 0,
        }
      : null,
  };
}

/** SearchClaw's name for reading a page and filling a schema from it. */
export const stepsOf = (steps: unknown): Fields[] =>
  ((steps ?? []) as Fields[]).map((step) =>
    step.phase === 'read' ? { ...step, phase: 'extract' } : step,
  );
