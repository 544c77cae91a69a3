// The seven tools of mcp-background-job with their original names, parameters, responses and errors, built on our operations.
// A job started here is a normal job: durable, with its real exit code, and available through every other interface.
import { z } from 'zod';
import type { InputOf, OutputOf } from '../../contract.ts';
import { readOutput, runCommand, sendInput } from '../../contracts/command.ts';
import { cancelJob, getJob, listJobs, type JobLine, type JobView } from '../../contracts/jobs.ts';
import {
  callOperation,
  unbudgeted,
  type Dialect,
  type DialectResult,
  type DialectCall,
  type DialectTool,
} from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { isRecord } from '../../runtime/json.ts';
import { coerceLines, validationText } from './validation.ts';

type Status = 'running' | 'completed' | 'failed' | 'killed';

type Reading = OutputOf<typeof readOutput>;
type ReadOptions = Partial<InputOf<typeof readOutput>>;
type StreamName = 'stdout' | 'stderr';

/** Maximum bytes of each stream in a response. Clients refuse responses much larger than two streams. */
const maxStreamBytes = 32_768;
const listPage = 200;
/** Up to this many jobs, long commands are shown completely. */
const maxFullCommands = 50;
const interactMs = 2000;

const jobIdField = (what: string) =>
  z.string().describe(`${what}, as execute_command or list_jobs returned it`);
const statusField = z.enum(['running', 'completed', 'failed', 'killed']);
const outputShape = z.object({
  stdout: z.string().describe('Standard output'),
  stderr: z.string().describe('Standard error'),
});

const tools: DialectTool[] = [
  tool({
    name: 'list_jobs',
    title: 'List jobs',
    description:
      'Lists all background jobs, newest first, including those of earlier sessions; use it instead of ps in a shell. Returns id, status (running, completed, failed, killed), command and start time of each; long commands are shortened when there are more than 50 jobs. Use it to find a job id. With an id use get_job_status. Changes nothing.',
    failure: 'Failed to list jobs',
    pages: true,
    effect: 'read',
    input: z.object({}),
    output: z.object({
      jobs: z.array(
        z.object({
          job_id: z.string(),
          status: statusField,
          command: z.string(),
          started: z.string(),
        }),
      ),
    }),
    run: async (_input, call) => {
      const jobs = await allJobs(unbudgeted(call));
      const showFull = jobs.length <= maxFullCommands;
      return { jobs: await Promise.all(jobs.map((job) => toListEntry(job, showFull, call))) };
    },
  }),
  tool({
    name: 'get_job_status',
    title: 'Get job status',
    description:
      'Returns whether a background job is running, completed (exit code 0), failed or killed; use it instead of ps in a shell. Returns immediately and does not wait for the job. An unknown id is an error: list_jobs shows the known ones. For what the job printed use tail_job_output. Changes nothing.',
    failure: 'Failed to get job status',
    effect: 'read',
    input: z.object({ job_id: jobIdField('Job ID to check') }),
    output: z.object({ status: statusField }),
    run: async ({ job_id: id }, call) => ({ status: statusOf(await find(id, call)) }),
  }),
  tool({
    name: 'get_job_output',
    title: 'Get job output',
    description:
      'Returns everything a background job has printed so far, stdout and stderr separately; use it instead of log files. Above 32 kB a stream is cut in the middle, with a mark that says how many bytes are missing. Returns immediately, even while the job runs. An unknown id is an error. For the last lines only use tail_job_output. Changes nothing.',
    failure: 'Failed to get job output',
    effect: 'read',
    input: z.object({ job_id: jobIdField('Job ID to get output from') }),
    output: outputShape,
    run: async ({ job_id: id }, call) => {
      const { stdout, stderr } = await readBoth(id, call, { mode: 'head_tail' });
      return { stdout: stdout.text, stderr: stderr.text };
    },
  }),
  tool({
    name: 'tail_job_output',
    title: 'Tail job output',
    description:
      'Returns the last lines of stdout and of stderr of a background job; use it instead of tail in a shell. Use it to follow progress or to see why a job failed; for everything use get_job_output. Works while the job runs and shows prompts that have no newline yet. Returns immediately. An unknown id is an error. Changes nothing.',
    failure: 'Failed to tail job output',
    effect: 'read',
    input: z.object({
      job_id: jobIdField('Job ID to tail'),
      lines: z
        .number()
        .int()
        .min(1)
        .max(1000)
        .default(50)
        .describe('Number of lines to return per stream, 1 to 1000'),
    }),
    output: outputShape,
    run: async ({ job_id: id, lines }, call) => {
      const { stdout, stderr } = await readBoth(id, call, { mode: 'tail' });
      return { stdout: lastLines(stdout, lines), stderr: lastLines(stderr, lines) };
    },
  }),
  tool({
    name: 'execute_command',
    title: 'Execute command',
    description:
      'Runs a shell command as a background job and returns its job_id immediately; prefer it to your own shell for anything over 10 s. Pipes, && and variables work. It runs in the working folder of your client, with its environment except secrets, and survives restarts of client and server. It does not wait: use get_job_status and tail_job_output. Answer its prompts with interact_with_job. Stop it with kill_job. An empty command is an error.',
    failure: 'Failed to execute command',
    alwaysLoad: true,
    effect: 'destroy',
    openWorld: true,
    input: z.object({ command: z.string().describe('Shell command to execute, not empty') }),
    output: z.object({ job_id: z.string() }),
    run: async ({ command: given }, call) => {
      const command = given.trim();
      if (command === '')
        throw new AppError('invalidInput', 'Invalid command: Command cannot be empty');
      const input = { command, streams: 'split', stdin: 'open', waitMs: 0 } as const;
      return { job_id: (await callOperation(call, runCommand, input)).id };
    },
  }),
  tool({
    name: 'interact_with_job',
    title: 'Interact with job',
    description:
      "Types a line into a running background job and returns what it prints next; your own shell cannot do this. Use it to answer prompts and drive REPLs. A newline is added if missing. Waits until output goes quiet, 2 s at most. The single character U+0004 ends the job's input, U+0003 interrupts it. An unknown id or a job that has ended is an error. To only read use tail_job_output.",
    failure: 'Failed to interact with job',
    effect: 'write',
    openWorld: true,
    input: z.object({
      job_id: jobIdField('Job ID to interact with'),
      input: z.string().describe("Text to send to the job's stdin"),
    }),
    output: outputShape,
    run: ({ job_id: id, input }, call) => interact(id, input, call),
  }),
  tool({
    name: 'kill_job',
    title: 'Kill job',
    description:
      'Kills a background job with all its processes: SIGTERM first, SIGKILL after 5 s; use it instead of kill in a shell. Use it for jobs that hang or are no longer needed. Returns killed, already_terminated, or not_found for an unknown id. Its output stays readable with get_job_output.',
    failure: 'Failed to kill job',
    effect: 'destroy',
    idempotent: true,
    input: z.object({ job_id: jobIdField('Job ID to kill') }),
    output: z.object({ status: z.enum(['killed', 'already_terminated', 'not_found']) }),
    run: async ({ job_id: id }, call) => {
      const job = await find(id, call).catch(ignoreMissing);
      if (!job) return { status: 'not_found' };
      if (statusOf(job) !== 'running') return { status: 'already_terminated' };
      const after = await callOperation(call, cancelJob, { id });
      return { status: after.status === 'cancelled' ? 'killed' : 'already_terminated' };
    },
  }),
];

export const backgroundJobDialect: Dialect = {
  name: 'background-job',
  tools,
  instructions:
    'Runs shell commands as background jobs; prefer execute_command to your own shell for builds, tests, servers and anything over 10 seconds. ' +
    'get_job_status and tail_job_output follow a job. interact_with_job types into it. kill_job stops it. Jobs and their output survive restarts of client and server.',
};

type Shape<I, O> = Omit<DialectTool, 'input' | 'output' | 'run'> & {
  input: z.ZodType<I>;
  output: z.ZodType<O>;
  /** Prefix that the original adds to every unexpected error. */
  failure: string;
  run(input: I, call: DialectCall): Promise<O>;
};

/** Converts errors to tool errors with the wording of the original. */
function tool<I, O>({ run, failure, ...shape }: Shape<I, O>): DialectTool {
  return {
    ...shape,
    prepare: coerceLines,
    refused: (_error, issues) => ({ isError: true, text: validationText(shape.name, issues) }),
    run: async (input, call): Promise<DialectResult> => {
      try {
        return { structured: await run(input as I, call) };
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        const id = (input as { job_id?: string }).job_id;
        return { isError: true, text: errorText(error, id, failure) };
      }
    },
  };
}

function errorText({ code, message, hint }: AppError, id: string | undefined, failure: string) {
  if (code === 'notFound' && id !== undefined) return `Job ${id} not found`;
  // These messages already have the wording of the original.
  if (message.startsWith('Invalid command: ') || message.endsWith(notRunning)) return message;
  return `${failure}: ${message}${hint ? ` ${hint}` : ''}`;
}

const notRunning = 'is not running and cannot accept input';

async function allJobs(call: DialectCall): Promise<JobLine[]> {
  const all: JobLine[] = [];
  let next: { cursor?: string } | undefined = {};
  while (next) {
    const page: OutputOf<typeof listJobs> = await callOperation(call, listJobs, {
      kind: ['command'],
      limit: listPage,
      ...next,
    });
    all.push(...page.jobs);
    next = page.nextCursor === undefined ? undefined : { cursor: page.nextCursor };
  }
  return all;
}

/** Ids with another format are unknown jobs as well. */
async function find(id: string, call: DialectCall): Promise<JobView> {
  const job = await callOperation(call, getJob, { id }).catch(ignoreMissing);
  if (job?.kind === 'command') return job;
  throw new AppError('notFound', `Job ${id} not found`);
}

/** A job killed by someone else is also `killed`: the original cannot distinguish them, and its clients expect this status. */
function statusOf({ status, signal }: JobView | JobLine): Status {
  if (status === 'completed') return 'completed';
  if (status === 'cancelled') return 'killed';
  if (status === 'timed_out') return 'failed';
  if (status === 'failed')
    return signal === 'SIGKILL' || signal === 'SIGTERM' ? 'killed' : 'failed';
  return 'running';
}

async function toListEntry(job: JobLine, showFull: boolean, call: DialectCall) {
  const isCut = showFull && job.summary?.endsWith('…');
  const full = isCut
    ? await callOperation(call, getJob, { id: job.id, includeInput: true })
    : undefined;
  return {
    job_id: job.id,
    status: statusOf(full ?? job),
    command: commandOf(full?.input) ?? job.summary ?? '',
    started: job.createdAt,
  };
}

/** The command line in the input of a job. */
function commandOf(input: unknown): string | undefined {
  const command = isRecord(input) ? input.command : undefined;
  return typeof command === 'string' ? command : undefined;
}

async function readBoth(id: string, call: DialectCall, options: ReadOptions) {
  const job = await find(id, call);
  const read = (stream: StreamName) => readStream(job.id, stream, call, options);
  const [stdout, stderr] = await Promise.all([read('stdout'), read('stderr')]);
  return { stdout, stderr };
}

/** A job of another interface has one merged stream. It is returned as stdout. */
async function readStream(
  id: string,
  stream: StreamName,
  call: DialectCall,
  options: ReadOptions,
): Promise<Pick<Reading, 'text' | 'from'>> {
  const request = { raw: true, maxBytes: maxStreamBytes, ...options, id };
  try {
    return await callOperation(call, readOutput, { ...request, stream });
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalidInput') throw error;
    return stream === 'stderr' ? { text: '', from: 0 } : callOperation(call, readOutput, request);
  }
}

async function interact(id: string, input: string, call: DialectCall) {
  if (statusOf(await find(id, call)) !== 'running')
    throw new AppError('wrongState', `Job ${id} ${notRunning}`);
  const before = await callOperation(call, readOutput, { id, maxBytes: 200 });
  await callOperation(call, sendInput, { id, waitMs: interactMs, ...toInput(input) });
  const from = (stream: string) =>
    before.streams?.find((one) => one.stream === stream)?.next ?? before.next;
  const read = (stream: StreamName) =>
    readStream(id, stream, call, { mode: 'since', from: from(stream) });
  const [stdout, stderr] = await Promise.all([read('stdout'), read('stderr')]);
  return { stdout: stdout.text, stderr: stderr.text };
}

function toInput(input: string): Partial<InputOf<typeof sendInput>> {
  if (input === '\u0004') return { keys: ['ctrl-d'] };
  if (input === '\u0003') return { keys: ['ctrl-c'] };
  return { text: input.endsWith('\n') ? input : `${input}\n` };
}

/** Returns fewer lines with a remark if not all fit. The first line of a cut text is incomplete and is omitted. */
function lastLines({ text, from }: Pick<Reading, 'text' | 'from'>, count: number): string {
  const lines = text.split('\n');
  const wanted = count + (lines.at(-1) === '' ? 1 : 0);
  if (from === 0 || lines.length > wanted) return lines.slice(-wanted).join('\n');
  const whole = lines.length > 1 ? lines.slice(1) : lines;
  return ['[… earlier lines do not fit into one response …]', ...whole].join('\n');
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof AppError && (error.code === 'notFound' || error.code === 'invalidInput'))
    return undefined;
  throw error;
}
