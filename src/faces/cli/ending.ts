// The end of a job that was started here: waited for through restarts of the server, left by ctrl-c, told with an exit code.
import { constants } from 'node:os';
import { errorBody } from '../../errors.ts';
import type { Client } from './client.ts';
import type { CommandContext } from './command.ts';
import type { View } from './commands/show.ts';
import { throughRestarts } from './patience.ts';
import { harmless, jobWords } from './print.ts';

const roundMs = 45_000;

export async function endOf(
  context: CommandContext,
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<View> {
  return throughRestarts(context, client, async (server, progress) => {
    const input = { ids: [id], timeoutMs: roundMs };
    const { output } = await server.call<{ done: boolean; jobs: View[] }>(
      'wait_for_jobs',
      input,
      signal,
    );
    progress();
    return output.done ? output.jobs[0]! : 'again';
  });
}

export function onSignal(
  { screen, client }: CommandContext,
  wish: {
    id: string;
    onInterrupt: 'detach' | 'cancel';
    leave: AbortController;
    /** The command that goes on where this one was left. */
    goOn: string;
  },
): (count: number) => void {
  const cancel = async () => {
    try {
      await (await client()).call('cancel_job', { id: wish.id });
    } catch (error) {
      screen.err(`errand: ${wish.id} could not be stopped: ${errorBody(error).message}\n`);
      wish.leave.abort();
    }
  };
  return (count) => {
    if (wish.onInterrupt === 'cancel' && count === 1) {
      screen.err(`\nstopping ${wish.id} …\n`);
      void cancel();
      return;
    }
    screen.err(
      `\n${wish.id} goes on. ${wish.goOn} ${wish.id} follows it, errand cancel ${wish.id} stops it.\n`,
    );
    wish.leave.abort();
  };
}

export function sayEnd({ screen }: CommandContext, view: View): void {
  if (view.status === 'completed') return;
  const { message, hint } = (view.error ?? {}) as { message?: string; hint?: string };
  screen.err(
    `errand: ${view.id} ${view.status}${message ? `: ${harmless(message)}` : ''}${hint ? `\n${jobWords(hint, view.id)}` : ''}\n`,
  );
}

/** The job's own exit code; 128 + n for signals as a shell has it; 124 for a timeout; none where nothing ran. */
export function exitCode(view: View): number | undefined {
  if (view.status === 'completed') return 0;
  if (view.status === 'timed_out') return 124;
  if (typeof view.exitCode === 'number' && view.exitCode !== 0) return view.exitCode;
  const number = constants.signals[view.signal as NodeJS.Signals];
  if (number !== undefined) return 128 + number;
  return view.status === 'cancelled' ? 130 : undefined;
}

/** What the same error of a call would end with: a script need not ask which of the two refused it. */
export async function errorExit({ client }: CommandContext, { error }: View): Promise<number> {
  const { code } = (error ?? {}) as { code?: string };
  const { errors } = await (await client()).catalog();
  return (code === undefined ? undefined : errors?.[code]?.exit) ?? 1;
}
