// How long a call is kept waiting. Its clients have no job to poll for a scrape, a map or a search, and wait minutes: work
// that takes longer than one of our calls is followed as a job until the time is over that the client gave it.
import { AppError } from '../../errors.ts';
import type { Asked } from './index.ts';
import type { Fields } from './translate.ts';

/** Of the first call, and of each look after it. */
const firstMs = 5000;
const turnMs = 45_000;

export async function finished(
  asked: Asked,
  name: string,
  input: Fields,
  limitMs: number,
): Promise<Fields> {
  const { operations, context } = asked.call;
  const waitMs = Math.min(firstMs, limitMs);
  const out = await operations.call<Fields>(name, { ...input, waitMs }, context);
  if (out.status === 'completed') return out;
  const id = String(out.jobId);
  await ended(asked, id, limitMs - waitMs);
  const answer = (await operations.find(name)?.answerFor?.(id, context)) as Fields | undefined;
  if (answer?.status === 'completed') return answer;
  const error = answer?.error as { code: string; message: string; data?: Fields } | undefined;
  if (!error) throw late();
  throw new AppError(error.code, error.message, error.data ? { data: error.data } : {});
}

/** Waits for the end of a job, at most so long. */
export async function ended({ call }: Asked, id: string, limitMs: number): Promise<void> {
  for (let left = limitMs; left > 0 && !call.context.signal.aborted; left -= turnMs) {
    const wish = { ids: [id], timeoutMs: Math.min(left, turnMs) };
    const { done } = await call.operations.call<{ done: boolean }>(
      'wait_for_jobs',
      wish,
      call.context,
    );
    if (done) return;
  }
}

/** What the client gave it, within what a page may take at all; `defaultMs` if it said nothing. */
export function limitOf({ timeout }: Fields, defaultMs: number): number {
  return typeof timeout === 'number' ? Math.min(Math.max(timeout, 1000), 300_000) : defaultMs;
}

/** It may be tried again. */
export const late = (): AppError =>
  new AppError('timeout', 'It was not done in time.', {
    hint: 'Give it a longer `timeout`, or crawl the page with a limit of 1.',
  });
