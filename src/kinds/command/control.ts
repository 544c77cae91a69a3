// Acting on a running command: typing into it, resizing its terminal.
import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import { jobId } from '../../jobs/operation-needs.ts';
import { defineOperation, type Operation } from '../../operation.ts';
import type { StreamName } from './files.ts';
import { terminalSize, type CommandInput } from './input.ts';
import { keyForm, keyWords, typing } from './keys.ts';
import type { LaunchFolder } from './process/folder.ts';
import { outputBytes, sizeOf } from './process/limits.ts';
import { endInput, writeInput } from './process/stdin.ts';
import { resizeTerminal } from './process/terminal.ts';
import { readOutput, stateText, type OutputNeeds } from './read-output.ts';
import { ownCommand, refuseOver, sendSignal, signalCommand } from './signals.ts';

const inputBytesMax = 65_536;
const quietMs = 150;

export function controlOperations(needs: OutputNeeds): Operation[] {
  return [sendInput(needs), sendSignal(needs), resize(needs)];
}

function sendInput(needs: OutputNeeds): Operation {
  const { jobs } = needs;
  return defineOperation({
    name: 'send_input',
    takesNul: ['text'],
    title: 'Send input',
    description:
      'Types into a running command that was started with stdin open or tty: text (exactly as given; newline true adds one), named keys, or the end of input. Answers with what the command printed after it. ' +
      'Use it to answer prompts and drive REPLs. Jobs without open input refuse it; a job that is over answers its final state. ' +
      'To stop the command use cancel_job, to read more read_output.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['default', 'command'],
    input: z.strictObject({
      id: jobId,
      text: z.string().max(inputBytesMax).optional().describe('Typed as it is'),
      newline: z.boolean().default(false).describe('Add the Enter key after text'),
      keys: z
        .array(z.string().regex(keyForm, `not one of ${keyWords}`))
        .max(100)
        .optional()
        .describe(`After text: ${keyWords}. ctrl-c interrupts also without a terminal`),
      eof: z.boolean().default(false).describe('End of input (the same as ctrl-d)'),
      waitMs: z
        .number()
        .int()
        .min(0)
        .max(50_000)
        .default(2000)
        .describe('Wait for an answer: until output falls quiet, at most this'),
      bytesMax: z.number().int().min(200).max(65_536).default(8192),
    }),
    output: z.object({
      id: z.string(),
      status: z.string(),
      exitCode: z.number().nullable(),
      signal: z.string().nullable(),
      sent: z.number().describe('Bytes that were taken'),
      text: z.string().describe('What was printed since'),
      next: z.number(),
      hint: z.string().optional(),
    }),
    rareInput: ['bytesMax'],
    http: { method: 'POST', path: '/api/jobs/{id}/input' },
    cli: {
      words: ['send'],
      args: ['id', 'text'],
      summary: 'type a line into a job',
      about:
        'Types into a job that was started with --tty or --stdin open, and shows what it prints next. Text ends with Enter unless --no-newline is given.',
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
          hint: `read_output shows what it printed; rerun_job starts it again.`,
        };
      },
    },
    text: (out) =>
      `${stateText(out as Parameters<typeof stateText>[0])}\n${out.text || '(nothing printed)'}${out.hint ? `\n${out.hint}` : ''}`,
    run: async (input, { caller, signal }) => {
      const job = await ownCommand(needs, input.id, caller);
      const stored = job.input as CommandInput;
      if (isFinal(job.status)) return over(job, needs, input.bytesMax);
      refuseClosed(stored);
      const folder = await launched(job, needs, signal);
      const before = sizes(job, needs);
      const tty = stored.tty !== undefined;
      const { text: typed, signals, end } = typing(input, tty);
      const bytes = Buffer.from(typed);
      const { sent, ended } = await writeInput(folder, bytes, needs.clock, signal);
      for (const name of signals) await signalCommand(job, name, needs);
      const whole = sent === bytes.length;
      if (end && whole) await endInput(folder, job.attemptId, needs.clock);
      const shown = before.reduce((sum, one) => sum + one.bytes, 0);
      const present = await settle(job, folder, { shown, waitMs: input.waitMs }, needs, signal);
      const answer = await newOutput(present, before, input.bytesMax, needs);
      const { id, status, exitCode, signal: killedBy, text, next } = answer;
      const full = ended
        ? 'Its input has ended: the rest was not sent.'
        : `The command does not read: its input is full. Send the rest${end ? ' and its end' : ''} later.`;
      const hint = whole ? {} : { hint: full };
      return { id, status, exitCode, signal: killedBy, sent, text, next, ...hint };
    },
  });

  async function over(job: Job, outputNeeds: OutputNeeds, bytesMax: number) {
    const present = await jobs.get(job.id);
    const { id, status, exitCode, signal, text, next } = await readOutput(
      present,
      { mode: 'tail', bytesMax: Math.min(bytesMax, 2000) },
      outputNeeds,
    );
    const hint = 'The job is over; nothing was sent. Shown is the end of its output.';
    return { id, status, exitCode, signal, sent: 0, text, next, hint };
  }
}

function resize(needs: OutputNeeds): Operation {
  return defineOperation({
    name: 'resize_terminal',
    title: 'Resize terminal',
    description:
      'Changes the size of the terminal of a running command that was started with tty; its programs are told (SIGWINCH). Use it when a full-screen program needs more room, before read_output with mode screen. Jobs without a terminal refuse it. Changes nothing else.',
    effect: 'write',
    idempotent: true,
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['command'],
    input: terminalSize.extend({ id: jobId }),
    output: z.object({ id: z.string(), cols: z.number(), rows: z.number() }),
    http: { method: 'POST', path: '/api/jobs/{id}/resize' },
    cli: { words: ['resize'], args: ['id', 'cols', 'rows'] },
    run: async ({ id, cols, rows }, { caller, signal }) => {
      const job = await ownCommand(needs, id, caller);
      refuseOver(job);
      if (!(job.input as CommandInput).tty)
        throw new AppError('wrongState', 'This job has no terminal.', {
          hint: 'Start it with tty: true.',
        });
      const folder = await launched(job, needs, signal);
      const claim = folder.readClaim();
      if (claim.state !== 'claimed') throw notStarted();
      await resizeTerminal(claim.identity.pid, { cols, rows });
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
    hint: 'wait_for_jobs, or get_job to see what it waits for.',
  });

/** A job that starts just now gets a moment. */
async function launched(job: Job, needs: OutputNeeds, signal: AbortSignal): Promise<LaunchFolder> {
  for (let waited = 0; waited < 5000 && !signal.aborted; waited += 50) {
    const folder = needs.files.launch(job);
    if (folder?.readClaim().state === 'claimed') return folder;
    await needs.clock.sleep(50, signal);
  }
  throw notStarted();
}

type Sizes = { stream: StreamName; bytes: number }[];

const sizes = (job: Job, { files }: OutputNeeds): Sizes =>
  files.logs(job).map(({ stream, view }) => ({ stream, bytes: sizeOf(view.path) }));

/** Each stream from its own place. */
async function newOutput(job: Job, before: Sizes, bytesMax: number, needs: OutputNeeds) {
  const parts = await Promise.all(
    before.map(({ stream, bytes }) => {
      const one = stream === 'merged' ? {} : { stream };
      const share = Math.floor(bytesMax / before.length);
      return readOutput(job, { mode: 'since', from: bytes, bytesMax: share, ...one }, needs);
    }),
  );
  return { ...parts[0]!, text: parts.map(({ text }) => text).join('') };
}

/** Until the output falls quiet after more than `shown` came, the job ends, or the time is up. */
async function settle(
  job: Job,
  folder: LaunchFolder,
  { shown, waitMs }: { shown: number; waitMs: number },
  { jobs, clock }: OutputNeeds,
  signal: AbortSignal,
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
