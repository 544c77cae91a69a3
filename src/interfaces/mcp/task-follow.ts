// Follows one task from its current state to its end and reports every change.
import type { Clock } from '../../runtime/clock.ts';
import { isOver, type Source, type TaskState } from './source.ts';

interface FollowOptions {
  source: Source;
  clock: Clock;
  notify(state: TaskState): void;
  /** The receiver already knows the current state, so only later changes are reported. */
  isKnown?: boolean;
}

/** Minimum interval between two updates of a task. */
const minIntervalMs = 250;

/** Reports each new state until the task is over or the signal aborts. */
export function followTask(id: string, options: FollowOptions, signal: AbortSignal): void {
  const { source, clock, notify, isKnown } = options;
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  let reported: string | undefined;
  let isScheduled = false;
  let lastCheck = Promise.resolve();
  const check = async () => {
    if (reported !== undefined) await clock.sleep(minIntervalMs, until);
    isScheduled = false;
    const state = until.aborted ? undefined : await source.task(id, { signal: until });
    if (!state) return;
    const { status, message, inputRequests } = state;
    const current = JSON.stringify([status, message, inputRequests]);
    const isUnchanged =
      current === reported || (reported === undefined && isKnown && !isOver(status));
    reported = current;
    if (!isUnchanged) notify(state);
    if (isOver(status)) over.abort();
  };
  const changed = () => {
    if (isScheduled) return;
    isScheduled = true;
    lastCheck = lastCheck.then(check).catch(() => {});
  };
  source.watch(`job://${id}`, changed, until).catch(() => {});
  changed();
}
