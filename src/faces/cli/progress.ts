// A job of a generated command, awaited: one line on the terminal says how far it is, then its answer is printed as if the
// call had given it at once. ctrl-c leaves the job running.
import { stripVTControlCharacters } from 'node:util';
import { AppError, errorBody, registerErrors, type ErrorBody } from '../../errors.ts';
import type { Answered } from './bridge.ts';
import type { Client } from './client.ts';
import type { CommandContext } from './command.ts';
import type { View } from './commands/show.ts';
import { endOf, exitCode, onSignal } from './ending.ts';
import { Interrupts } from './interrupts.ts';
import { harmless } from './print.ts';
import { dim } from './screen.ts';

/** What the call answers in the end; a number is the exit code where the person left or the job ended otherwise. */
export async function awaited(
  context: CommandContext,
  start: () => Promise<Answered>,
  quiet: boolean,
): Promise<Answered | number> {
  const interrupts = new Interrupts(['SIGINT'], context.program.clock);
  try {
    interrupts.starting();
    const answer = await start();
    if (answer.jobId === undefined) return answer;
    const { jobId: id } = answer;
    const leave = new AbortController();
    const choice = { id, onInterrupt: 'detach', leave, goOn: 'errand result' } as const;
    interrupts.started(onSignal(context, choice));
    const line = new Line(context, quiet);
    line.show(id, dim(context.screen, `${id}\n`));
    const ended = await lookedAt(context, { id, line, signal: leave.signal });
    return ended ? await answerOf(context, ended, quiet) : 0;
  } finally {
    interrupts.stop();
  }
}

async function answerOf(
  { client, screen }: CommandContext,
  ended: View,
  quiet: boolean,
): Promise<Answered | number> {
  const server = await client();
  if (ended.status === 'completed') return server.later(ended.id);
  registerErrors((await server.catalog()).errors ?? {});
  const code = exitCode(ended);
  if (code === undefined) throw failureOf(ended);
  // Somebody cut it short: it keeps what it has.
  const { shown } = ended.result === undefined ? {} : await server.later(ended.id);
  if (quiet) screen.out(`${JSON.stringify({ error: errorBody(failureOf(ended)) })}\n`);
  else if (shown !== undefined) screen.out(`${harmless(shown)}\n`);
  screen.err(`errand: ${ended.id} ${ended.status}.\n`);
  return code;
}

/** A job that failed is the caller's error, as if the call had thrown it. */
function failureOf({ id, status, error, result }: View): AppError {
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

async function lookedAt(
  context: CommandContext,
  { id, line, signal }: { id: string; line: Line; signal: AbortSignal },
): Promise<View | undefined> {
  const client = await context.client();
  const over = new AbortController();
  const watching = watch(client, { id, line, signal: AbortSignal.any([signal, over.signal]) });
  try {
    return await endOf(context, client, id, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    over.abort();
    await watching;
    line.clear();
  }
}

/** Only for the eye: a server that goes away ends the line, not the waiting. */
async function watch(
  client: Client,
  { id, line, signal }: { id: string; line: Line; signal: AbortSignal },
): Promise<void> {
  if (!line.isSeen) return;
  try {
    for await (const { data } of client.follow('list_events', { id }, signal)) {
      const { data: said } = data as { data: { stage?: string; progress?: Progress } };
      if (said.progress || said.stage) line.show(progressText(id, said));
    }
  } catch {
    // endOf says what there is to say.
  }
}

interface Progress {
  done?: number;
  total?: number;
  unit?: string;
  message?: string;
}

function progressText(id: string, said: { stage?: string; progress?: Progress }): string {
  const { done, total, unit, message } = said.progress ?? {};
  const count = total === undefined ? done : `${done} of ${total}`;
  const parts = [id, said.stage, [count, unit].filter(Boolean).join(' '), message];
  return parts.filter(Boolean).join(' · ');
}

/** The one line that is written over, on a terminal only. */
class Line {
  readonly isSeen: boolean;
  private readonly context: CommandContext;
  private readonly quiet: boolean;

  constructor(context: CommandContext, quiet: boolean) {
    this.context = context;
    this.quiet = quiet;
    this.isSeen = !quiet && context.program.stderr.isTTY === true;
  }

  /** `otherwise` is for those who do not see it move: a log. */
  show(text: string, otherwise = ''): void {
    const { screen } = this.context;
    if (!this.isSeen) {
      if (!this.quiet && otherwise !== '') screen.err(otherwise);
      return;
    }
    const columns = (screen.columns ?? 80) - 1;
    const plain = harmless(stripVTControlCharacters(text)).replaceAll(/\s+/g, ' ');
    screen.err(`\r\u001b[K${plain.slice(0, columns)}`);
  }

  clear(): void {
    if (this.isSeen) this.context.screen.err('\r\u001b[K');
  }
}
