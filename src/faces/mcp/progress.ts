// Progress notifications of one call, when its client asked for them. Values only grow, as the protocol demands; while
// the work says nothing a sign of life goes out, so that clients and proxies do not give up on a long wait.
import type { ServerContext } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import type { ProgressUpdate } from './source.ts';

export interface ProgressReporter {
  report(update: ProgressUpdate): void;
  stop(): void;
}

/** A call that is answered sooner than this needs no sign of life. */
const firstSignMs = 200;
const signEveryMs = 15_000;
const leastStep = 0.001;

export function progressReporter(ctx: ServerContext, clock: Clock): ProgressReporter | undefined {
  const token = ctx.mcpReq._meta?.progressToken;
  if (token === undefined) return undefined;
  const start = clock.now();
  let last = -1;
  let stopped = false;
  let cancel = clock.after(firstSignMs, sign);
  return {
    report: (update) => {
      rearm();
      send(update);
    },
    stop: () => {
      stopped = true;
      cancel();
    },
  };

  function sign(): void {
    rearm();
    const seconds = Math.round((clock.now() - start) / 1000);
    send({ progress: last + leastStep, message: `still working, ${seconds} s` });
  }

  function rearm(): void {
    cancel();
    if (!stopped) cancel = clock.after(signEveryMs, sign);
  }

  function send(update: ProgressUpdate): void {
    if (stopped || ctx.mcpReq.signal.aborted) return;
    last = Math.max(update.progress, last < 0 ? 0 : last + leastStep);
    const params = { ...update, progress: last, progressToken: token! };
    // A client that is gone hears nothing; its call ends by the signal.
    ctx.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
}
