// Reads a view again after changes on the event stream, and at an interval for what has no events.
import { useEffect, useRef } from 'preact/hooks';
import { onChanges, streamState } from '../stream/client.ts';
import type { Change } from '../stream/messages.ts';

interface LiveOptions {
  /** Which changes concern the view; by default all. */
  isMine?(change: Change): boolean;
  /** Reads at most this often. */
  everyMs?: number;
  /** Also reads at this interval while the page is visible. */
  pollMs?: number | undefined;
}

const everyMsDefault = 500;

export function useLive(reload: () => void, options: LiveOptions = {}): void {
  const current = useRef(options);
  current.current = options;
  const { pollMs, everyMs = everyMsDefault } = options;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const off = onChanges((changes) => {
      const { isMine = () => true } = current.current;
      if (!changes.some((change) => 'reset' in change || isMine(change))) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        reload();
      }, everyMs);
    });
    return () => {
      off();
      clearTimeout(timer);
    };
  }, [reload, everyMs]);
  useEffect(() => {
    let before = streamState.peek();
    return streamState.subscribe((state) => {
      // What failed during an interruption is read again.
      if (state === 'live' && before === 'reconnecting') reload();
      before = state;
    });
  }, [reload]);
  useEffect(() => {
    if (pollMs === undefined) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') reload();
    }, pollMs);
    return () => clearInterval(timer);
  }, [reload, pollMs]);
}

/** Changes of the jobs of a kind, in one queue or in all. A removed job has no kind any more. */
export const ofKind =
  (kind: string, queue?: string) =>
  (change: Change): boolean =>
    'removed' in change ||
    ('job' in change &&
      change.job.kind === kind &&
      (queue === undefined || change.job.queue === queue));

export const ofJob =
  (id: string) =>
  (change: Change): boolean =>
    ('removed' in change && change.removed === id) ||
    ('event' in change && change.event.jobId === id);
