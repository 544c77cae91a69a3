// `errand attach ID`: connects this terminal to the terminal of a job, until the job ends or the detach key is pressed.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { waitForEnd, errorExitCode, exitCode, reportEnd } from '../job-end.ts';
import { detachKey, TerminalSession } from '../terminal-session.ts';
import type { getJob, JobView } from '../../../contracts/jobs.ts';

export const attach = command({
  summary: 'connect to the terminal of a job (run --tty)',
  about:
    'Connects this terminal to a job that was started with `errand run --tty`. Keys and the window size are sent to the job, and its output is shown here. Several people can be attached to the same job. Press ctrl-] (or the key in --detach-key) to detach; the job keeps running.',
  examples: ['errand run -d --tty --name repl -- python3', 'errand attach repl'],
  args: 'ID',
  flags: {
    'detach-key': {
      type: 'string',
      value: 'KEY',
      help: 'detach key: ctrl-a … ctrl-z, ctrl-] or ctrl-\\ (default ctrl-])',
    },
  },
  async run(context, { values, positionals: [id, ...more], usage }) {
    if (id === undefined || more.length > 0)
      throw new AppError('invalidInput', 'Exactly one job is required.', {
        hint: `${usage}. @last is the newest job.`,
      });
    const key = detachKey(values['detach-key']);
    const { stdin, stdout } = context.program;
    if (!stdin.isTTY || !stdout.isTTY)
      throw new AppError('invalidInput', 'attach requires a terminal on stdin and stdout.', {
        hint: 'In scripts, use `errand send` and `errand logs`.',
      });
    const client = await context.client();
    const { output: view } = await client.call<typeof getJob>('get_job', { id });
    requireTerminal(view);
    return interact(context, view, { key, isNew: false });
  },
});

function requireTerminal({ id, kind, status, terminal, summary }: JobView): void {
  const name = summary ? ` (${String(summary)})` : '';
  if (['completed', 'failed', 'cancelled', 'timed_out'].includes(status))
    throw new AppError('wrongState', `${id}${name} has already ended with status ${status}.`, {
      hint: `\`errand logs ${id}\` shows what it printed.`,
    });
  if (terminal !== true)
    throw new AppError('wrongState', `${id}${name} has no terminal to attach to.`, {
      hint:
        kind === 'command'
          ? `Only jobs started with \`errand run --tty\` have a terminal. Follow this job with \`errand logs -f ${id}\`.`
          : 'Only command jobs can have a terminal.',
    });
}

/** Runs until the job ends or the person detaches. Returns the exit code. */
export async function interact(
  context: CommandContext,
  { id }: Pick<JobView, 'id'>,
  { key, isNew }: { key: string; isNew: boolean },
): Promise<number> {
  const session = new TerminalSession(context, { id, key, isNew });
  const left = await session.run();
  if (left) {
    context.screen.err(`[detached] ${id} keeps running. Attach again with: errand attach ${id}\n`);
    return 0;
  }
  const never = new AbortController();
  const ended = await waitForEnd(context, await context.client(), id, never.signal);
  reportEnd(context, ended);
  return exitCode(ended) ?? (await errorExitCode(context, ended));
}
