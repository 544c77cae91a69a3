// Waits for slow calls. Firecrawl's clients cannot poll a scrape, a map or a search; they wait for minutes. Work that takes longer
// than one of our calls is followed as a job until the client's timeout.
import { AppError } from '../../errors.ts';
import type { Contract } from '../../contract.ts';
import { callUnchecked } from '../../dialect.ts';
import type { Asked } from './route.ts';
import type { Fields } from './translate.ts';
import { cancelJob, waitForJobs } from '../../contracts/jobs.ts';

/** Wait of the first call and of each poll after it. */
const firstMs = 5000;
const turnMs = 45_000;

export async function finished(
  asked: Asked,
  contract: Contract,
  input: Fields,
  limitMs: number,
): Promise<Fields> {
  const { operations, context } = asked.call;
  const waitMs = Math.min(firstMs, limitMs);
  const out = (await callUnchecked(asked.call, contract, { ...input, waitMs })) as Fields;
  if (out.status === 'completed') return out;
  const id = String(out.id);
  await ended(asked, id, limitMs - waitMs);
  const answer = (await operations.find(contract.name)?.outputFor?.(id, context)) as
    | Fields
    | undefined;
  if (answer?.status === 'completed') return answer;
  const error = answer?.error as { code: string; message: string; data?: Fields } | undefined;
  if (!error) {
    await abandon(asked, id);
    throw late(id);
  }
  throw new AppError(error.code, error.message, { data: { ...error.data, jobId: id } });
}

/** Cancels a job whose result nobody will request. It may end at this moment, which is not an error. */
async function abandon({ call }: Asked, id: string): Promise<void> {
  try {
    await call.operations.call(cancelJob, { id }, call.context);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
  }
}

/** Waits for the end of a job, at most `limitMs`. */
export async function ended({ call }: Asked, id: string, limitMs: number): Promise<void> {
  for (let left = limitMs; left > 0 && !call.context.signal.aborted; left -= turnMs) {
    const requested = { ids: [id], waitMs: Math.min(left, turnMs) };
    const { done } = await call.operations.call(waitForJobs, requested, call.context);
    if (done) return;
  }
}

/** The client's timeout within the limits of a page, or `defaultMs`. */
export function limitOf({ timeout }: Fields, defaultMs: number): number {
  return typeof timeout === 'number' ? Math.min(Math.max(timeout, 1), 300_000) : defaultMs;
}

/** The client may try again. */
export const late = (jobId: string): AppError =>
  new AppError('timeout', 'The request timed out.', {
    hint: 'Pass a longer `timeout`, or crawl the page with a limit of 1.',
    data: { jobId },
  });
