// The read_output operation: job output within a byte budget, addressed by absolute byte cursors. Every response starts with
// the job state and reports what was omitted, with the cursor to read it.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import type { Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import { visibleJob } from '../../../jobs/view.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { logsOf, type StreamName } from '../files.ts';
import { follow } from '../output/follow.ts';
import type { CommandInput } from '../input.ts';
import { terminalSize, bytesDefault, outputModes, readOutput } from '../../../contracts/command.ts';
import { formatNumber } from '../output/text.ts';
import { readErrors } from '../output/errors/read.ts';
import { grep } from '../output/grep.ts';
import { Log } from '../output/log.ts';
import {
  lineAt,
  offsetOfLine,
  readBothEnds,
  readForward,
  readTail,
  type Reading,
  type ReadOptions,
} from '../output/read.ts';
import { fitReading, type Omitted } from '../../../runtime/response-budget.ts';
import {
  type OutputDeps,
  type OutputInput,
  type OutputRequest,
  type OutputResponse,
} from '../output/request.ts';
import { renderScreen } from '../output/screen.ts';
import { briefReading, outputText } from './output-text.ts';
import { textOf } from '../process/folder.ts';

export function readOutputOperation(deps: OutputDeps): Operation {
  return defineOperation<OutputInput, OutputResponse>({
    ...readOutput,
    title: 'Read output',
    description:
      'Reads the output of a job (end, errors, matching lines, ranges), even while it runs; use it instead of tail or grep in a shell. ' +
      'All output is kept: never run a command again to see more of it. Returns the last 8 kB by default; escape codes and repeated lines are removed unless raw, and secrets show as ***. ' +
      '`next` in the response is the cursor to continue from. Only commands and endpoint handlers have output. To wait for output use wait_for_jobs. For the state alone use get_job.',
    effect: 'read',
    idempotent: true,
    scope: 'read',
    reach: { jobs: ({ id }) => [id] },
    at: 'job',
    toolsets: ['default', 'command'],
    alwaysLoad: true,
    brief: { schema: z.looseObject({ status: z.string(), text: z.string() }), of: briefReading },
    rareInput: [
      'ignoreCase',
      'context (lines around a match)',
      'stream (stdout or stderr of a split job)',
      'attempt (number)',
    ],
    unlistedInput: ['countOnly', 'countLines', 'cursor', 'once', 'lossless'],
    http: { method: 'GET', path: '/api/jobs/{id}/output' },
    cli: { words: ['logs'], args: ['id'], custom: true },
    text: outputText,
    pages: true,
    run: async ({ id, ...request }, { caller, maxResponseBytes }) => {
      const job = await printingJob(deps.jobs, { id, ...request }, caller);
      const unmasked = maxResponseBytes === undefined;
      return fitReading(request.maxBytes, maxResponseBytes, (maxBytes) =>
        readJobOutput(job, { ...request, maxBytes, unmasked }, deps),
      );
    },
    stream: async function* (input, { caller, signal }) {
      const job = await printingJob(deps.jobs, input, caller);
      yield* follow(job, input, deps, signal);
    },
  });
}

/** Returns the job if the caller may see it and its kind has output. */
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
  throw new AppError('wrongState', `${id} is a job of kind ${job.kind} and has no output.`, {
    hint: 'get_job shows its result.',
  });
}

export async function readJobOutput(
  job: Job,
  request: OutputRequest,
  deps: OutputDeps,
): Promise<OutputResponse> {
  const mode = request.mode ?? modeOf(request);
  const facts = await factsOf(job, request.attempt, deps);
  const logs = await logsOf(job, request.attempt, deps);
  const chosen = logs.filter(({ stream }) => !request.stream || stream === request.stream);
  if (request.stream && chosen.length === 0) {
    throw new AppError('invalidInput', 'The streams of this job are merged.', {
      hint: 'Omit `stream`, or start the job with streams: split.',
    });
  }
  const { maxBytes = bytesDefault } = request;
  const titles = chosen.length === 1 ? 0 : chosen.length * streamTitle('stdout').length;
  const share = { ...request, maxBytes: (maxBytes - titles) / chosen.length };
  const parts = await Promise.all(
    chosen.map(async ({ stream, view, omitted: missing }) => {
      await using log = await Log.open(view);
      const part = await readPart(log, { ...share, mode }, job, deps);
      return { stream, part: missing === undefined ? part : withNote(part, missing) };
    }),
  );
  const { leftOut, leftOutBytes: bytes, ...reading } = joinParts(parts);
  const left: Omitted | undefined =
    leftOut === undefined ? undefined : { ...(bytes ? { bytes } : {}), reason: leftOut };
  const text = request.unmasked ? reading.text : deps.mask(job.id, reading.text);
  return { ...facts, mode, ...reading, text, ...(left ? { omitted: left } : {}) };
}

/** A field that belongs to one mode selects that mode. */
function modeOf({
  pattern,
  from,
  to,
  fromLine,
  toLine,
}: OutputRequest): (typeof outputModes)[number] {
  if (pattern !== undefined) return 'grep';
  if (fromLine !== undefined || toLine !== undefined) return 'range';
  if (from === undefined) return 'tail';
  return to === undefined ? 'since' : 'range';
}

interface Part extends Reading {
  size: number;
  line?: number;
  matches?: number;
  /** What is not shown, and how to read it. */
  leftOut?: string;
  leftOutBytes?: number;
  screenCursor?: { row: number; col: number };
}

async function readPart(
  log: Log,
  { mode, ...request }: OutputRequest & { mode: (typeof outputModes)[number] },
  job: Job,
  deps: OutputDeps,
): Promise<Part> {
  const { size } = log;
  const options: ReadOptions = {
    maxBytes: Math.floor(request.maxBytes ?? bytesDefault),
    raw: request.raw ?? false,
  };
  let reading: Reading;
  switch (mode) {
    case 'tail':
      reading = await readTail(log, options, request.to);
      return withLine(withOmitted(reading, log), log, request.countLines, deps.clock);
    case 'head_tail': {
      const { head, tail } = await readBothEnds(log, options);
      if (!tail) return { ...head, size };
      const gap = tail.from - head.next;
      const text = gap > 0 ? `${head.text}[… ${gapText(gap, head.next)} …]\n` : head.text;
      const left = gap > 0 ? { leftOut: gapText(gap, head.next), leftOutBytes: gap } : {};
      return { text: text + tail.text, from: head.from, next: tail.next, size, ...left };
    }
    case 'range':
    case 'since': {
      const span = await spanOf(log, request);
      reading = await readForward(log, span.from, options, span.to);
      return withLine(withOmitted(reading, log, span), log, request.countLines, deps.clock);
    }
    case 'grep':
      return grepPart(log, request, options, deps);
    case 'errors':
      return errorsPart(await readErrors(log, options, deps.clock, request.to));
    case 'screen': {
      const dimensions = screenSize(job, deps);
      const { text, cursor, hiddenRows } = await renderScreen(log, dimensions, options.maxBytes);
      const note = `${hiddenRows} rows at the top: repeat the call with a larger maxBytes`;
      const left = hiddenRows === 0 ? {} : { leftOut: note };
      return { text, from: log.start, next: size, size, screenCursor: cursor, ...left };
    }
  }
}

async function withLine(part: Part, log: Log, isWanted = false, clock: Clock): Promise<Part> {
  const line = isWanted ? await lineAt(log, part.from, clock) : undefined;
  return line === undefined ? part : { ...part, line };
}

function errorsPart({ omitted: leftOut, ...part }: Awaited<ReturnType<typeof readErrors>>): Part {
  return leftOut === undefined ? part : { ...part, leftOut };
}

async function grepPart(
  log: Log,
  request: OutputRequest,
  options: ReadOptions,
  { clock }: OutputDeps,
): Promise<Part> {
  if (request.pattern === undefined)
    throw new AppError('invalidInput', 'Mode grep requires `pattern`.');
  const { regex = false, ignoreCase = false, context = 0, countOnly = false, pattern } = request;
  const from = request.from ?? log.start;
  const found = await grep(
    log,
    { pattern, regex, ignoreCase, context, countOnly, from, ...options },
    clock,
  );
  const { text, matches, next, complete } = found;
  const left = complete ? {} : { leftOut: `More: repeat the call with from ${next}.` };
  return { text, from, next, size: log.size, matches, ...left };
}

async function spanOf(log: Log, request: OutputRequest): Promise<{ from: number; to?: number }> {
  const { from, to, fromLine, toLine } = request;
  const begin = fromLine === undefined ? (from ?? log.start) : await offsetOfLine(log, fromLine);
  if (toLine !== undefined) return { from: begin, to: await offsetOfLine(log, toLine + 1) };
  return { from: begin, ...(to === undefined ? {} : { to }) };
}

/** `asked`: the requested range. Output outside it does not count as omitted. */
function withOmitted(reading: Reading, log: Log, asked: { from?: number; to?: number } = {}): Part {
  const { from = log.start, to = log.size } = asked;
  const notes: string[] = [];
  if (from > log.size)
    notes.push(`byte ${from} does not exist yet, or the cursor belongs to another attempt`);
  if (log.start > 0 && reading.from <= log.start)
    notes.push(`bytes 0–${formatNumber(log.start)} were dropped by the ring`);
  const begin = Math.max(from, log.start);
  const before = Math.max(0, reading.from - begin);
  if (before > 0) notes.push(gapText(before, begin));
  const after = Math.max(0, Math.min(to, log.size) - reading.next);
  if (after > 0) notes.push(`${formatNumber(after)} bytes after: mode since, from ${reading.next}`);
  const left = notes.length > 0 ? { leftOut: notes.join('; '), leftOutBytes: before + after } : {};
  return { ...reading, size: log.size, ...left };
}

function withNote(part: Part, note: string): Part {
  return { ...part, leftOut: part.leftOut === undefined ? note : `${part.leftOut}; ${note}` };
}

const gapText = (bytes: number, from: number): string =>
  `${formatNumber(bytes)} bytes left out: mode range, from ${from}, to ${from + bytes}`;

function joinParts(
  parts: { stream: StreamName; part: Part }[],
): Part & Pick<OutputResponse, 'streams'> {
  const [first] = parts;
  if (parts.length === 1) return first!.part;
  const text = parts
    .map(({ stream, part }) => streamTitle(stream) + withNewline(part.text))
    .join('');
  const sum = (pick: (part: Part) => number) => parts.reduce((n, { part }) => n + pick(part), 0);
  const notes = parts.flatMap(({ stream, part }) =>
    part.leftOut ? [`${stream}: ${part.leftOut} (with stream: ${stream})`] : [],
  );
  return {
    text,
    from: 0,
    next: 0,
    size: sum((part) => part.size),
    ...(first!.part.matches === undefined ? {} : { matches: sum((part) => part.matches ?? 0) }),
    ...(notes.length > 0
      ? { leftOut: notes.join('; '), leftOutBytes: sum((part) => part.leftOutBytes ?? 0) }
      : {}),
    streams: parts.map(({ stream, part: { from, next, size } }) => ({ stream, from, next, size })),
  };
}

const streamTitle = (stream: string): string => `--- ${stream} ---\n`;

const withNewline = (text: string): string =>
  text === '' || text.endsWith('\n') ? text : `${text}\n`;

async function factsOf(job: Job, attempt: number | undefined, { jobs }: OutputDeps) {
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

function screenSize(job: Job, { files }: OutputDeps) {
  const { tty } = job.input as CommandInput;
  if (!tty) {
    throw new AppError('wrongState', 'Only jobs with a terminal have a screen.', {
      hint: 'Read it with mode tail, or start it with tty: true.',
    });
  }
  const resized = textOf(files.launch(job)?.size ?? '');
  return resized === undefined ? tty : terminalSize.parse(JSON.parse(resized));
}
