// Wakes the model over a channel (Claude Code): when a job that this session started has ended, and no response has said so,
// the client receives a message that starts a turn.
import type { Clock } from '../../runtime/clock.ts';
import { isRecord } from '../../runtime/json.ts';
import { cutText } from '../../runtime/response-budget.ts';
import { isOver, type JsonObject, type Source, type TaskState, type ToolResult } from './source.ts';
import { followTask } from './task-follow.ts';

export const channelCapability = 'claude/channel';
const channelMethod = 'notifications/claude/channel';
export const channelInstructions =
  'A message from the channel `errand` reports that a job of this session ended. End your turn instead of waiting for jobs; the message wakes you with the exit code and the relevant lines.';

const maxContentBytes = 4000;

interface ChannelOptions {
  source: Source;
  clock: Clock;
  send(message: { jsonrpc: '2.0'; method: string; params: JsonObject }): void;
}

/** Belongs to one session. */
export class Channel {
  private readonly options: ChannelOptions;
  private readonly followed = new Map<string, AbortController>();
  private readonly open = new Map<Promise<ToolResult>, string>();

  constructor(options: ChannelOptions) {
    this.options = options;
  }

  /** What a response shows needs no message. */
  async observe(args: JsonObject, call: Promise<ToolResult>): Promise<ToolResult> {
    this.open.set(call, JSON.stringify(args));
    try {
      const result = await call;
      for (const id of [...this.followed.keys()])
        if (showsEnd(result.structured, id)) this.forget(id);
      return result;
    } finally {
      this.open.delete(call);
    }
  }

  follow(id: string): void {
    if (this.followed.has(id)) return;
    const { source, clock } = this.options;
    const stop = new AbortController();
    this.followed.set(id, stop);
    const notify = (state: TaskState) => {
      if (isOver(state.status)) void this.report(id, state);
    };
    followTask(id, { source, clock, notify }, stop.signal);
  }

  close(): void {
    for (const id of [...this.followed.keys()]) this.forget(id);
  }

  private forget(id: string): void {
    this.followed.get(id)?.abort();
    this.followed.delete(id);
  }

  private async report(id: string, state: TaskState): Promise<void> {
    // A call that waits for the job is about to show its end.
    const waiting = [...this.open].filter(([, args]) => args.includes(id)).map(([call]) => call);
    await Promise.allSettled(waiting);
    // Continuations of these calls run first.
    await Promise.resolve();
    if (!this.followed.has(id)) return;
    this.forget(id);
    const { structured, text } = state.result ?? {};
    const status = isRecord(structured) ? String(structured.status) : state.status;
    const content = cutText(text ?? state.message ?? `${id} ${status}`, maxContentBytes);
    const params = { content, meta: { job_id: id, status } };
    this.options.send({ jsonrpc: '2.0', method: channelMethod, params });
  }
}

const finalStatuses = new Set(['completed', 'failed', 'cancelled', 'timed_out']);

function showsEnd(structured: unknown, id: string): boolean {
  if (!isRecord(structured)) return false;
  const jobs = [structured, ...(Array.isArray(structured.jobs) ? structured.jobs : [])];
  return jobs.some(
    (job) => isRecord(job) && job.id === id && finalStatuses.has(String(job.status)),
  );
}
