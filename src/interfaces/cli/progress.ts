// Waits for the job of a generated command: shows progress in one line, then returns the result as if the call had
// returned it directly. ctrl-c leaves the job running.
import { stripVTControlCharacters } from 'node:util';
import { AppError, errorBody, registerErrors, type ErrorBody } from '../../errors.ts';
import type { CallResponse } from './operations-route.ts';
import type { Client } from './client.ts';
import type { CommandContext } from './command.ts';
import type { JobView } from '../../contracts/jobs.ts';
import { waitForEnd, exitCode, interruptHandler } from './job-end.ts';
import { Interrupts } from './interrupts.ts';
import { sanitize } from './print.ts';
import { dim } from './screen.ts';

/** Returns the final response, or an exit code if the person detached or the job did not complete. */
export async function waitForResponse(
  context: CommandContext,
  start: () => Promise<CallResponse>,
  quiet: boolean,
): Promise<CallResponse | number> {
  const interrupts = new Interrupts(['SIGINT'], context.program.clock);
  try {
    interrupts.starting();
    const response = await start();
    if (response.jobId === undefined) return response;
    const { jobId: id } = response;
    const leave = new AbortController();
    const choice = { id, onInterrupt: 'detach', leave, resumeCommand: 'errand result' } as const;
    interrupts.started(interruptHandler(context, choice));
    const line = new StatusLine(context, quiet);
    line.show(id, dim(context.screen, `${id}\n`));
    const ended = await waitWithProgress(context, { id, line, signal: leave.signal });
    return ended ? await finalResponse(context, ended, quiet) : 0;
  } finally {
    interrupts.stop();
  }
}

async function finalResponse(
  { client, screen }: CommandContext,
  ended: JobView,
  quiet: boolean,
): Promise<CallResponse | number> {
  const server = await client();
  if (ended.status === 'completed') return server.jobResult(ended.id);
  registerErrors((await server.catalog()).errors ?? {});
  const code = exitCode(ended);
  if (code === undefined) throw toJobError(ended);
  // The job was cancelled or timed out, but may have a partial result.
  const { shown } = ended.result === undefined ? {} : await server.jobResult(ended.id);
  if (quiet) screen.out(`${JSON.stringify({ error: errorBody(toJobError(ended)) })}\n`);
  else if (shown !== undefined) screen.out(`${sanitize(shown)}\n`);
  screen.err(`errand: ${ended.id} ${ended.status}.\n`);
  return code;
}

/** Converts the error of a failed job into the error that the call would have thrown. */
function toJobError({ id, status, error, result }: JobView): AppError {
  const {
    code = status,
    message = `The job was ${status}.`,
    hint,
    data,
  } = (error ?? {}) as Partial<ErrorBody>;
  return new AppError(code, message, {
    ...(hint === undefined ? {} : { hint }),
    data: { ...data, jobId: id, ...(result === undefined ? {} : { result }) },
  });
}

async function waitWithProgress(
  context: CommandContext,
  { id, line, signal }: { id: string; line: StatusLine; signal: AbortSignal },
): Promise<JobView | undefined> {
  const client = await context.client();
  const ended = new AbortController();
  const progressShown = showProgress(client, {
    id,
    line,
    signal: AbortSignal.any([signal, ended.signal]),
  });
  try {
    return await waitForEnd(context, client, id, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    ended.abort();
    await progressShown;
    line.clear();
  }
}

/** Shows progress on the status line. Connection errors stop the updates, not the wait. */
async function showProgress(
  client: Client,
  { id, line, signal }: { id: string; line: StatusLine; signal: AbortSignal },
): Promise<void> {
  if (!line.isVisible) return;
  try {
    for await (const { data } of client.follow('list_events', { id }, signal)) {
      const { data: event } = data as { data: { stage?: string; progress?: Progress } };
      if (event.progress || event.stage) line.show(progressText(id, event));
    }
  } catch {
    // waitForEnd reports errors.
  }
}

interface Progress {
  done?: number;
  total?: number;
  unit?: string;
  message?: string;
}

function progressText(id: string, event: { stage?: string; progress?: Progress }): string {
  const { done, total, unit, message } = event.progress ?? {};
  const count = total === undefined ? done : `${done} of ${total}`;
  const parts = [id, event.stage, [count, unit].filter(Boolean).join(' '), message];
  return parts.filter(Boolean).join(' · ');
}

/** A status line that is overwritten in place, on terminals only. */
class StatusLine {
  readonly isVisible: boolean;
  private readonly context: CommandContext;
  private readonly quiet: boolean;

  constructor(context: CommandContext, quiet: boolean) {
    this.context = context;
    this.quiet = quiet;
    this.isVisible = !quiet && context.program.stderr.isTTY === true;
  }

  /** `fallback` is printed once when stderr is not a terminal. */
  show(text: string, fallback = ''): void {
    const { screen } = this.context;
    if (!this.isVisible) {
      if (!this.quiet && fallback !== '') screen.err(fallback);
      return;
    }
    const columns = (screen.columns ?? 80) - 1;
    const plain = sanitize(stripVTControlCharacters(text)).replaceAll(/\s+/g, ' ');
    screen.err(`\r\u001b[K${plain.slice(0, columns)}`);
  }

  clear(): void {
    if (this.isVisible) this.context.screen.err('\r\u001b[K');
  }
}
