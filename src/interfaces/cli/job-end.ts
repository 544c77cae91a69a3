// Waits for the end of a job across server restarts, handles ctrl-c meanwhile, and maps the end to an exit code.
import { constants } from 'node:os';
import { errorBody } from '../../errors.ts';
import type { Client } from './client.ts';
import type { CommandContext } from './command.ts';
import type { cancelJob, JobView, waitForJobs } from '../../contracts/jobs.ts';
import { withReconnect } from './reconnect.ts';
import { sanitize, withJobCommands } from './print.ts';

const roundMs = 45_000;

export async function waitForEnd(
  context: CommandContext,
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<JobView> {
  return withReconnect(context, client, async (server, progress) => {
    const input = { ids: [id], waitMs: roundMs };
    const { output } = await server.call<typeof waitForJobs>('wait_for_jobs', input, signal);
    progress();
    return output.done ? output.jobs[0]! : 'again';
  });
}

export function interruptHandler(
  { screen, client }: CommandContext,
  options: {
    id: string;
    onInterrupt: 'detach' | 'cancel';
    leave: AbortController;
    /** The command that follows the job again after a detach. */
    resumeCommand: string;
  },
): (count: number) => void {
  const cancel = async () => {
    try {
      await (await client()).call<typeof cancelJob>('cancel_job', { id: options.id });
    } catch (error) {
      screen.err(`errand: ${options.id} could not be cancelled: ${errorBody(error).message}\n`);
      options.leave.abort();
    }
  };
  return (count) => {
    if (options.onInterrupt === 'cancel' && count === 1) {
      screen.err(`\ncancelling ${options.id} …\n`);
      void cancel();
      return;
    }
    screen.err(
      `\n${options.id} keeps running. Follow it with: ${options.resumeCommand} ${options.id}. Stop it with: errand cancel ${options.id}\n`,
    );
    options.leave.abort();
  };
}

export function reportEnd({ screen }: CommandContext, view: JobView): void {
  if (view.status === 'completed') return;
  const { message, hint } = (view.error ?? {}) as { message?: string; hint?: string };
  screen.err(
    `errand: ${view.id} ${view.status}${message ? `: ${sanitize(message)}` : ''}${hint ? `\n${withJobCommands(hint, view.id)}` : ''}\n`,
  );
}

/** The exit code of the job, as in a shell: 128 + n for signals, 124 for a timeout. Undefined when nothing ran. */
export function exitCode(view: JobView): number | undefined {
  if (view.status === 'completed') return 0;
  if (view.status === 'timed_out') return 124;
  if (typeof view.exitCode === 'number' && view.exitCode !== 0) return view.exitCode;
  const number = constants.signals[view.signal as NodeJS.Signals];
  if (number !== undefined) return 128 + number;
  return view.status === 'cancelled' ? 130 : undefined;
}

/** The exit code of a call that fails with the same error: scripts need not distinguish the two. */
export async function errorExitCode(
  { client }: CommandContext,
  { error }: JobView,
): Promise<number> {
  const { code } = (error ?? {}) as { code?: string };
  const { errors } = await (await client()).catalog();
  return (code === undefined ? undefined : errors?.[code]?.exit) ?? 1;
}
