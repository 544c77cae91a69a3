// read_output: what a job printed, within a budget, by absolute byte cursors. The state comes first in every
// answer, and what was left out is said with the cursor to get it.
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { isFinal, statuses, type Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import { jobId } from '../../jobs/operation-needs.ts';
import { visibleJob } from '../../jobs/view.ts';
import { defineOperation, type Operation } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { logsOf, type JobFiles, type StreamName } from './files.ts';
import { follow } from './follow.ts';
import { terminalSize, type CommandInput } from './input.ts';
import { number } from './output/clean.ts';
import { readErrors } from './output/errors/read.ts';
import { grep } from './output/grep.ts';
import { Log } from './output/log.ts';
import {
  offsetOfLine,
  readBothEnds,
  readForward,
  readTail,
  type Reading,
  type ReadOptions,
} from './output/read.ts';
import { renderScreen } from './output/screen.ts';
import { textOf } from './process/folder.ts';

export interface OutputNeeds {
  jobs: Jobs;
  files: JobFiles;
  clock: Clock;
}

const bytesDefault = 8192;
const bytesLimit = 65_536;

export const modes = ['tail', 'head_tail', 'range', 'since', 'grep', 'errors', 'screen'] as const;

const outputInput = z.strictObject({
  id: jobId,
  mode: z
    .enum(modes)
    .optional()
    .describe(
      'Default: what the other fields ask for, else tail. tail: the end. head_tail: both ends. range: from/to or fromLine/toLine. since: new after `from`. grep: lines with `pattern`. errors: lines that look like trouble. screen: a terminal as it looks now',
    ),
  bytesMax: z
    .number()
    .int()
    .min(200)
    .max(bytesLimit)
    .default(bytesDefault)
    .describe('Most text to answer'),
  from: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Cursor: a byte offset, `next` of a call before'),
  to: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('End of a range; of tail and errors: only what lies before it'),
  fromLine: z.number().int().min(1).optional(),
  toLine: z.number().int().min(1).optional(),
  pattern: z.string().min(1).max(1000).optional().describe('For grep: plain text unless regex'),
  regex: z.boolean().default(false).describe('pattern is an RE2 expression'),
  ignoreCase: z.boolean().default(false),
  context: z.number().int().min(0).max(20).default(0).describe('For grep: lines around a match'),
  countOnly: z.boolean().default(false),
  stream: z
    .enum(['stdout', 'stderr'])
    .optional()
    .describe('One stream of a job with split streams'),
  raw: z.boolean().default(false).describe('As printed: escapes, rewrites and repetition kept'),
  attempt: z.number().int().min(1).optional().describe('An earlier attempt'),
  cursor: z.string().max(40).optional().describe('For following: go on after this event'),
  once: z.boolean().default(false).describe('For following: stop at the present end'),
  lossless: z
    .boolean()
    .default(false)
    .describe('For following: never skip ahead, however fast the job prints; with raw as base64'),
});

type OutputInput = z.infer<typeof outputInput>;
export type OutputRequest = Partial<Omit<OutputInput, 'id'>>;

const streamPart = z.object({
  stream: z.string(),
  from: z.number(),
  next: z.number(),
  size: z.number(),
});

const outputAnswer = z.object({
  id: z.string(),
  status: z.enum(statuses),
  exitCode: z.number().nullable(),
  signal: z.string().nullable(),
  mode: z.enum(modes),
  text: z.string(),
  from: z.number().describe('First byte shown'),
  next: z.number().describe('Cursor to read on from'),
  size: z.number().describe('Bytes there are'),
  matches: z.number().optional(),
  omitted: z.string().optional().describe('What was left out, and how to get it'),
  streams: z.array(streamPart).optional().describe('Split jobs: order between streams is unknown'),
  screenCursor: z.object({ row: z.number(), col: z.number() }).optional(),
});
export type OutputAnswer = z.infer<typeof outputAnswer>;

export function readOutputOperation(needs: OutputNeeds): Operation {
  return defineOperation<OutputInput, OutputAnswer>({
    name: 'read_output',
    title: 'Read output',
    description:
      'Reads what a command or the handler of an endpoint job printed, at most bytesMax (default 8 kB): the end by default, or what `mode` says. ' +
      'Use it instead of piping a command through head, tail or grep: all output is kept and can be read again in other ways. Cleaned of escapes and repetition unless raw. ' +
      'Cursors are byte offsets and stay valid. To wait for new output use wait_for_jobs; for the state alone get_job.',
    effect: 'read',
    idempotent: true,
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['default', 'command'],
    input: outputInput,
    output: outputAnswer,
    rareInput: [
      'to',
      'fromLine',
      'toLine',
      'ignoreCase',
      'countOnly',
      'stream',
      'attempt',
      'context',
      'raw',
      'cursor',
      'once',
      'lossless',
    ],
    http: { method: 'GET', path: '/api/jobs/{id}/output' },
    cli: { words: ['logs'], args: ['id'], custom: true },
    text: outputText,
    run: async ({ id, ...request }, { caller }) =>
      readOutput(await printingJob(needs.jobs, { id, ...request }, caller), request, needs),
    stream: async function* (input, { caller, signal }) {
      const job = await printingJob(needs.jobs, input, caller);
      yield* follow(job, input, needs, signal);
    },
  });
}

/** The job if the caller may see it and jobs of its kind print something. */
async function printingJob(
  jobs: Jobs,
  { id, attempt = 1 }: { id: string; attempt?: number | undefined },
  caller: Parameters<typeof visibleJob>[2],
): Promise<Job> {
  const job = await visibleJob(jobs, id, caller);
  if (attempt > job.attempt)
    throw new AppError(
      'notFound',
      `${id} has no attempt ${attempt}; its last one is ${job.attempt}.`,
    );
  if (job.kind === 'command' || jobs.kind(job.kind).output) return job;
  throw new AppError('wrongState', `${id} is a job of kind ${job.kind}: it prints nothing.`, {
    hint: 'get_job shows its result.',
  });
}

export async function readOutput(
  job: Job,
  request: OutputRequest,
  needs: OutputNeeds,
): Promise<OutputAnswer> {
  const mode = request.mode ?? modeOf(request);
  const facts = await factsOf(job, request.attempt, needs);
  const logs = await logsOf(job, request.attempt, needs);
  const chosen = logs.filter(({ stream }) => !request.stream || stream === request.stream);
  if (request.stream && chosen.length === 0) {
    throw new AppError('invalidInput', 'The streams of this job are merged.', {
      hint: 'Leave `stream` out, or start the job with streams: split.',
    });
  }
  const { bytesMax = bytesDefault } = request;
  const titles = chosen.length === 1 ? 0 : chosen.length * titleOf('stdout').length;
  const share = { ...request, bytesMax: (bytesMax - titles) / chosen.length };
  const parts = await Promise.all(
    chosen.map(async ({ stream, view, omitted }) => {
      await using log = await Log.open(view);
      const part = await readPart(log, mode, share, job, needs);
      return { stream, part: omitted === undefined ? part : noted(part, omitted) };
    }),
  );
  return { ...facts, mode, ...joined(parts) };
}

/** A field that belongs to one mode asks for it: nobody gives a pattern to see the end. */
function modeOf({ pattern, from, to, fromLine, toLine }: OutputRequest): (typeof modes)[number] {
  if (pattern !== undefined) return 'grep';
  if (fromLine !== undefined || toLine !== undefined) return 'range';
  if (from === undefined) return 'tail';
  return to === undefined ? 'since' : 'range';
}

interface Part extends Reading {
  size: number;
  matches?: number;
  omitted?: string;
  screenCursor?: { row: number; col: number };
}

async function readPart(
  log: Log,
  mode: (typeof modes)[number],
  request: OutputRequest,
  job: Job,
  needs: OutputNeeds,
): Promise<Part> {
  const { size } = log;
  const options: ReadOptions = {
    bytesMax: Math.floor(request.bytesMax ?? bytesDefault),
    raw: request.raw ?? false,
  };
  switch (mode) {
    case 'tail':
      return withOmitted(await readTail(log, options, request.to), log);
    case 'head_tail': {
      const { head, tail } = await readBothEnds(log, options);
      if (!tail) return { ...head, size };
      const gap = tail.from - head.next;
      const text = gap > 0 ? `${head.text}[… ${gapText(gap, head.next)} …]\n` : head.text;
      return { text: text + tail.text, from: head.from, next: tail.next, size };
    }
    case 'range':
    case 'since': {
      const span = await spanOf(log, request);
      return withOmitted(await readForward(log, span.from, options, span.to), log, span);
    }
    case 'grep':
      return grepPart(log, request, options, needs);
    case 'errors':
      return readErrors(log, options, needs.clock, request.to);
    case 'screen': {
      const dimensions = screenSize(job, needs);
      const { text, cursor, hiddenRows } = await renderScreen(log, dimensions, options.bytesMax);
      const note = `the first ${hiddenRows} rows: the same call with a larger bytesMax`;
      const omitted = hiddenRows === 0 ? {} : { omitted: note };
      return { text, from: log.start, next: size, size, screenCursor: cursor, ...omitted };
    }
  }
}

async function grepPart(
  log: Log,
  request: OutputRequest,
  options: ReadOptions,
  { clock }: OutputNeeds,
): Promise<Part> {
  if (request.pattern === undefined)
    throw new AppError('invalidInput', 'mode grep needs a pattern.');
  const { regex = false, ignoreCase = false, context = 0, countOnly = false, pattern } = request;
  const from = request.from ?? log.start;
  const found = await grep(
    log,
    { pattern, regex, ignoreCase, context, countOnly, from, ...options },
    clock,
  );
  const { text, matches, next, complete } = found;
  const omitted = complete ? {} : { omitted: `More: the same call with from ${next}.` };
  return { text, from, next, size: log.size, matches, ...omitted };
}

async function spanOf(log: Log, request: OutputRequest): Promise<{ from: number; to?: number }> {
  const { from, to, fromLine, toLine } = request;
  const begin = fromLine === undefined ? (from ?? log.start) : await offsetOfLine(log, fromLine);
  if (toLine !== undefined) return { from: begin, to: await offsetOfLine(log, toLine + 1) };
  return { from: begin, ...(to === undefined ? {} : { to }) };
}

/** `asked`: what is outside of it was not wanted, so it is not missing. */
function withOmitted(reading: Reading, log: Log, asked: { from?: number; to?: number } = {}): Part {
  const { from = log.start, to = log.size } = asked;
  const notes: string[] = [];
  if (from > log.size) notes.push(`byte ${from} is not there (yet): a cursor of another attempt?`);
  if (log.start > 0 && reading.from <= log.start)
    notes.push(`bytes 0–${number(log.start)} were dropped by the ring`);
  const begin = Math.max(from, log.start);
  if (reading.from > begin) notes.push(gapText(reading.from - begin, begin));
  const after = Math.min(to, log.size) - reading.next;
  if (after > 0) notes.push(`${number(after)} bytes after: mode since, from ${reading.next}`);
  return { ...reading, size: log.size, ...(notes.length > 0 ? { omitted: notes.join('; ') } : {}) };
}

function noted(part: Part, note: string): Part {
  return { ...part, omitted: part.omitted === undefined ? note : `${part.omitted}; ${note}` };
}

const gapText = (bytes: number, from: number): string =>
  `${number(bytes)} bytes left out: mode range, from ${from}, to ${from + bytes}`;

function joined(
  parts: { stream: StreamName; part: Part }[],
): Omit<OutputAnswer, 'id' | 'status' | 'exitCode' | 'signal' | 'mode'> {
  const [first] = parts;
  if (parts.length === 1) return first!.part;
  const text = parts.map(({ stream, part }) => titleOf(stream) + ended(part.text)).join('');
  const sum = (pick: (part: Part) => number) => parts.reduce((n, { part }) => n + pick(part), 0);
  const notes = parts.flatMap(({ stream, part }) =>
    part.omitted ? [`${stream}: ${part.omitted} (with stream: ${stream})`] : [],
  );
  return {
    text,
    from: 0,
    next: 0,
    size: sum((part) => part.size),
    ...(first!.part.matches === undefined ? {} : { matches: sum((part) => part.matches ?? 0) }),
    ...(notes.length > 0 ? { omitted: notes.join('; ') } : {}),
    streams: parts.map(({ stream, part: { from, next, size } }) => ({ stream, from, next, size })),
  };
}

const titleOf = (stream: string): string => `--- ${stream} ---\n`;

const ended = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`);

async function factsOf(job: Job, attempt: number | undefined, { jobs }: OutputNeeds) {
  const earlier =
    attempt === undefined || attempt === job.attempt
      ? undefined
      : (await jobs.ledger.attempts(job.id)).find((one) => one.attempt === attempt);
  const facts = earlier?.facts ?? job.facts;
  return {
    id: job.id,
    status: (earlier?.status as Job['status'] | undefined) ?? job.status,
    exitCode: typeof facts.exitCode === 'number' ? facts.exitCode : null,
    signal: typeof facts.signal === 'string' ? facts.signal : null,
  };
}

function screenSize(job: Job, { files }: OutputNeeds) {
  const { tty } = job.input as CommandInput;
  if (!tty) {
    throw new AppError('wrongState', 'Only jobs with a terminal have a screen.', {
      hint: 'Read it with mode tail, or start it with tty: true.',
    });
  }
  const resized = textOf(files.launch(job)?.size ?? '');
  return resized === undefined ? tty : terminalSize.parse(JSON.parse(resized));
}

export function stateText(answer: Pick<OutputAnswer, 'id' | 'status' | 'exitCode' | 'signal'>) {
  const { id, status, exitCode, signal } = answer;
  const code = exitCode === null ? '' : ` · exit code ${exitCode}`;
  return `${id} ${status}${code}${signal ? ` · signal ${signal}` : ''}`;
}

function outputText(answer: OutputAnswer): string {
  const count = answer.matches === undefined ? '' : ` · ${number(answer.matches)} matches`;
  const places = answer.streams
    ? answer.streams.map((part) => `${part.stream} ${placeText(part)}`).join(', ') +
      ' · order between them unknown'
    : placeText(answer);
  const head = `${stateText(answer)}${count} · ${places}`;
  const notes = answer.omitted ? `\n[${answer.omitted}]` : '';
  return `${head}\n${answer.text || emptyText(answer)}${notes}`;
}

const placeText = ({ from, next, size }: { from: number; next: number; size: number }): string =>
  `bytes ${from}–${next} of ${size}`;

function emptyText({ status, matches, size, from, mode }: OutputAnswer): string {
  if (size === 0) return isFinal(status) ? '(no output)' : '(no output yet)';
  if (matches !== undefined) return matches === 0 ? '(no line matches)' : '(counted only)';
  return mode === 'since' || from >= size ? '(nothing new)' : '(nothing there)';
}
