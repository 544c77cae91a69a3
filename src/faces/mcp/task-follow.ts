// One task followed from its present state to its end, for whoever is told of it.
import type { Clock } from '../../runtime/clock.ts';
import { isOver, type Source, type TaskState } from './source.ts';

export interface Following {
  source: Source;
  clock: Clock;
  tell(state: TaskState): void;
  /** The present state is known: only what comes after it is told. */
  isKnown?: boolean;
}

/** News of one task come no faster. */
const tellEveryMs = 250;

/** Tells each new state until the task is over or the signal aborts. */
export function followTask(id: string, following: Following, signal: AbortSignal): void {
  const { source, clock, tell, isKnown } = following;
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  let told: string | undefined;
  let isDue = false;
  let turn = Promise.resolve();
  const look = async () => {
    if (told !== undefined) await clock.sleep(tellEveryMs, until);
    isDue = false;
    const state = until.aborted ? undefined : await source.task(id, { signal: until });
    if (!state) return;
    const { status, message, inputRequests } = state;
    const news = JSON.stringify([status, message, inputRequests]);
    const isSilent = news === told || (told === undefined && isKnown && !isOver(status));
    told = news;
    if (!isSilent) tell(state);
    if (isOver(status)) over.abort();
  };
  const changed = () => {
    if (isDue) return;
    isDue = true;
    turn = turn.then(look).catch(() => {});
  };
  source.watch(`job://${id}`, changed, until).catch(() => {});
  changed();
}
