// `errand run -- npm test`: runs a command as a job and follows it until it ends, across server restarts. ctrl-c leaves the
// job running, or cancels it with --on-interrupt cancel.
import { byName } from '../../../runtime/by-name.ts';
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { waitForEnd, errorExitCode, exitCode, interruptHandler, reportEnd } from '../job-end.ts';
import { command, wholeNumber, type CommandContext, type CommandArgs } from '../command.ts';
import { Interrupts } from '../interrupts.ts';
import { readStdinText } from '../stdin-text.ts';
import { dim } from '../screen.ts';
import { durationMs, parseTime } from '../times.ts';
import { detachKey } from '../terminal-session.ts';
import { waitReason } from '../wait-reason.ts';
import { joinPath, flagName, inputError } from '../operation-command.ts';
import { interact } from './attach.ts';
import { followOutput } from './logs.ts';
import { withNullFields } from './show.ts';
import type { getJob, JobView } from '../../../contracts/jobs.ts';
import type { runCommand } from '../../../contracts/command.ts';
import type { InputOf } from '../../../contract.ts';

const flags = {
  detach: { type: 'boolean', short: 'd', help: 'print the job id and return immediately' },
  wait: { type: 'boolean', help: 'wait for the end and exit with its exit code (default)' },
  json: { type: 'boolean', help: 'print the job as JSON instead of its output' },
  shell: { type: 'string', value: "'LINE'", help: 'run a shell command line instead of COMMAND' },
  name: { type: 'string', short: 'n', value: 'NAME', help: 'job name' },
  tag: { type: 'string', multiple: true, value: 'T', help: 'job tag (repeatable)' },
  cwd: { type: 'string', value: 'DIR', help: 'working directory (default: current directory)' },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    value: 'K=V',
    help: 'set an environment variable (repeatable)',
  },
  secret: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'pass a variable of your environment without storing it (repeatable)',
  },
  timeout: {
    type: 'string',
    value: '10m',
    help: 'stop the job after this time (a bare number means seconds)',
  },
  stdin: {
    type: 'string',
    value: 'none|open|-',
    help: 'open: keep stdin open for `errand send`; -: pass the stdin of this command (UTF-8 text, at most 4 MiB)',
  },
  tty: {
    type: 'boolean',
    short: 't',
    help: 'run it in this terminal, or with -d in one for `errand attach` and `errand send`',
  },
  split: { type: 'boolean', help: 'store stdout and stderr separately' },
  ensure: {
    type: 'boolean',
    help: 'with --name: reuse a healthy running job with this name instead of starting another',
  },
  'ready-text': {
    type: 'string',
    value: 'TEXT',
    help: 'ready when it has printed TEXT; --detach then waits up to 50 s until it is ready',
  },
  'ready-port': { type: 'string', value: 'N', help: 'ready when this port accepts connections' },
  'ready-http': { type: 'string', value: 'URL', help: 'ready when this URL responds with 2xx' },
  queue: { type: 'string', value: 'Q', help: 'queue of the job' },
  priority: {
    type: 'string',
    value: 'N',
    help: 'higher priorities in a queue run first (default 0)',
  },
  after: {
    type: 'string',
    multiple: true,
    value: 'ID',
    help: 'start after this job has completed (repeatable)',
  },
  'run-at': {
    type: 'string',
    value: 'TIME',
    help: 'start at this time: 2h, 08:00 or "2026-01-31 08:00"',
  },
  ttl: { type: 'string', value: '1h', help: 'fail if it has not started within this time' },
  'idempotency-key': {
    type: 'string',
    value: 'K',
    help: 'the same key with the same command returns the same job',
  },
  label: {
    type: 'string',
    multiple: true,
    value: 'L',
    help: 'in a cluster: run on a node with this label (repeatable)',
  },
  retries: { type: 'string', value: 'N', help: 'retries after a failure' },
  'on-end': {
    type: 'string',
    multiple: true,
    value: 'RECEIVER',
    help: 'at its end: notify (on the desktop), run:NAME (a command of the settings) or a URL (repeatable)',
  },
  'on-interrupt': {
    type: 'string',
    value: 'detach|cancel',
    help: 'effect of ctrl-c (default detach: the job keeps running)',
  },
} as const;

/** How long --detach waits until the job is ready: the maximum of one call. */
const readyMs = 50_000;
/** The exit code of `errand wait` after its timeout. */
const notReadyExitCode = 7;

export const run = command({
  summary: 'run a command as a job and follow it',
  about:
    'Runs a command as a job, follows its output until it ends and exits with its exit code. ctrl-c leaves the job running. With --tty the job runs interactively in this terminal, and ctrl-] detaches from it.',
  examples: [
    'errand run -- npm test',
    'errand run -d --name dev --ready-port 3000 -- npm run dev',
    "errand run --shell 'make 2>&1 | tee build.log' --run-at 08:00",
    'errand run --tty -- top',
  ],
  args: '[--] COMMAND…',
  endsAtWord: true,
  flags,
  async run(context, { values, positionals: argv, usage }) {
    if ((argv.length === 0) === (values.shell === undefined)) {
      throw new AppError('invalidInput', 'Pass either a command after -- or a line with --shell.', {
        hint: usage,
      });
    }
    const onInterrupt = values['on-interrupt'] ?? 'detach';
    if (onInterrupt !== 'detach' && onInterrupt !== 'cancel') {
      throw new AppError(
        'invalidInput',
        `--on-interrupt must be detach or cancel, not ${onInterrupt}.`,
        {
          hint: usage,
        },
      );
    }
    checkStdin(values, usage);
    const input = toRunInput(values, argv, context);
    // Scripts send SIGTERM and closed terminals send SIGHUP instead of ctrl-c.
    const interrupts = new Interrupts(
      onInterrupt === 'cancel' ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT'],
      context.program.clock,
    );
    const client = await context.client();
    if (values.stdin === '-')
      input.stdin = { text: await readStdinText(context.program.stdin, client) };
    interrupts.starting();
    if (values.detach && input.ready) input.waitMs = readyMs;
    const started = await submit(client, input, usage);
    if (values.detach) {
      context.screen.out(
        values.json ? `${JSON.stringify(withNullFields(started))}\n` : `${started.id}\n`,
      );
      if (!input.ready || started.stage === 'ready') return 0;
      return notReady(context, started);
    }
    const quiet = values.json === true;
    if (!quiet) context.screen.err(dim(context.screen, `${started.id}\n`));
    if (!quiet && started.status === 'queued') printDelay(context, started);
    const { stdin, stdout } = context.program;
    if (values.tty && !quiet && stdin.isTTY && stdout.isTTY) {
      interrupts.stop();
      return interact(context, started, { key: detachKey(), isNew: true });
    }
    const endedJob = await follow(context, client, {
      id: started.id,
      quiet,
      onInterrupt,
      interrupts,
    });
    if (!endedJob) return 0;
    if (quiet) context.screen.out(`${JSON.stringify(withNullFields(endedJob))}\n`);
    else reportEnd(context, endedJob);
    return exitCode(endedJob) ?? (await errorExitCode(context, endedJob));
  },
});

/** Prints when or after which jobs a delayed job starts. */
function printDelay({ screen, program }: CommandContext, view: JobView): void {
  if (view.runAt === undefined && view.after === undefined) return;
  const reason = waitReason(view, program.clock.now());
  screen.err(dim(screen, `${reason}; ctrl-c leaves it queued\n`));
}

/** After this, the reason why the job is queued is printed. */
const queuedMs = 1000;

/** Prints why the job is queued, whenever the reason changes, until it starts. */
async function explainWaiting(
  { screen, program }: CommandContext,
  client: Client,
  { id, signal }: { id: string; signal: AbortSignal },
): Promise<void> {
  let reported = '';
  try {
    while (!signal.aborted) {
      await program.clock.sleep(queuedMs, signal);
      const { output } = await client.call<typeof getJob>('get_job', { id }, signal);
      if (output.status !== 'queued' || output.runAt !== undefined) return;
      const reason = waitReason(output, program.clock.now());
      if (reason !== reported) screen.err(dim(screen, `${reason}\n`));
      reported = reason;
    }
  } catch {
    // Informational only: followOutput reports connection errors.
  }
}

function checkStdin({ stdin, tty }: CommandArgs<typeof flags>['values'], usage: string): void {
  if (stdin !== undefined && !['none', 'open', '-'].includes(stdin)) {
    throw new AppError('invalidInput', `--stdin must be none, open or -, not ${stdin}.`, {
      hint: usage,
    });
  }
  if (stdin === '-' && tty) {
    throw new AppError('invalidInput', '--stdin - and --tty cannot be combined.', {
      hint: usage,
    });
  }
}

/** Input fields whose flags have different names. */
const flagNames: Record<string, string> = byName({
  command: '--shell',
  tags: '--tag',
  secrets: '--secret',
  labels: '--label',
  streams: '--split',
  onEnd: '--on-end',
  'ready.text': '--ready-text',
  'ready.port': '--ready-port',
  'ready.http': '--ready-http',
  maxAttempts: 'attempts (--retries plus the first)',
});

async function submit(
  client: Client,
  input: InputOf<typeof runCommand>,
  usage: string,
): Promise<JobView> {
  try {
    return (await client.call<typeof runCommand>('run_command', input)).output;
  } catch (error) {
    const typed = (field: string, below: readonly string[]) =>
      flagNames[joinPath(field, below)] ??
      joinPath(flagNames[field] ?? `--${flagName(field)}`, below);
    throw inputError(error, typed, usage);
  }
}

function toRunInput(
  values: CommandArgs<typeof flags>['values'],
  argv: string[],
  { program }: CommandContext,
): Record<string, unknown> {
  const env = Object.fromEntries(
    (values.env ?? []).map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new AppError('invalidInput', `--env must be NAME=value, not ${pair}.`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
  const retries = wholeNumber(values.retries, 'retries');
  const ready = readyInput(values);
  return {
    ...(values.shell === undefined ? { argv } : { command: values.shell }),
    ...(values.name === undefined ? {} : { name: values.name }),
    ...(values.tag === undefined ? {} : { tags: values.tag }),
    ...(values.cwd === undefined ? {} : { cwd: values.cwd }),
    ...(Object.keys(env).length > 0 ? { env } : {}),
    ...(values.timeout === undefined ? {} : { timeoutMs: durationMs(values.timeout, 1000) }),
    ...(values.stdin === undefined ? {} : { stdin: values.stdin }),
    ...(values.secret === undefined ? {} : { secrets: values.secret }),
    ...(values.tty ? { tty: terminalSize(program) ?? true } : {}),
    ...(values.split ? { streams: 'split' } : {}),
    ...(values.ensure ? { ensure: true } : {}),
    ...(ready === undefined ? {} : { ready }),
    ...(values['on-end'] === undefined ? {} : { onEnd: values['on-end'] }),
    ...(values.queue === undefined ? {} : { queue: values.queue }),
    ...(values.label === undefined ? {} : { labels: values.label }),
    ...schedulingInput(values, program.clock.now()),
    ...(retries === undefined ? {} : { maxAttempts: retries + 1 }),
    waitMs: 0,
  };
}

/** The input fields that decide when the job starts. */
function schedulingInput(
  values: CommandArgs<typeof flags>['values'],
  now: number,
): Record<string, unknown> {
  const { after, ttl, 'run-at': runAt, 'idempotency-key': idempotencyKey } = values;
  const priority = wholeNumber(values.priority, 'priority', { negative: true });
  return {
    ...(priority === undefined ? {} : { priority }),
    ...(after === undefined ? {} : { after }),
    ...(runAt === undefined ? {} : { runAt: parseTime('runAt', runAt, now) }),
    ...(ttl === undefined ? {} : { ttlMs: durationMs(ttl, 1000) }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

function readyInput(
  values: CommandArgs<typeof flags>['values'],
): Record<string, unknown> | undefined {
  const { 'ready-text': text, 'ready-http': http } = values;
  const port = wholeNumber(values['ready-port'], 'ready-port');
  const check = Object.entries({ text, port, http }).filter(([, value]) => value !== undefined);
  return check.length === 0 ? undefined : Object.fromEntries(check);
}

/** The job ended or is not ready yet. The exit code tells a script that the job cannot be used. */
function notReady(context: CommandContext, view: JobView): number | Promise<number> {
  if (view.status === 'completed') {
    context.screen.err(`errand: ${view.id} completed before it was ready.\n`);
    return 1;
  }
  if (['failed', 'timed_out', 'cancelled'].includes(view.status)) {
    reportEnd(context, view);
    return exitCode(view) ?? errorExitCode(context, view);
  }
  context.screen.err(`errand: ${view.id} is not ready yet; it keeps running.\n`);
  return notReadyExitCode;
}

/** The size of this terminal, if it is known. */
function terminalSize({
  stdout,
}: CommandContext['program']): { cols: number; rows: number } | undefined {
  const { columns: cols = 0, rows = 0, isTTY } = stdout;
  return isTTY && cols > 1 && rows > 1 ? { cols, rows } : undefined;
}

/** Returns the ended job, or undefined if the person detached. */
async function follow(
  context: CommandContext,
  client: Client,
  options: {
    id: string;
    quiet: boolean;
    onInterrupt: 'detach' | 'cancel';
    interrupts: Interrupts;
  },
): Promise<JobView | undefined> {
  const leave = new AbortController();
  const endedJob = new AbortController();
  options.interrupts.started(
    interruptHandler(context, { ...options, leave, resumeCommand: 'errand logs -f' }),
  );
  const signal = AbortSignal.any([leave.signal, endedJob.signal]);
  const explanation = options.quiet
    ? undefined
    : explainWaiting(context, client, { id: options.id, signal });
  try {
    if (!options.quiet)
      await followOutput(context, client, { id: options.id, cursor: '0', signal: leave.signal });
    return await waitForEnd(context, client, options.id, leave.signal);
  } catch (error) {
    if (leave.signal.aborted) return undefined;
    throw error;
  } finally {
    options.interrupts.stop();
    endedJob.abort();
    await explanation;
  }
}
