// `errand attach ID`: the terminal of a job in this terminal, until the job ends or the detach key is pressed.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { endOf, errorExit, exitCode, sayEnd } from '../ending.ts';
import { detachKey, TerminalSession } from '../terminal-session.ts';
import type { View } from './show.ts';

export const attach = command({
  summary: 'use the terminal of a job that was started with run --tty',
  about:
    'Connects this terminal to a job that was started with `errand run --tty`: keys go to the job, what it draws is shown here, and the job gets the size of this window. Several people can be attached to one job. Detach with ctrl-] (or the key of --detach-key); the job goes on.',
  examples: ['errand run -d --tty --name repl -- python3', 'errand attach repl'],
  args: 'ID',
  flags: {
    'detach-key': {
      type: 'string',
      value: 'KEY',
      help: 'the key that leaves the job running: ctrl-a … ctrl-z, ctrl-], ctrl-\\ (default ctrl-])',
    },
  },
  async run(context, { values, positionals: [id, ...more], usage }) {
    if (id === undefined || more.length > 0)
      throw new AppError('invalidInput', 'Name one job.', {
        hint: `${usage}. @last is the newest.`,
      });
    const key = detachKey(values['detach-key']);
    const { stdin, stdout } = context.program;
    if (!stdin.isTTY || !stdout.isTTY)
      throw new AppError('invalidInput', 'attach needs a terminal, and this is none.', {
        hint: 'In a script use `errand send` and `errand logs`.',
      });
    const client = await context.client();
    const { output: view } = await client.call<View>('get_job', { id });
    refuse(view);
    return interact(context, view, { key, isNew: false });
  },
});

function refuse({ id, kind, status, terminal, summary }: View): void {
  const name = summary ? ` (${String(summary)})` : '';
  if (['completed', 'failed', 'cancelled', 'timed_out'].includes(status))
    throw new AppError('wrongState', `${id}${name} has ended: it is ${status}.`, {
      hint: `\`errand logs ${id}\` shows what it printed.`,
    });
  if (terminal !== true)
    throw new AppError('wrongState', `${id}${name} has no terminal to attach to.`, {
      hint:
        kind === 'command'
          ? `Only jobs started with \`errand run --tty\` have one; \`errand logs -f ${id}\` follows this one.`
          : 'Only commands can have one.',
    });
}

/** Until the job ends or the person leaves; answers the exit code. */
export async function interact(
  context: CommandContext,
  { id }: Pick<View, 'id'>,
  { key, isNew }: { key: string; isNew: boolean },
): Promise<number> {
  const session = new TerminalSession(context, { id, key, isNew });
  const left = await session.run();
  if (left) {
    context.screen.err(`[detached] ${id} goes on; \`errand attach ${id}\` comes back to it.\n`);
    return 0;
  }
  const never = new AbortController();
  const ended = await endOf(context, await context.client(), id, never.signal);
  sayEnd(context, ended);
  return exitCode(ended) ?? (await errorExit(context, ended));
}
