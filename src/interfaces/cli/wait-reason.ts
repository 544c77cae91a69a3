// Explains in one line what a job waits for.
import type { JobView } from '../../contracts/jobs.ts';
import { sanitize, localTime, withCommandNames } from './print.ts';
import { durationText } from '../../runtime/units.ts';

export function waitReason(view: JobView, now: number): string {
  const { runAt, after, diagnosis } = view as Record<string, unknown>;
  if (typeof runAt === 'string') {
    const inMs = Math.max(0, Date.parse(runAt) - now);
    return `starts at ${localTime(runAt)} (in ${durationText(inMs)})`;
  }
  if (Array.isArray(after) && after.length > 0) return `waits for ${after.join(', ')} to complete`;
  return typeof diagnosis === 'string' ? withCommandNames(diagnosis) : 'queued';
}

/** One line of the list that `errand wait` prints. */
export function stateLine(view: JobView, now: number): string {
  const name = typeof view.name === 'string' ? ` ${sanitize(view.name)}` : '';
  const { runMs, finishedAt } = view.timings;
  const running = runMs === undefined ? '' : ` for ${durationText(runMs)}`;
  const state =
    view.status === 'queued'
      ? waitReason(view, now)
      : finishedAt === undefined
        ? `${view.status}${running}`
        : view.status;
  return `${view.id}${name}: ${state}`;
}
