// job_status: SearchClaw's shape of a job, with counts by fate, a cursor and the stop reason beside what it knows.
import { textOf } from '../../runtime/json.ts';
import type { DialectCall } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { number, run, type Fields } from './call.ts';

interface JobView extends Fields {
  id: string;
  kind: string;
  action?: string;
  status: string;
  result?: Fields;
  error?: { code: string; message: string; hint?: string };
  progress?: { done?: number; total?: number };
  timings: { runMs?: number };
  fates?: Record<string, number>;
  pages?: number;
}

interface Counts {
  fates?: Record<string, number>;
  pages?: number;
  stopReason?: string;
  creditsUsed?: number;
}

interface PagesOut {
  pages: Fields[];
  nextCursor?: string;
  /** While it runs: for what comes in later. */
  laterCursor?: string;
}

/** Over HTTP; an answer to a model has less room (tools.ts). */
const bytesDefault = 1_000_000;
const longer = 'It is longer: raise max_bytes, or read it alone with markdown.';
const final = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

export async function jobStatusOf(call: DialectCall, input: Fields): Promise<Fields> {
  const id = textOf(input.job_id ?? '');
  const job = await run<JobView>(call, 'get_job', { id, includeResult: true });
  if (job.kind !== 'web') {
    throw new AppError('notFound', `${id} is no job of the web.`, {
      hint: 'Give the job_id that crawl or another call answered.',
    });
  }
  return job.action === 'crawl' ? crawlStatus(call, job, input) : otherStatus(job);
}

async function crawlStatus(call: DialectCall, job: JobView, input: Fields): Promise<Fields> {
  const counts = (job.result ?? job) as Counts;
  const { fates = {}, pages = 0, stopReason, creditsUsed = 0 } = counts;
  const isOver = final.has(job.status);
  const wants = isOver || input.cursor !== undefined;
  const read = wants ? await readPages(call, job.id, input) : undefined;
  const status = statusOf(job, counts);
  return {
    job_id: job.id,
    status,
    progress: {
      pages_crawled: pages,
      total_pages: isOver ? pages : (job.progress?.total ?? pages),
      items_extracted: pages,
    },
    counts: fates,
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
  const out = await run<PagesOut>(call, 'read_pages', {
    id,
    fields: ['markdown', 'data'],
    maxBytes: number(maxBytes) ?? bytesDefault,
    ...(cursor === undefined || cursor === null ? {} : { cursor: String(cursor) }),
  });
  const data = out.pages.map(({ url, title, markdown, data: found, status, cut, detail }) => ({
    url,
    title: title ?? null,
    status_code: status,
    // What could not be done with the page, such as rendering it where there is no browser.
    ...(detail === undefined ? {} : { notice: detail }),
    ...(cut === undefined ? {} : { truncated: true, notice: longer }),
    markdown,
    ...extractionOf(found as Fields | undefined),
  }));
  return { data, next: out.nextCursor ?? out.laterCursor };
}

/** The data as they give it; what is known about it beside. */
function extractionOf(found: Fields | undefined): Fields {
  if (found === undefined) return {};
  const { data, ...extraction } = found;
  return { data, extraction };
}

/** `partial`: it ended with pages, but not with all that were wanted. */
function statusOf({ status }: JobView, { pages = 0, fates = {}, stopReason }: Counts): string {
  if (status === 'queued') return 'queued';
  if (!final.has(status)) return 'processing';
  const isWhole = stopReason === 'limit' || (stopReason === 'exhausted' && !fates.errored);
  if (status === 'completed') return isWhole ? 'completed' : 'partial';
  return pages > 0 ? 'partial' : 'failed';
}

function otherStatus(job: JobView): Fields {
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

/** Their word for reading a page and filling the schema from it. */
export const stepsOf = (steps: unknown): Fields[] =>
  ((steps ?? []) as Fields[]).map((step) =>
    step.phase === 'read' ? { ...step, phase: 'extract' } : step,
  );
