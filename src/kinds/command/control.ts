// Acting on a running command: typing into it, signalling it, resizing its terminal.
import { closeSync, constants, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import { jobId } from '../../jobs/operation-needs.ts';
import { ownJob } from '../../jobs/view.ts';
import { defineOperation, type Caller, type Operation } from '../../operation.ts';
import { membersOf } from './conditions.ts';
import type { StreamName } from './files.ts';
import { terminalSize, type CommandInput } from './input.ts';
import type { LaunchFolder } from './process/folder.ts';
import { bootId, signalProcess, startOf } from './process/identity.ts';
import { outputBytes, sizeOf } from './process/limits.ts';
import { handledSignals } from './process/observe.ts';
import { resizeTerminal } from './process/terminal.ts';
import { identityOf, type ProcessRow } from './process/tree.ts';
import { readOutput, stateText, type OutputNeeds } from './read-output.ts';

/** What a terminal sends for a key. */
const keys = {
  enter: '\r',
  tab: '\t',
  escape: '\u001b',
  backspace: '\u007f',
  space: ' ',
  up: '\u001b[A',
  down: '\u001b[B',
  right: '\u001b[C',
  left: '\u001b[D',
  home: '\u001b[H',
  end: '\u001b[F',
  'page-up': '\u001b[5~',
  'page-down': '\u001b[6~',
  delete: '\u001b[3~',
  'ctrl-a': '\u0001',
  'ctrl-b': '\u0002',
  'ctrl-c': '\u0003',
  'ctrl-d': '\u0004',
  'ctrl-e': '\u0005',
  'ctrl-k': '\u000b',
  'ctrl-l': '\u000c',
  'ctrl-r': '\u0012',
  'ctrl-u': '\u0015',
  'ctrl-w': '\u0017',
  'ctrl-z': '\u001a',
  'ctrl-backslash': '\u001c',
} as const;
type Key = keyof typeof keys;
const keyNames = Object.keys(keys) as [Key, ...Key[]];

const signals = [
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGTERM',
  'SIGKILL',
  'SIGUSR1',
  'SIGUSR2',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
  'SIGWINCH',
  'SIGALRM',
] as const;
/** Every process of the job gets these; others go to those who handle them, because the default is to die. */
const forAll = new Set([
  'SIGINT',
  'SIGQUIT',
  'SIGTERM',
  'SIGKILL',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
]);

const inputBytesMax = 65_536;
const quietMs = 150;
const fullMsMax = 5000;

export function controlOperations(needs: OutputNeeds): Operation[] {
  return [sendInput(needs), sendSignal(needs), resize(needs)];
}

function sendInput(needs: OutputNeeds): Operation {
  const { jobs } = needs;
  return defineOperation({
    name: 'send_input',
    title: 'Send input',
    description:
      'Types into a running command that was started with stdin open or tty: text (exactly as given; newline true adds one), named keys, or the end of input. Answers with what the command printed after it. ' +
      'Use it to answer prompts and drive REPLs. Jobs without open input refuse it; a job that is over answers its final state. ' +
      'To stop a command use cancel_job, for other signals send_signal, to read more read_output.',
    effect: 'write',
    openWorld: true,
    scope: 'run',
    at: 'job',
    toolsets: ['default', 'command'],
    input: z.strictObject({
      id: jobId,
      text: z.string().max(inputBytesMax).optional().describe('Typed as it is'),
      newline: z.boolean().default(false).describe('Add the Enter key after text'),
      keys: z.array(z.enum(keyNames)).max(100).optional().describe('After text, in this order'),
      eof: z.boolean().default(false).describe('End of input (ctrl-d on a terminal)'),
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
    cli: { words: ['send'], args: ['id', 'text'] },
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
      const bytes = Buffer.from(bytesOf(input, tty));
      const sent = await writeAll(folder.stdin, bytes, needs, signal);
      if (input.eof && !tty) endInput(folder);
      const present = await settle(job, folder, input.waitMs, needs, signal);
      const answer = await newOutput(present, before, input.bytesMax, needs);
      const { id, status, exitCode, signal: killedBy, text, next } = answer;
      const hint =
        sent < bytes.length
          ? { hint: 'The command does not read: its input is full. Send the rest later.' }
          : {};
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

function sendSignal(needs: OutputNeeds): Operation {
  return defineOperation({
    name: 'send_signal',
    title: 'Send signal',
    description:
      'Sends one signal to a running command: INT, TERM, QUIT, KILL, STOP and CONT to all its processes; HUP, USR1 and the like to those that handle them. ' +
      'Use it to interrupt, pause, go on or make a server reload. It does not mark the job cancelled: to stop it for good with its whole tree use cancel_job; to press ctrl-c in a terminal send_input. Each process is identified again before it is signalled.',
    effect: 'destroy',
    scope: 'run',
    at: 'job',
    toolsets: ['command'],
    input: z.strictObject({
      id: jobId,
      signal: z.preprocess(
        (value) =>
          typeof value === 'string' ? `SIG${value.toUpperCase().replace(/^SIG/, '')}` : value,
        z.enum(signals),
      ),
    }),
    output: z.object({ id: z.string(), signal: z.string(), processes: z.number() }),
    http: { method: 'POST', path: '/api/jobs/{id}/signal' },
    cli: { words: ['signal'], args: ['id', 'signal'] },
    run: async ({ id, signal }, { caller }) => {
      const job = await ownCommand(needs, id, caller);
      refuseOver(job);
      const folder = needs.files.launch(job);
      const members = folder ? await membersOf(folder, job.attemptId) : [];
      const number = osConstants.signals[signal];
      const handlers = members.filter(({ pid }) => handledSignals(pid).has(number));
      const chosen = forAll.has(signal) || handlers.length === 0 ? members : handlers;
      const boot = bootId();
      const sent = chosen.filter((row: ProcessRow) => signalProcess(identityOf(row, boot), signal));
      return { id, signal, processes: sent.length };
    },
  });
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

async function ownCommand(
  { jobs }: OutputNeeds,
  id: string,
  caller: Caller | undefined,
): Promise<Job> {
  const job = await ownJob(jobs, id, caller);
  if (job.kind === 'command') return job;
  throw new AppError('wrongState', `${id} is a job of kind ${job.kind}, not a command.`);
}

function refuseOver(job: Job): void {
  if (!isFinal(job.status)) return;
  throw new AppError('wrongState', `The job is over (${job.status}).`, {
    hint: 'get_job shows how it ended; retry_job runs it again.',
    data: { status: job.status, exitCode: job.facts.exitCode ?? null },
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

function bytesOf(
  input: { text?: string; newline: boolean; keys?: Key[]; eof: boolean },
  tty: boolean,
): string {
  const enter = tty ? '\r' : '\n';
  const typed = (input.keys ?? []).map((key) => (key === 'enter' ? enter : keys[key]));
  const end = input.eof && tty ? keys['ctrl-d'] : '';
  return `${input.text ?? ''}${input.newline ? enter : ''}${typed.join('')}${end}`;
}

/** Never blocks the server: a pipe that is full is tried again for a while, then the rest is left. */
async function writeAll(
  path: string,
  bytes: Buffer,
  { clock }: OutputNeeds,
  signal: AbortSignal,
): Promise<number> {
  let sent = 0;
  for (let waited = 0; sent < bytes.length && waited < fullMsMax && !signal.aborted;) {
    const taken = tryWrite(path, bytes.subarray(sent));
    sent += taken;
    if (taken > 0) continue;
    await clock.sleep(50, signal);
    waited += 50;
  }
  return sent;
}

function tryWrite(path: string, bytes: Buffer): number {
  let fd: number;
  try {
    fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENXIO' || code === 'ENOENT') return 0;
    throw error;
  }
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EAGAIN') return 0;
    if (code === 'EPIPE') return 0;
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** The pipe ends when the last writer goes: that is the wrapper's holder. */
function endInput(folder: LaunchFolder): void {
  const pid = Number(readFileSync(folder.holder, 'utf8'));
  const start = startOf(pid);
  const claim = folder.readClaim();
  if (start === undefined || claim.state !== 'claimed') return;
  signalProcess({ pid, start, bootId: claim.identity.bootId }, 'SIGTERM');
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

/** Until the output falls quiet after something came, the job ends, or the time is up. */
async function settle(
  job: Job,
  folder: LaunchFolder,
  waitMs: number,
  { jobs, clock }: OutputNeeds,
  signal: AbortSignal,
): Promise<Job> {
  const step = 25;
  const before = outputBytes(folder);
  let last = before;
  let quiet = 0;
  for (let waited = 0; waited < waitMs && !signal.aborted; waited += step) {
    await clock.sleep(step, signal);
    const bytes = outputBytes(folder);
    quiet = bytes === last ? quiet + step : 0;
    last = bytes;
    if (folder.readExit()) break;
    if (bytes > before && quiet >= quietMs) break;
  }
  if (!folder.readExit()) return jobs.get(job.id);
  for (let waited = 0; waited < 2000; waited += step) {
    const present = await jobs.get(job.id);
    if (isFinal(present.status) || present.attemptId !== job.attemptId) return present;
    await clock.sleep(step);
  }
  return jobs.get(job.id);
}
