// run_command: starts a command as a job, waits a moment for a short one, and answers with what it printed.
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Jobs, Submission } from '../../jobs/jobs.ts';
import { jobText } from '../../jobs/operations.ts';
import { jobView, ownJob, viewJob } from '../../jobs/view.ts';
import type { Waiting } from '../../jobs/wait.ts';
import { defineOperation, type CallContext, type Operation } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import { callerEnvironment } from './environment.ts';
import type { JobFiles } from './files.ts';
import {
  commandLine,
  commandWords,
  environmentName,
  environmentValues,
  readyCheck,
  terminalSize,
  type CommandInput,
} from './input.ts';
import type { Keeper } from './keeper.ts';
import type { Policy } from './policy.ts';
import { readOutput, type OutputAnswer, type OutputRequest } from './read-output.ts';
import type { Secrets } from './secrets.ts';
import type { CommandSettings } from './settings.ts';

export interface RunNeeds {
  jobs: Jobs;
  waiting: Waiting;
  clock: Clock;
  files: JobFiles;
  keeper: Keeper;
  policy: Policy;
  secrets: Secrets;
  settings: CommandSettings;
  /** In a cluster: the label that only this node has. */
  nodeLabel: string | undefined;
  /** The same of a job whose files another node has. */
  outputThere(job: Job, request: OutputRequest): Promise<OutputAnswer>;
  /** A value of this server's environment, for callers that bring none. */
  serverValue(name: string): string | undefined;
}

const stdinBytesMax = 4 * 2 ** 20;
/** Below the 60 s after which most MCP clients give up. */
const waitMsMax = 50_000;
const tailBytes = 4000;
/** A success is told briefly; a failure with its last words. */
const tailBytesOfSuccess = 2000;

const runInput = z
  .strictObject({
    command: commandLine.optional().describe('Shell line: pipes, &&, quotes and $VARS work'),
    argv: commandWords.optional().describe('Program and arguments instead of a line; no shell'),
    cwd: z.string().max(4096).optional().describe("Folder; default: the caller's own"),
    env: environmentValues.default({}).describe('Variables; stored with the job, so no secrets'),
    secrets: z
      .array(environmentName)
      .max(100)
      .default([])
      .describe("Names of variables to pass from the caller's environment without storing them"),
    name: z.string().min(1).max(200).optional(),
    tags: z.array(z.string().min(1).max(100)).max(20).default([]),
    labels: z
      .array(z.string().regex(/^[\w.-]{1,60}(=[\w.-]{0,60})?$/))
      .max(10)
      .default([])
      .describe('In a cluster: labels of the node it must run on'),
    waitMs: z
      .number()
      .int()
      .min(0)
      .max(waitMsMax)
      .default(5000)
      .describe('Answer at the end (or when ready), at the latest after this; 0: at once'),
    timeoutMs: z.number().int().min(1).optional().describe('End it after so long; default never'),
    stdin: z
      .union([z.enum(['none', 'open']), z.strictObject({ text: z.string().max(stdinBytesMax) })])
      .default('none')
      .describe('open: send_input later'),
    tty: z
      .union([z.boolean(), terminalSize])
      .default(false)
      .describe('A real terminal, for REPLs and full-screen programs'),
    streams: z.enum(['merged', 'split']).default('merged').describe('split: stderr apart'),
    ready: readyCheck.optional().describe('When a server counts as up'),
    ensure: z
      .boolean()
      .default(false)
      .describe('With name: return the healthy running one instead of starting a second'),
    queue: z
      .string()
      .regex(/^[\w.-]{1,100}$/)
      .optional(),
    priority: z.number().int().min(-1000).max(1000).optional(),
    runAt: z.iso.datetime({ offset: true }).optional().describe('Not before'),
    ttlMs: z.number().int().min(1).optional().describe('Give up if not started by then'),
    after: z.array(z.string().max(80)).max(100).optional().describe('Job ids to complete first'),
    attemptsMax: z.number().int().min(1).max(100).default(1),
    idempotencyKey: z.string().min(1).max(200).optional(),
    outputBytesMax: z.number().int().min(1024).optional().describe('Cap of its output'),
    ring: z.boolean().optional().describe('At the cap drop the oldest output instead (Linux)'),
  })
  .superRefine((input, context) => {
    const wrong = (message: string) => context.addIssue({ code: 'custom', message });
    if ((input.command === undefined) === (input.argv === undefined))
      wrong('give exactly one of command and argv');
    if (input.ensure && input.name === undefined) wrong('ensure needs a name');
    if (input.tty !== false && input.streams === 'split') wrong('a terminal has one stream');
    if (input.ring && input.streams === 'split') wrong('a ring needs merged streams');
    if (input.tty !== false && typeof input.stdin === 'object')
      wrong('with tty send text by send_input');
  });

export type RunInput = z.infer<typeof runInput>;

const runOutput = jobView.extend({
  existing: z.boolean().optional().describe('It ran already: ensure or idempotencyKey'),
  output: z.looseObject({ text: z.string(), next: z.number() }).optional(),
  hint: z.string().optional(),
});
type RunOutput = z.infer<typeof runOutput>;

export function runCommand(needs: RunNeeds): Operation {
  const starting = new Map<string, Promise<unknown>>();
  return defineOperation<RunInput, RunOutput>({
    name: 'run_command',
    title: 'Run command',
    description:
      'Runs a shell command (or argv) as a background job that survives restarts of client and server, and keeps its output and true exit code. ' +
      'Use it for builds, tests, servers, anything long or that you may come back to; a short one answers in this call (waitMs). ' +
      'Not finished: wait_for_jobs waits, read_output reads, send_input types, cancel_job stops it. For a dev server give name, ensure and ready. ' +
      'It changes whatever the command changes. A non-zero exit is a result, not a tool error. To run an ended one again use retry_job.',
    effect: 'destroy',
    openWorld: true,
    scope: 'run',
    toolsets: ['default', 'command'],
    input: runInput,
    output: runOutput,
    http: { method: 'POST', path: '/api/commands' },
    cli: { words: ['run'], args: ['argv'], custom: true },
    rareInput: [
      ...['labels', 'tags', 'streams', 'queue', 'priority', 'runAt', 'ttlMs', 'after'],
      'attemptsMax',
      ...['idempotencyKey', 'outputBytesMax', 'ring'],
    ],
    startsJob: (out) => (followed(out) ? out.id : undefined),
    answerFor: async (id, context) => {
      const job = await ownJob(needs.jobs, id, context.caller);
      return job.kind === 'command' ? answer(id, false, { waitMs: 0 }, context, needs) : undefined;
    },
    text: (out) => runText(out),
    run: async (input, context) => {
      if (process.platform === 'win32') {
        throw new AppError('unsupported', 'Commands are not supported on Windows yet.', {
          hint: 'Run the server in WSL.',
        });
      }
      const submission = await prepareSubmission(input, context, needs);
      const key = `${submission.owner}\n${input.name}`;
      const { job, existing } = input.ensure
        ? await oneAtATime(starting, key, () => ensure(submission, context, needs))
        : await submit(submission, needs);
      return answer(job.id, existing, input, context, needs);
    },
  });
}

/** The same call from another terminal is the same work, whatever PATH it has. */
function sameWork({ waitMs: _waitMs, ...input }: RunInput, cwd: string) {
  return { idempotencyKey: input.idempotencyKey!, idempotencyBody: { ...input, cwd } };
}

type Prepared = Submission & { secretValues: Record<string, string> };

async function prepareSubmission(
  input: RunInput,
  context: CallContext,
  needs: RunNeeds,
): Promise<Prepared> {
  const { origin } = context;
  const caller = context.caller!;
  refuseForeign(caller.kinds, 'command', 'kind');
  refuseForeign(caller.queues, input.queue ?? 'default', 'queue');
  const cwd = folderOf(input.cwd, origin?.cwd, needs);
  needs.policy.check({ command: input.command ?? input.argv ?? [], cwd });
  checkRoom(needs);
  const tty = input.tty === true ? terminalSize.parse({}) : input.tty || undefined;
  const stored: CommandInput = {
    ...(input.command === undefined ? { argv: input.argv! } : { command: input.command }),
    cwd,
    callerEnv: callerEnvironment(origin, needs.serverValue),
    env: input.env,
    secrets: input.secrets,
    stdin: tty ? 'open' : input.stdin,
    streams: input.streams,
    ...(tty ? { tty } : {}),
    ...(input.ready ? { ready: input.ready } : {}),
    ...(input.outputBytesMax === undefined ? {} : { outputBytesMax: input.outputBytesMax }),
    ...(input.ring ? { ring: ringOrRefuse() } : {}),
  };
  return {
    kind: 'command',
    input: stored,
    owner: caller.owner,
    tags: input.tags,
    ...labelsOf(input, origin?.cwd !== undefined || input.secrets.length > 0, needs),
    ...(input.name === undefined ? {} : { name: input.name }),
    ...(input.queue === undefined ? {} : { queue: input.queue }),
    ...(input.priority === undefined ? {} : { priority: input.priority }),
    ...(input.runAt === undefined ? {} : { runAt: Date.parse(input.runAt) }),
    ...(input.ttlMs === undefined ? {} : { ttlMs: input.ttlMs }),
    ...(input.timeoutMs === undefined ? {} : { timeoutMs: input.timeoutMs }),
    ...(input.after === undefined ? {} : { after: input.after }),
    ...(input.attemptsMax === 1 ? {} : { retry: { attemptsMax: input.attemptsMax } }),
    ...(input.idempotencyKey === undefined ? {} : sameWork(input, cwd)),
    secretValues: needs.secrets.values(input.secrets, origin?.env),
  };
}

/** Whoever calls from this machine means its folders, and only this node knows the secrets it was given. */
function labelsOf(
  { labels }: RunInput,
  isLocal: boolean,
  { nodeLabel }: RunNeeds,
): { labels?: string[] } {
  if (labels.length > 0) return { labels };
  return isLocal && nodeLabel !== undefined ? { labels: [nodeLabel] } : {};
}

async function submit(
  { secretValues, ...submission }: Prepared,
  { jobs, secrets }: RunNeeds,
): Promise<{ job: Job; existing: boolean }> {
  const answer = await jobs.submit({
    ...submission,
    // In memory before the row can be claimed.
    steps: (job) => {
      secrets.keep(job.id, secretValues);
      return [];
    },
  });
  return answer;
}

/** The healthy one with this name, else a new one in its place. Healthy: running, and ready if that was asked. */
async function ensure(
  submission: Prepared,
  { signal }: CallContext,
  needs: RunNeeds,
): Promise<{ job: Job; existing: boolean }> {
  const { jobs, waiting } = needs;
  const { jobs: found } = await jobs.ledger.list(
    {
      owner: submission.owner,
      kinds: ['command'],
      name: submission.name!,
      statuses: ['queued', 'running', 'input_required'],
    },
    { limit: 10 },
  );
  for (const job of found) {
    if (await isHealthy(job, needs)) return { job, existing: true };
    await jobs.cancel(job.id, submission.owner, 'Replaced: it was not healthy any more.');
    await waiting.ended(job.id, signal);
  }
  return submit(submission, needs);
}

/** A server that was ready must still be; one that is starting up is given its time. */
async function isHealthy(job: Job, { jobs, waiting }: RunNeeds): Promise<boolean> {
  const { ready } = job.input as CommandInput;
  if (!ready || job.stage !== 'ready') return true;
  const { text: _text, ...lasting } = ready;
  if (Object.keys(lasting).length === 0) return true;
  const never = new AbortController();
  const healthMs = 5000;
  for (const [name, value] of Object.entries(lasting)) {
    const answer = await waiting.wait({
      ids: [job.id],
      mode: 'any',
      until: { [name]: value },
      timeoutMs: healthMs,
      signal: never.signal,
    });
    const hit = answer.reached.get(job.id);
    if (!hit || hit.reason !== name) return false;
  }
  return !isFinal((await jobs.get(job.id)).status);
}

async function answer(
  id: string,
  existing: boolean,
  input: Pick<RunInput, 'waitMs' | 'ready'>,
  { signal }: CallContext,
  needs: RunNeeds,
): Promise<RunOutput> {
  const { jobs, waiting, clock } = needs;
  if (input.waitMs > 0) {
    await waiting.wait({
      ids: [id],
      mode: 'any',
      timeoutMs: input.waitMs,
      signal,
      ...(input.ready ? { until: { ready: true } } : {}),
    });
  }
  const job = await jobs.get(id);
  const view = await viewJob(jobs, job, clock.now());
  const bytesMax = job.status === 'completed' ? tailBytesOfSuccess : tailBytes;
  const request = { mode: 'tail', bytesMax } as const;
  const output = needs.files.isElsewhere(job)
    ? await needs.outputThere(job, request)
    : await readOutput(job, request, needs);
  const hint = hintOf(job, output);
  return {
    ...view,
    ...(existing ? { existing } : {}),
    ...(output.size > 0 ? { output: shownOutput(output) } : {}),
    ...(hint ? { hint } : {}),
  };
}

function shownOutput(output: OutputAnswer) {
  const { text, from, next, size, streams } = output;
  return { text, from, next, size, ...(streams ? { streams } : {}) };
}

function hintOf(job: Job, output: OutputAnswer): string | undefined {
  if (isFinal(job.status)) {
    if (output.from > 0 && job.status !== 'completed')
      return 'Only the end of the output is shown: read_output with mode errors or grep finds the rest.';
    return undefined;
  }
  if (job.status === 'input_required') return 'It waits for input: answer with send_input.';
  return `Still ${job.status}; it goes on by itself. wait_for_jobs waits for its end, read_output with mode since and from ${output.next} reads on.`;
}

/** A job that is interactive, ready or over answers plainly; any other is followed as a task where clients can. */
function followed(out: RunOutput): boolean {
  if (isFinal(out.status) || out.stage === 'ready' || out.status === 'input_required') return false;
  return out.interactive !== true;
}

function runText(out: RunOutput): string {
  const parts = [jobText({ ...out, result: undefined })];
  if (out.output?.text) parts.push(out.output.text);
  if (out.hint) parts.push(out.hint);
  return parts.join('\n');
}

function folderOf(wish: string | undefined, origin: string | undefined, needs: RunNeeds): string {
  if (wish === undefined) return origin ?? needs.serverValue('HOME') ?? '/';
  const home = needs.serverValue('HOME');
  if (home && (wish === '~' || wish.startsWith('~/'))) return resolve(home, wish.slice(2));
  if (isAbsolute(wish)) return wish;
  if (origin) return resolve(origin, wish);
  throw new AppError('invalidInput', 'cwd must be an absolute path.', {
    hint: 'A call over HTTP has no folder of its own that a relative path could begin at.',
  });
}

function checkRoom({ keeper, settings }: RunNeeds): void {
  if (keeper.totalBytes <= settings.outputTotalBytesMax) return;
  throw new AppError('limitExceeded', 'The output of all jobs together is over its limit.', {
    hint: 'Forget old jobs (retention), or raise command.outputTotalBytesMax in config.json.',
    data: { bytes: keeper.totalBytes, bytesMax: settings.outputTotalBytesMax },
  });
}

function ringOrRefuse(): true {
  if (process.platform === 'linux') return true;
  throw new AppError('unsupported', 'A ring needs holes in files, which only Linux has here.', {
    hint: 'Leave ring out; outputBytesMax then ends the job at the cap.',
  });
}

function refuseForeign(allowed: readonly string[] | undefined, name: string, what: string): void {
  if (!allowed || allowed.includes(name)) return;
  throw new AppError('forbidden', `The key may not use the ${what} ${name}.`, {
    hint: `It is limited to: ${allowed.join(', ')}.`,
  });
}

/** Two callers that ensure the same name at once get the same job. */
async function oneAtATime<T>(
  running: Map<string, Promise<unknown>>,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const before = running.get(key) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => {});
  running.set(key, settled);
  try {
    return await mine;
  } finally {
    if (running.get(key) === settled) running.delete(key);
  }
}
