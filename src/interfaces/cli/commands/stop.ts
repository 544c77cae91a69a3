// `errand stop`: stops the server of a home and returns when it has ended.
import { AppError } from '../../../errors.ts';
import { command, type CommandContext } from '../command.ts';
import { findServer } from '../connect.ts';
import type { stopServer as stopServerContract } from '../../../contracts/server.ts';

const pollMs = 25;
/** Running calls and attempts may take this long to finish. */
const maxStopMs = 60_000;
/** The process ends right after it has released its home. A pid of another container may never disappear. */
const maxExitMs = 2000;

export const stop = command({
  summary: 'stop the server; commands keep running',
  about:
    'Stops the server after running calls have finished, and returns when it has ended. Commands keep running; the next server adopts them.',
  flags: {
    'if-idle': { type: 'boolean', help: 'only if it has no pending work' },
    json: { type: 'boolean', help: 'print JSON for scripts' },
  },
  async run(context, { values }) {
    const { screen } = context;
    const isRemote = Boolean(context.program.env.ERRAND_URL);
    const text =
      isRemote || (await isRunning(context))
        ? await stopServer(context, values['if-idle'])
        : states.none;
    if (values.json)
      screen.out(
        `${JSON.stringify({ stopping: text === states.remote, stopped: text === states.ended })}\n`,
      );
    else screen.out(`${text}\n`);
    return 0;
  },
});

const states = {
  none: 'no server is running',
  busy: 'the server has pending work and was not stopped',
  remote: 'the server is stopping',
  ended: 'the server has stopped',
};

/** A server that is starting holds the home but does not listen yet. */
async function isRunning({ program }: CommandContext): Promise<boolean> {
  return (await findServer(program)) !== undefined || program.isServed(program.place({}).home);
}

async function stopServer(context: CommandContext, ifIdle = false): Promise<string> {
  const { program } = context;
  const client = await context.client();
  const { recorded, home } = program.place({});
  const { output } = await client.call<typeof stopServerContract>('stop_server', { ifIdle });
  if (!output.stopping) return states.busy;
  if (program.env.ERRAND_URL) return states.remote;
  if (!(await becomes(context, maxStopMs, async () => !(await program.isServed(home)))))
    throw new AppError('unavailable', `The server is still stopping after ${maxStopMs / 1000} s.`, {
      hint: `It waits for running calls. See its log in ${home}, or end it with \`kill ${recorded?.pid ?? 'PID'}\`.`,
    });
  if (recorded) await becomes(context, maxExitMs, () => !isAlive(recorded.pid));
  return states.ended;
}

async function becomes(
  { program: { clock } }: CommandContext,
  maxMs: number,
  check: () => boolean | Promise<boolean>,
): Promise<boolean> {
  for (const end = clock.now() + maxMs; clock.now() < end; await clock.sleep(pollMs))
    if (await check()) return true;
  return false;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
