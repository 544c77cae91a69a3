// What a job that has not started waits for, in one line.
import type { View } from './commands/show.ts';
import { harmless, localTime, terminalWords } from './print.ts';
import { durationText } from '../../runtime/units.ts';

export function waitReason(view: View, now: number): string {
  const { runAt, after, diagnosis } = view as Record<string, unknown>;
  if (typeof runAt === 'string') {
    const inMs = Math.max(0, Date.parse(runAt) - now);
    return `starts at ${localTime(runAt)} (in ${durationText(inMs)})`;
  }
  if (Array.isArray(after) && after.length > 0) return `waits for ${after.join(', ')} to complete`;
  return typeof diagnosis === 'string' ? terminalWords(diagnosis) : 'queued';
}

/** What `errand wait` waits for. */
export function stateLine(view: View, now: number): string {
  const name = typeof view.name === 'string' ? ` ${harmless(view.name)}` : '';
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
