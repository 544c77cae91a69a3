// `errand run -- npm test`: a command as a job, followed until it is over, through restarts of the server. ctrl-c leaves the
// job running, or stops it with --on-interrupt cancel.
import { byName } from '../../../runtime/by-name.ts';
import { AppError } from '../../../errors.ts';
import type { Client } from '../client.ts';
import { endOf, errorExit, exitCode, onSignal, sayEnd } from '../ending.ts';
import { command, wholeNumber, type CommandContext, type Words } from '../command.ts';
import { Interrupts } from '../interrupts.ts';
import { pipedText } from '../piped.ts';
import { dim } from '../screen.ts';
import { durationMs, wireTime } from '../times.ts';
import { detachKey } from '../terminal-session.ts';
import { waitReason } from '../waiting.ts';
import { dotted, flagName, inputError } from '../words.ts';
import { interact } from './attach.ts';
import { followOutput } from './logs.ts';
import { scripted, type View } from './show.ts';

const flags = {
  detach: { type: 'boolean', short: 'd', help: 'print the job id and return immediately' },
  wait: { type: 'boolean', help: 'until it is over, with its exit code (the default)' },
  json: { type: 'boolean', help: 'print the job as JSON instead of its output' },
  shell: { type: 'string', value: "'LINE'", help: 'a shell line instead of words after --' },
  name: { type: 'string', short: 'n', value: 'NAME', help: 'a name to call it by' },
  tag: { type: 'string', multiple: true, value: 'T', help: 'a tag; may be repeated' },
  cwd: { type: 'string', value: 'DIR', help: 'where it runs (default: here)' },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    value: 'K=V',
    help: 'a variable; may be repeated',
  },
  secret: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'a variable of your environment to pass without storing it; may be repeated',
  },
  timeout: { type: 'string', value: '10m', help: 'end it after this (a bare number: seconds)' },
  stdin: {
    type: 'string',
    value: 'none|open|-',
    help: 'open: `errand send` types into it; -: what is piped into this command, text of at most 4 MiB',
  },
  tty: {
    type: 'boolean',
    short: 't',
    help: 'give it a terminal: this one, or with -d one for `errand attach` and `errand send`',
  },
  split: { type: 'boolean', help: 'keep what it prints as errors apart' },
  ensure: {
    type: 'boolean',
    help: 'with --name: the healthy one that runs already instead of a second',
  },
  'ready-text': {
    type: 'string',
    value: 'TEXT',
    help: 'it is up when it has printed this; --detach then answers when it is up, after 50 s at the latest',
  },
  'ready-port': { type: 'string', value: 'N', help: 'it is up when this port is listened on' },
  'ready-http': { type: 'string', value: 'URL', help: 'it is up when this answers 2xx' },
  queue: { type: 'string', value: 'Q', help: 'the queue it waits in' },
  priority: { type: 'string', value: 'N', help: 'higher ones of its queue run first (default 0)' },
  after: {
    type: 'string',
    multiple: true,
    value: 'ID',
    help: 'run it once this job has completed; may be repeated',
  },
  'run-at': { type: 'string', value: 'TIME', help: 'not before: 2h, 08:00 or "2026-01-31 08:00"' },
  ttl: { type: 'string', value: '1h', help: 'give up if it has not started by then' },
  'idempotency-key': {
    type: 'string',
    value: 'K',
    help: 'the same key with the same command answers the same job',
  },
  label: {
    type: 'string',
    multiple: true,
    value: 'L',
    help: 'in a cluster: run it on a node with this label; may be repeated',
  },
  retries: { type: 'string', value: 'N', help: 'further attempts after a failure' },
  'on-interrupt': {
    type: 'string',
    value: 'detach|cancel',
    help: 'what ctrl-c does (default: leave it running)',
  },
} as const;

/** The longest that one call waits. */
const readyMs = 50_000;
/** As `errand wait` ends when it gives up. */
const notYet = 7;

export const run = command({
  summary: 'run a command as a job and follow it',
  about:
    'Runs a command as a job and follows its output until it ends, with its exit code. ctrl-c leaves the job running. With --tty the job has this terminal: it is interactive, and ctrl-] leaves it running.',
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
      throw new AppError('invalidInput', 'Give a command after -- or a line with --shell.', {
        hint: usage,
      });
    }
    const onInterrupt = values['on-interrupt'] ?? 'detach';
    if (onInterrupt !== 'detach' && onInterrupt !== 'cancel') {
      throw new AppError(
        'invalidInput',
        `--on-interrupt is detach or cancel, not ${onInterrupt}.`,
        {
          hint: usage,
        },
      );
    }
    checkStdin(values, usage);
    const input = submission(values, argv, context);
    // SIGTERM and SIGHUP are how a script or a closed terminal says ctrl-c.
    const interrupts = new Interrupts(
      onInterrupt === 'cancel' ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT'],
      context.program.clock,
    );
    const client = await context.client();
    if (values.stdin === '-')
      input.stdin = { text: await pipedText(context.program.stdin, client) };
    interrupts.starting();
    if (values.detach && input.ready) input.waitMs = readyMs;
    const started = await submit(client, input, usage);
    if (values.detach) {
      context.screen.out(
        values.json ? `${JSON.stringify(scripted(started))}\n` : `${started.id}\n`,
      );
      if (!input.ready || started.stage === 'ready') return 0;
      return notReady(context, started);
    }
    const quiet = values.json === true;
    if (!quiet) context.screen.err(dim(context.screen, `${started.id}\n`));
    if (!quiet && started.status === 'queued') sayDelay(context, started);
    const { stdin, stdout } = context.program;
    if (values.tty && !quiet && stdin.isTTY && stdout.isTTY) {
      interrupts.stop();
      return interact(context, started, { key: detachKey(), isNew: true });
    }
    const ended = await follow(context, client, {
      id: started.id,
      quiet,
      onInterrupt,
      interrupts,
    });
    if (!ended) return 0;
    if (quiet) context.screen.out(`${JSON.stringify(scripted(ended))}\n`);
    else sayEnd(context, ended);
    return exitCode(ended) ?? (await errorExit(context, ended));
  },
});

/** A start that is put off is said immediately. */
function sayDelay({ screen, program }: CommandContext, view: View): void {
  if (view.runAt === undefined && view.after === undefined) return;
  const reason = waitReason(view, program.clock.now());
  screen.err(dim(screen, `${reason}; ctrl-c leaves it queued\n`));
}

/** A job that has not started after this is explained. */
const queuedMs = 1000;

/** Says why a job has not started, whenever the reason changes, until it has. */
async function explainWaiting(
  { screen, program }: CommandContext,
  client: Client,
  { id, signal }: { id: string; signal: AbortSignal },
): Promise<void> {
  let said = '';
  try {
    while (!signal.aborted) {
      await program.clock.sleep(queuedMs, signal);
      const { output } = await client.call<View>('get_job', { id }, signal);
      if (output.status !== 'queued' || output.runAt !== undefined) return;
      const reason = waitReason(output, program.clock.now());
      if (reason !== said) screen.err(dim(screen, `${reason}\n`));
      said = reason;
    }
  } catch {
    // Only for the eye: whoever follows the job says what is wrong.
  }
}

function checkStdin({ stdin, tty }: Words<typeof flags>['values'], usage: string): void {
  if (stdin !== undefined && !['none', 'open', '-'].includes(stdin)) {
    throw new AppError('invalidInput', `--stdin is none, open or -, not ${stdin}.`, {
      hint: usage,
    });
  }
  if (stdin === '-' && tty) {
    throw new AppError('invalidInput', 'What is piped in cannot be typed: --stdin - or --tty.', {
      hint: usage,
    });
  }
}

/** Fields whose flags have another name. */
const typedAs: Record<string, string> = byName({
  command: '--shell',
  tags: '--tag',
  secrets: '--secret',
  labels: '--label',
  streams: '--split',
  'ready.text': '--ready-text',
  'ready.port': '--ready-port',
  'ready.http': '--ready-http',
  attemptsMax: 'attempts (--retries and the first)',
});

async function submit(
  client: Client,
  input: Record<string, unknown>,
  usage: string,
): Promise<View> {
  try {
    return (await client.call<View>('run_command', input)).output;
  } catch (error) {
    const typed = (field: string, below: readonly string[]) =>
      typedAs[dotted(field, below)] ?? dotted(typedAs[field] ?? `--${flagName(field)}`, below);
    throw inputError(error, typed, usage);
  }
}

function submission(
  values: Words<typeof flags>['values'],
  argv: string[],
  { program }: CommandContext,
): Record<string, unknown> {
  const env = Object.fromEntries(
    (values.env ?? []).map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new AppError('invalidInput', `--env takes NAME=value, not ${pair}.`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
  const retries = wholeNumber(values.retries, 'retries');
  const ready = readyOf(values);
  return {
    ...(values.shell === undefined ? { argv } : { command: values.shell }),
    ...(values.name === undefined ? {} : { name: values.name }),
    ...(values.tag === undefined ? {} : { tags: values.tag }),
    ...(values.cwd === undefined ? {} : { cwd: values.cwd }),
    ...(Object.keys(env).length > 0 ? { env } : {}),
    ...(values.timeout === undefined ? {} : { timeoutMs: durationMs(values.timeout, 1000) }),
    ...(values.stdin === undefined ? {} : { stdin: values.stdin }),
    ...(values.secret === undefined ? {} : { secrets: values.secret }),
    ...(values.tty ? { tty: ownSize(program) ?? true } : {}),
    ...(values.split ? { streams: 'split' } : {}),
    ...(values.ensure ? { ensure: true } : {}),
    ...(ready === undefined ? {} : { ready }),
    ...(values.queue === undefined ? {} : { queue: values.queue }),
    ...(values.label === undefined ? {} : { labels: values.label }),
    ...turn(values, program.clock.now()),
    ...(retries === undefined ? {} : { attemptsMax: retries + 1 }),
    waitMs: 0,
  };
}

/** When it runs, as far as the caller says so. */
function turn(values: Words<typeof flags>['values'], now: number): Record<string, unknown> {
  const { after, ttl, 'run-at': runAt, 'idempotency-key': idempotencyKey } = values;
  const priority = wholeNumber(values.priority, 'priority', { negative: true });
  return {
    ...(priority === undefined ? {} : { priority }),
    ...(after === undefined ? {} : { after }),
    ...(runAt === undefined ? {} : { runAt: wireTime('runAt', runAt, now) }),
    ...(ttl === undefined ? {} : { ttlMs: durationMs(ttl, 1000) }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

function readyOf(values: Words<typeof flags>['values']): Record<string, unknown> | undefined {
  const { 'ready-text': text, 'ready-http': http } = values;
  const port = wholeNumber(values['ready-port'], 'ready-port');
  const check = Object.entries({ text, port, http }).filter(([, value]) => value !== undefined);
  return check.length === 0 ? undefined : Object.fromEntries(check);
}

/** It is over, or not up yet: then it goes on, and a script must know that it cannot be used. */
function notReady(context: CommandContext, view: View): number | Promise<number> {
  if (view.status === 'completed') {
    context.screen.err(`errand: ${view.id} completed before it was ready.\n`);
    return 1;
  }
  if (['failed', 'timed_out', 'cancelled'].includes(view.status)) {
    sayEnd(context, view);
    return exitCode(view) ?? errorExit(context, view);
  }
  context.screen.err(`errand: ${view.id} is not ready yet; it goes on.\n`);
  return notYet;
}

/** What is drawn for a terminal is seen in this one, if it is one that knows its size. */
function ownSize({
  stdout,
}: CommandContext['program']): { cols: number; rows: number } | undefined {
  const { columns: cols = 0, rows = 0, isTTY } = stdout;
  return isTTY && cols > 1 && rows > 1 ? { cols, rows } : undefined;
}

/** The job at its end; undefined when the person left it running. */
async function follow(
  context: CommandContext,
  client: Client,
  wish: {
    id: string;
    quiet: boolean;
    onInterrupt: 'detach' | 'cancel';
    interrupts: Interrupts;
  },
): Promise<View | undefined> {
  const leave = new AbortController();
  const over = new AbortController();
  wish.interrupts.started(onSignal(context, { ...wish, leave, goOn: 'errand logs -f' }));
  const signal = AbortSignal.any([leave.signal, over.signal]);
  const explained = wish.quiet
    ? undefined
    : explainWaiting(context, client, { id: wish.id, signal });
  try {
    if (!wish.quiet)
      await followOutput(context, client, { id: wish.id, cursor: '0', signal: leave.signal });
    return await endOf(context, client, wish.id, leave.signal);
  } catch (error) {
    if (leave.signal.aborted) return undefined;
    throw error;
  } finally {
    wish.interrupts.stop();
    over.abort();
    await explained;
  }
}
