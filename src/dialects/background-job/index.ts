// The seven tools of mcp-background-job under their own names, parameters and answers, over our operations. A job
// started here is a job like any other: durable, with its true exit code, readable by every other face.
import { z } from 'zod';
import type { Dialect, DialectAnswer, DialectCall, DialectTool } from '../../dialect.ts';
import { AppError } from '../../errors.ts';

type Status = 'running' | 'completed' | 'failed' | 'killed';

interface JobView {
  id: string;
  status: string;
  signal?: string | null;
  summary?: string;
  createdAt?: string;
  input?: { command?: string };
}
interface Reading {
  text: string;
  from: number;
  next: number;
  status: string;
  streams?: { stream: string; next: number }[];
}

/** An answer holds at most this much of each stream: clients refuse answers much larger than both together. */
const streamBytesMax = 32_768;
const listMax = 200;
const interactMs = 2000;

const jobIdField = (what: string) => z.string().describe(what);
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
      'Lists background jobs, newest first, with id, status (running, completed, failed, killed), command and start time. Use it to find a job id; with an id use get_job_status. Changes nothing.',
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
      const { jobs } = await ask<{ jobs: JobView[] }>(call, 'list_jobs', {
        kind: ['command'],
        limit: listMax,
      });
      return { jobs: await Promise.all(jobs.map((job) => lineOf(job, call))) };
    },
  }),
  tool({
    name: 'get_job_status',
    title: 'Get job status',
    description:
      'Tells whether a background job is running, completed, failed or killed. Use it with the id that execute_command gave; for what it printed use tail_job_output. Changes nothing.',
    effect: 'read',
    input: z.object({ job_id: jobIdField('Job ID to check') }),
    output: z.object({ status: statusField }),
    run: async ({ job_id: id }, call) => ({ status: statusOf(await find(id, call)) }),
  }),
  tool({
    name: 'get_job_output',
    title: 'Get job output',
    description:
      'Gives what a background job printed so far, stdout and stderr apart. Long output is cut in the middle, and the cut is marked with how much is missing. For the last lines only use tail_job_output. Changes nothing.',
    effect: 'read',
    input: z.object({ job_id: jobIdField('Job ID to get output from') }),
    output: outputShape,
    run: async ({ job_id: id }, call) => {
      const { stdout, stderr } = await both(id, call, { mode: 'head_tail' });
      return { stdout: stdout.text, stderr: stderr.text };
    },
  }),
  tool({
    name: 'tail_job_output',
    title: 'Tail job output',
    description:
      'Gives the last lines of stdout and of stderr of a background job, also while it runs, prompts without newline included. Use it to look at progress or at why a job failed. Changes nothing.',
    effect: 'read',
    input: z.object({
      job_id: jobIdField('Job ID to tail'),
      lines: z.number().int().min(1).max(1000).default(50).describe('Number of lines to return'),
    }),
    output: outputShape,
    run: async ({ job_id: id, lines }, call) => {
      const { stdout, stderr } = await both(id, call, { mode: 'tail' });
      return { stdout: lastLines(stdout, lines), stderr: lastLines(stderr, lines) };
    },
  }),
  tool({
    name: 'execute_command',
    title: 'Execute command',
    description:
      'Starts a shell command (pipes, &&, variables work) as a background job and gives its job_id at once. The job survives restarts. Follow it with get_job_status and tail_job_output, type into it with interact_with_job, stop it with kill_job. It changes whatever the command changes.',
    effect: 'destroy',
    openWorld: true,
    input: z.object({ command: z.string().min(1).describe('Shell command to execute') }),
    output: z.object({ job_id: z.string() }),
    run: async ({ command }, call) => {
      const wish = { command, streams: 'split', stdin: 'open', waitMs: 0 };
      return { job_id: (await ask<JobView>(call, 'run_command', wish)).id };
    },
  }),
  tool({
    name: 'interact_with_job',
    title: 'Interact with job',
    description:
      'Types a line into a running background job (a newline is added if missing) and gives what it printed after that. A lone U+0004 ends its input, a lone U+0003 interrupts it. Use it to answer prompts; a job that is over refuses it.',
    effect: 'write',
    openWorld: true,
    input: z.object({
      job_id: jobIdField('Job ID to interact with'),
      input: z.string().describe("Input to send to the job's stdin"),
    }),
    output: outputShape,
    run: ({ job_id: id, input }, call) => interact(id, input, call),
  }),
  tool({
    name: 'kill_job',
    title: 'Kill job',
    description:
      'Stops a background job with its whole process tree: politely first, then by force. Answers killed, already_terminated or not_found. What it printed stays readable.',
    effect: 'destroy',
    idempotent: true,
    input: z.object({ job_id: jobIdField('Job ID to kill') }),
    output: z.object({ status: z.enum(['killed', 'already_terminated', 'not_found']) }),
    run: async ({ job_id: id }, call) => {
      const job = await find(id, call).catch(ignoreMissing);
      if (!job) return { status: 'not_found' };
      if (statusOf(job) !== 'running') return { status: 'already_terminated' };
      const after = await ask<JobView>(call, 'cancel_job', { id });
      return { status: after.status === 'cancelled' ? 'killed' : 'already_terminated' };
    },
  }),
];

export const backgroundJobDialect: Dialect = {
  name: 'background-job',
  tools,
  instructions:
    'Long commands run as background jobs: execute_command starts one, get_job_status and tail_job_output look at it, interact_with_job types into it, kill_job stops it. Jobs and their output survive restarts.',
};

type Shape<I, O> = Omit<DialectTool, 'input' | 'output' | 'run'> & {
  input: z.ZodType<I>;
  output: z.ZodType<O>;
  run(input: I, call: DialectCall): Promise<O>;
};

/** Errors become tool errors in the words of that system. */
function tool<I, O>({ run, ...shape }: Shape<I, O>): DialectTool {
  return {
    ...shape,
    run: async (input, call): Promise<DialectAnswer> => {
      try {
        return { structured: await run(input as I, call) };
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        const id = (input as { job_id?: string }).job_id;
        const { code, message, hint } = error;
        const text =
          code === 'notFound' ? `Job ${id} not found` : `${message}${hint ? ` ${hint}` : ''}`;
        return { isError: true, text };
      }
    },
  };
}

const ask = <T>({ operations, context }: DialectCall, name: string, input: object): Promise<T> =>
  operations.call<T>(name, input, context);

/** What is no id of ours at all is an unknown job, too. */
async function find(id: string, call: DialectCall): Promise<JobView> {
  const job = await ask<JobView & { kind: string }>(call, 'get_job', { id }).catch(ignoreMissing);
  if (job?.kind === 'command') return job;
  throw new AppError('notFound', `Job ${id} not found`);
}

/** Killed is also what somebody else killed: that system cannot tell, and its callers expect the word. */
function statusOf({ status, signal }: JobView): Status {
  if (status === 'completed') return 'completed';
  if (status === 'cancelled') return 'killed';
  if (status === 'timed_out') return 'failed';
  if (status === 'failed')
    return signal === 'SIGKILL' || signal === 'SIGTERM' ? 'killed' : 'failed';
  return 'running';
}

async function lineOf(job: JobView, call: DialectCall) {
  // A list line has a short form of long commands, and no signal.
  const full =
    job.status === 'failed' || job.summary?.endsWith('…')
      ? await ask<JobView>(call, 'get_job', { id: job.id, includeInput: true })
      : job;
  return {
    job_id: job.id,
    status: statusOf(full),
    command: full.input?.command ?? job.summary ?? '',
    started: job.createdAt ?? '',
  };
}

async function both(id: string, call: DialectCall, how: object) {
  const job = await find(id, call);
  const [stdout, stderr] = await Promise.all(
    ['stdout', 'stderr'].map((stream) => readStream(job.id, stream, call, how)),
  );
  return { stdout: stdout!, stderr: stderr! };
}

/** A job of another face has one merged stream: it is shown as stdout. */
async function readStream(
  id: string,
  stream: string,
  call: DialectCall,
  how: object,
): Promise<Pick<Reading, 'text' | 'from'>> {
  const wish = { id, raw: true, bytesMax: streamBytesMax, ...how };
  try {
    return await ask<Reading>(call, 'read_output', { ...wish, stream });
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalidInput') throw error;
    return stream === 'stderr' ? { text: '', from: 0 } : ask<Reading>(call, 'read_output', wish);
  }
}

async function interact(id: string, input: string, call: DialectCall) {
  if (statusOf(await find(id, call)) !== 'running')
    throw new AppError('wrongState', `Job ${id} is not running and cannot accept input`);
  const before = await ask<Reading>(call, 'read_output', { id, bytesMax: 200 });
  await ask(call, 'send_input', { id, waitMs: interactMs, ...typed(input) });
  const from = (stream: string) =>
    before.streams?.find((one) => one.stream === stream)?.next ?? before.next;
  const read = (stream: string) =>
    readStream(id, stream, call, { mode: 'since', from: from(stream) });
  const [stdout, stderr] = await Promise.all([read('stdout'), read('stderr')]);
  return { stdout: stdout.text, stderr: stderr.text };
}

function typed(input: string): object {
  if (input === '\u0004') return { keys: ['ctrl-d'] };
  if (input === '\u0003') return { keys: ['ctrl-c'] };
  return { text: input.endsWith('\n') ? input : `${input}\n` };
}

/** Fewer than asked for, with a remark, where so many do not fit: the first of a cut text is no whole line. */
function lastLines({ text, from }: Pick<Reading, 'text' | 'from'>, count: number): string {
  const lines = text.split('\n');
  const wanted = count + (lines.at(-1) === '' ? 1 : 0);
  if (from === 0 || lines.length > wanted) return lines.slice(-wanted).join('\n');
  const whole = lines.length > 1 ? lines.slice(1) : lines;
  return ['[… earlier lines do not fit into one answer …]', ...whole].join('\n');
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof AppError && (error.code === 'notFound' || error.code === 'invalidInput'))
    return undefined;
  throw error;
}
