// Limits how long a call may wait, and sends the latest output line to clients that request progress.
import type { CallContext } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { isFinal, type Job } from './job.ts';
import type { Jobs } from './jobs.ts';

/** Below the 60 s after which most MCP clients time out. */
const defaultMaxWaitMs = 50_000;
/** For clients that request progress: every update shows that the call is alive. */
const maxWatchedWaitMs = 300_000;

const pollMs = 3000;
/** Without news, an update is sent after this many polls. */
const maxQuietPolls = 3;

export function limitWait(
  askedMs: number,
  context: Pick<CallContext, 'progress'>,
  maxWaitMs = defaultMaxWaitMs,
): number {
  const limit = context.progress ? Math.max(maxWatchedWaitMs, maxWaitMs) : maxWaitMs;
  return Math.min(Math.max(askedMs, 0), limit);
}

/** Reports immediately (some clients abort silent calls), then whenever there is news. Returns a function that stops it. */
export function reportWait(
  { progress }: Pick<CallContext, 'progress'>,
  ids: readonly string[],
  { jobs, clock }: { jobs: Jobs; clock: Clock },
): () => void {
  if (!progress) return () => {};
  let updates = 0;
  let lastMessage = '';
  let quietPolls = 0;
  let cancel = () => {};
  let stopped = false;
  const poll = async () => {
    const message = await waitMessage(jobs, ids).catch(() => lastMessage);
    if (stopped) return;
    quietPolls = message === lastMessage ? quietPolls + 1 : 0;
    if (quietPolls === 0 || quietPolls >= maxQuietPolls) {
      progress({ progress: updates, message });
      updates += 1;
      quietPolls = 0;
    }
    lastMessage = message;
    cancel = clock.after(pollMs, () => void poll());
  };
  void poll();
  return () => {
    stopped = true;
    cancel();
  };
}

async function waitMessage(jobs: Jobs, ids: readonly string[]): Promise<string> {
  const found = await jobs.ledger.findMany([...ids]);
  const open = found.filter(({ status }) => !isFinal(status));
  const [first] = open;
  if (!first) return 'done';
  const line = await stateLine(jobs, first);
  if (ids.length === 1) return line;
  return `${found.length - open.length} of ${ids.length} ended; ${first.id} ${line}`;
}

/** One line about a job that has not ended: its last output line, otherwise its stage or status. */
export async function stateLine(jobs: Jobs, job: Job): Promise<string> {
  const line = await jobs.findKind(job.kind)?.latestLine?.(job);
  return line ?? job.progress?.message ?? job.stage ?? job.status;
}
