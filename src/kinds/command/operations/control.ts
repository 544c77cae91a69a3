// Operations on a running command: typing input and resizing its terminal.
import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { limitWait } from '../../../jobs/wait-progress.ts';
import { defineOperation, type CliShape, type Operation } from '../../../operation.ts';
import type { StreamName } from '../files.ts';
import type { CommandInput } from '../input.ts';
import { resizeTerminal, sendInput } from '../../../contracts/command.ts';
import { toTyping } from '../keys.ts';
import type { LaunchFolder } from '../process/folder.ts';
import { outputBytes, sizeOf } from '../process/limits.ts';
import { endInput, writeInput } from '../process/stdin.ts';
import { resizeTerminal as resizeTo } from '../process/terminal.ts';
import { briefReading, stateText } from './output-text.ts';
import { readJobOutput } from './read-output.ts';
import type { OutputDeps } from '../output/request.ts';
import { ownCommand, refuseEnded, sendSignal, signalCommand } from './send-signal.ts';

const quietMs = 150;

export function controlOperations(deps: OutputDeps): Operation[] {
  return [sendInputOperation(deps), sendSignal(deps), resizeOperation(deps)];
}

const sendCli: CliShape = {
  words: ['send'],
  args: ['id', 'text'],
  summary: 'type a line into a job',
  about:
    'Types into a job that was started with --tty or --stdin open, then shows what it prints. Presses Enter after the text unless --no-newline is set.',
  examples: [
    "errand send repl '1 + 1'",
    'errand send @last --keys ctrl-c',
    'errand send @last --eof',
  ],
  implied: { text: { newline: true } },
  failure: (output) => {
    const { id, status, sent, hint } = output as Record<string, unknown>;
    if (sent !== 0 || !isFinal(status as Job['status']) || hint === undefined) return undefined;
    return {
      code: 'wrongState',
      message: `${String(id)} has ended (${String(status)}); nothing was sent.`,
      hint: `read_output shows what it printed. rerun_job starts it again.`,
    };
  },
};

function sendInputOperation(deps: OutputDeps): Operation {
  return defineOperation({
    ...sendInput,
    allowsNul: ['text'],
    title: 'Send input',
    description:
      'Types text or keys into a running job (REPL, prompt, full-screen program) and returns what it prints; your own shell cannot do this. ' +
      'Only for commands started with stdin open or tty; others refuse it. Returns when output goes quiet or after waitMs; for a tty, returns the screen. For an ended job, returns the end of its output. ' +
      'To stop the job use cancel_job. For more output use read_output.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['default', 'command'],
    brief: {
      schema: z.looseObject({ status: z.string(), text: z.string() }),
      of: (out) => briefReading(out as Parameters<typeof briefReading>[0]),
    },
    unlistedInput: ['maxBytes'],
    pages: true,
    http: { method: 'POST', path: '/api/jobs/{id}/input' },
    cli: sendCli,
    text: (out) =>
      `${stateText(out as Parameters<typeof stateText>[0])}\n${out.text || '(nothing printed)'}${out.hint ? `\n${out.hint}` : ''}`,
    run: async (given, context) => {
      const { caller, signal, maxResponseBytes = Infinity } = context;
      // JSON escaping may double quotes and line breaks.
      const input = {
        ...given,
        waitMs: limitWait(given.waitMs, context),
        maxBytes: Math.min(given.maxBytes, Math.floor(maxResponseBytes / 3)),
      };
      const unmasked = maxResponseBytes === Infinity;
      const job = await ownCommand(deps, input.id, caller);
      const stored = job.input as CommandInput;
      if (isFinal(job.status))
        return endedResponse(job, deps, { maxBytes: input.maxBytes, unmasked });
      refuseClosed(stored);
      const folder = await waitForLaunch(job, deps, signal);
      const before = sizes(job, deps);
      const tty = stored.tty !== undefined;
      const { text: typed, signals, end } = toTyping(input, tty);
      const bytes = Buffer.from(typed);
      const { sent, ended } = await writeInput(folder, bytes, deps.clock, signal);
      for (const name of signals) await signalCommand(job, name, deps);
      const whole = sent === bytes.length;
      if (end && whole) await endInput(folder, job.attemptId, deps.clock);
      const shown = before.reduce((sum, one) => sum + one.bytes, 0);
      const present = await waitForQuiet(
        job,
        folder,
        { shown, waitMs: input.waitMs, signal },
        deps,
      );
      const reading = await newOutput(
        present,
        before,
        { maxBytes: input.maxBytes, unmasked },
        deps,
      );
      const { id, status, exitCode, signal: killedBy, text, next } = reading;
      const left = reading.omitted ? { omitted: reading.omitted } : {};
      const full = ended
        ? 'The input of the command has already ended. The rest was not sent.'
        : `The command is not reading its input, and the pipe is full. Send the rest${end ? ' and the end of input' : ''} later.`;
      const hint = whole ? {} : { hint: full };
      return { id, status, exitCode, signal: killedBy, sent, text, next, ...left, ...hint };
    },
  });
}

async function endedResponse(job: Job, deps: OutputDeps, { maxBytes, unmasked }: ReadLimits) {
  const present = await deps.jobs.get(job.id);
  const { id, status, exitCode, signal, text, next } = await readJobOutput(
    present,
    { mode: 'tail', maxBytes: Math.min(maxBytes, 2000), unmasked },
    deps,
  );
  const hint = 'The job has ended, so nothing was sent. This is the end of its output.';
  return { id, status, exitCode, signal, sent: 0, text, next, hint };
}

function resizeOperation(deps: OutputDeps): Operation {
  return defineOperation({
    ...resizeTerminal,
    title: 'Resize terminal',
    description:
      'Resizes the terminal of a running command that was started with tty; its programs receive SIGWINCH. Use it when a full-screen program needs more room, before read_output with mode screen. Jobs without a terminal refuse it. Changes nothing else.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['command'],
    http: { method: 'POST', path: '/api/jobs/{id}/resize' },
    cli: { words: ['resize'], args: ['id', 'cols', 'rows'] },
    run: async ({ id, cols, rows }, { caller, signal }) => {
      const job = await ownCommand(deps, id, caller);
      refuseEnded(job);
      if (!(job.input as CommandInput).tty)
        throw new AppError('wrongState', 'This job has no terminal.', {
          hint: 'Start it with tty: true.',
        });
      const folder = await waitForLaunch(job, deps, signal);
      const claim = folder.readClaim();
      if (claim.state !== 'claimed') throw notStarted();
      await resizeTo(claim.identity.pid, { cols, rows });
      writeFileSync(folder.size, JSON.stringify({ cols, rows }), { mode: 0o600 });
      return { id, cols, rows };
    },
  });
}

function refuseClosed(input: CommandInput): void {
  if (input.stdin === 'open') return;
  throw new AppError('wrongState', 'This command has no open input.', {
    hint: 'Start it with stdin: "open" (or tty: true) to type into it.',
  });
}

const notStarted = () =>
  new AppError('wrongState', 'The command has not started yet.', {
    hint: 'Wait for it with wait_for_jobs, or call get_job to see why it has not started.',
  });

/** Waits briefly for a job that is just starting. */
async function waitForLaunch(
  job: Job,
  deps: OutputDeps,
  signal: AbortSignal,
): Promise<LaunchFolder> {
  for (let waited = 0; waited < 5000 && !signal.aborted; waited += 50) {
    const folder = deps.files.launch(job);
    if (folder?.readClaim().state === 'claimed') return folder;
    await deps.clock.sleep(50, signal);
  }
  throw notStarted();
}

type ReadLimits = { maxBytes: number; unmasked: boolean };

type Sizes = { stream: StreamName; bytes: number }[];

const sizes = (job: Job, { files }: OutputDeps): Sizes =>
  files.logs(job).map(({ stream, view }) => ({ stream, bytes: sizeOf(view.path) }));

/** Reads each stream from its previous size. */
async function newOutput(
  job: Job,
  before: Sizes,
  { maxBytes, unmasked }: ReadLimits,
  deps: OutputDeps,
) {
  // The current screen is more useful than the bytes that changed it.
  if ((job.input as CommandInput).tty && !isFinal(job.status))
    return readJobOutput(job, { mode: 'screen', maxBytes, unmasked }, deps);
  const parts = await Promise.all(
    before.map(({ stream, bytes }) => {
      const one = stream === 'merged' ? {} : { stream };
      const share = Math.floor(maxBytes / before.length);
      const request = { mode: 'since', from: bytes, maxBytes: share, unmasked, ...one } as const;
      return readJobOutput(job, request, deps);
    }),
  );
  const left = parts.find((part) => part.omitted)?.omitted;
  const text = parts.map((part) => part.text).join('');
  return { ...parts[0]!, text, ...(left ? { omitted: left } : {}) };
}

/** Waits until output beyond `shown` bytes goes quiet, the job ends, or the time is up. */
async function waitForQuiet(
  job: Job,
  folder: LaunchFolder,
  { shown, waitMs, signal }: { shown: number; waitMs: number; signal: AbortSignal },
  { jobs, clock }: OutputDeps,
): Promise<Job> {
  const step = 25;
  const until = clock.now() + waitMs;
  let last = outputBytes(folder);
  let quiet = 0;
  while (clock.now() < until && !signal.aborted) {
    await clock.sleep(step, signal);
    const bytes = outputBytes(folder);
    quiet = bytes === last ? quiet + step : 0;
    last = bytes;
    if (folder.readExit()) break;
    if (bytes > shown && quiet >= quietMs) break;
  }
  if (!folder.readExit()) return jobs.get(job.id);
  for (let waited = 0; waited < 2000; waited += step) {
    const present = await jobs.get(job.id);
    if (isFinal(present.status) || present.attemptId !== job.attemptId) return present;
    await clock.sleep(step);
  }
  return jobs.get(job.id);
}
