// Sends progress notifications for a call if its client requested them. Values only increase, as the protocol requires.
// While the work reports nothing, a keep-alive is sent, so that clients and proxies do not time out.
import type { ServerContext } from '@modelcontextprotocol/server';
import type { Clock } from '../../runtime/clock.ts';
import type { ProgressUpdate } from './source.ts';

interface ProgressReporter {
  report(update: ProgressUpdate): void;
  stop(): void;
}

/** A call that returns sooner needs no keep-alive. */
const firstKeepAliveMs = 200;
const keepAliveEveryMs = 15_000;
const minStep = 0.001;

export function progressReporter(ctx: ServerContext, clock: Clock): ProgressReporter | undefined {
  const token = ctx.mcpReq._meta?.progressToken;
  if (token === undefined) return undefined;
  const start = clock.now();
  let last = -1;
  let stopped = false;
  let cancel = clock.after(firstKeepAliveMs, keepAlive);
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

  function keepAlive(): void {
    rearm();
    const seconds = Math.round((clock.now() - start) / 1000);
    send({ progress: last + minStep, message: `still working, ${seconds} s` });
  }

  function rearm(): void {
    cancel();
    if (!stopped) cancel = clock.after(keepAliveEveryMs, keepAlive);
  }

  function send(update: ProgressUpdate): void {
    if (stopped || ctx.mcpReq.signal.aborted) return;
    last = Math.max(update.progress, last < 0 ? 0 : last + minStep);
    const params = { ...update, progress: last, progressToken: token! };
    // If the client disconnected, the abort signal ends its call.
    ctx.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
}
