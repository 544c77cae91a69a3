// run_command: starts a command as a job, waits a moment for a short one, and answers with what it printed.
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import { jobText } from '../../jobs/text.ts';
import { isOwn, ownJob, viewJob, type JobView } from '../../jobs/view.ts';
import type { Waiting } from '../../jobs/wait.ts';
import { defineOperation, type CallContext, type Operation } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Step } from '../../store/store.ts';
import type { JobFiles } from './files.ts';
import type { CommandInput } from './input.ts';
import { readOutput, type OutputAnswer, type OutputRequest } from './read-output.ts';
import { runInput, runOutput, type RunInput, type RunOutput } from './run-input.ts';
import { Names } from './store.ts';
import {
  prepareRerun,
  prepareSubmission,
  type Prepared,
  type SubmissionNeeds,
} from './submission.ts';

export interface RunNeeds extends SubmissionNeeds {
  jobs: Jobs;
  waiting: Waiting;
  clock: Clock;
  files: JobFiles;
  /** The output of a job whose files another node has. */
  outputThere(job: Job, request: OutputRequest): Promise<OutputAnswer>;
}

const tailBytes = 4000;
/** A success is told briefly; a failure with its last words. */
const tailBytesOfSuccess = 2000;

export function runCommand(needs: RunNeeds): Operation {
  const starting = new Map<string, Promise<unknown>>();
  return defineOperation<RunInput, RunOutput>({
    name: 'run_command',
    title: 'Run command',
    description:
      'Runs a shell command (or argv) as a background job that survives restarts of client and server, and keeps its output and true exit code. ' +
      'Use it for builds, tests, servers, anything long or that you may come back to; a short one answers in this call (waitMs). ' +
      'Not finished: wait_for_jobs waits, read_output reads, send_input types, cancel_job stops it. For a dev server give name, ensure and ready. ' +
      'It changes whatever the command changes. A non-zero exit is a result, not a tool error.',
    effect: 'destroy',
    openWorld: true,
    scope: 'run',
    reach: { queue: ({ queue = 'default' }) => queue, alsoJobs: ({ after = [] }) => after },
    toolsets: ['default', 'command'],
    takesNul: ['stdin.text'],
    input: runInput,
    output: runOutput,
    http: { method: 'POST', path: '/api/commands' },
    cli: { words: ['run'], args: ['argv'], custom: true },
    rareInput: [
      'labels',
      'tags',
      'streams',
      'queue',
      'priority',
      'runAt',
      'ttlMs',
      'after',
      'attemptsMax',
      'idempotencyKey',
      'outputBytesMax',
      'ring',
    ],
    startsJob: (out) => (followed(out) ? out.id : undefined),
    answerFor: async (id, context) => {
      const job = await ownJob(needs.jobs, id, context.caller);
      return job.kind === 'command' ? answer(id, false, { waitMs: 0 }, context, needs) : undefined;
    },
    text: (out) => runText(needs.jobs, out),
    run: async (input, context) => {
      const submission = prepareSubmission(input, context, needs);
      const key = `${submission.owner}\n${input.name}`;
      const { job, existing } = input.ensure
        ? await oneAtATime(starting, key, () => ensure(submission, context, needs))
        : await submit(submission, needs);
      return answer(job.id, existing, input, context, needs);
    },
  });
}

async function submit(
  { secretValues, ...submission }: Prepared,
  { jobs, secrets }: Pick<RunNeeds, 'jobs' | 'secrets'>,
  more: (job: Job) => Step[] = () => [],
): Promise<{ job: Job; existing: boolean }> {
  const answer = await jobs.submit({
    ...submission,
    // In memory before the row can be claimed.
    steps: (job) => {
      secrets.keep(job.id, secretValues);
      return more(job);
    },
  });
  return answer;
}

/** The work of an ended command, as a new job. */
export async function rerunCommand(
  job: Job,
  context: CallContext,
  needs: Pick<RunNeeds, 'jobs'> & SubmissionNeeds,
): Promise<Job> {
  return (await submit(prepareRerun(job, context, needs), needs)).job;
}

/** Another node was faster: what it started is looked at instead. */
class NameTaken extends Error {}

/** The healthy one with this name, else a new one in its place; one over all nodes. */
async function ensure(
  submission: Prepared,
  context: CallContext,
  needs: RunNeeds,
): Promise<{ job: Job; existing: boolean }> {
  for (;;) {
    try {
      return await ensureOnce(submission, context, needs);
    } catch (error) {
      if (!(error instanceof NameTaken)) throw error;
    }
  }
}

/** Healthy: running, and ready if that was asked. */
async function ensureOnce(
  submission: Prepared,
  { signal, caller }: CallContext,
  needs: RunNeeds,
): Promise<{ job: Job; existing: boolean }> {
  const { jobs, waiting } = needs;
  const names = new Names(jobs.store);
  const { owner, name = '' } = submission;
  const before = await names.holder(owner, name);
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
    if (!(await isOwn(jobs, job, caller))) throw nameInUse(name);
    if (await isHealthy(job, needs)) return { job, existing: true };
    await jobs.cancel(job.id, submission.owner, 'Replaced: it was not healthy any more.');
    await waiting.ended(job.id, signal);
  }
  let planned = false;
  return submit(submission, needs, ({ id }) => {
    // Planned a second time: the first was refused, because the name is not what it was.
    if (planned) throw new NameTaken();
    planned = true;
    return [names.take({ owner, name }, id, before)];
  });
}

function nameInUse(name: string): AppError {
  return new AppError(
    'conflict',
    `The name ${name} is in use by a job outside the limits of this key.`,
    {
      hint: 'Choose another name, or use a key that reaches that job.',
    },
  );
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
  input: Pick<RunInput, 'waitMs'> & Partial<RunInput>,
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
      until: untilOf(input),
    });
  }
  const job = await jobs.get(id);
  const view = await viewJob(jobs, job, clock.now());
  const bytesMax = job.status === 'completed' ? tailBytesOfSuccess : tailBytes;
  const request = { mode: 'tail', bytesMax } as const;
  const output = needs.files.isElsewhere(job)
    ? await needs.outputThere(job, request)
    : await readOutput(job, request, needs);
  const hint = hintOf(job, view, output);
  return {
    ...view,
    ...(existing ? { existing } : {}),
    ...(output.size > 0 ? { output: shownOutput(output) } : {}),
    ...(hint ? { hint } : {}),
  };
}

/** What answers before the end: it is up, or whoever can type into it is asked something. */
function untilOf({ ready, stdin, tty = false }: Partial<RunInput>): Record<string, unknown> {
  if (ready) return { ready: true };
  return stdin === 'open' || tty !== false ? { inputNeeded: true } : {};
}

function shownOutput(output: OutputAnswer) {
  const { text, from, next, size, streams } = output;
  return { text, from, next, size, ...(streams ? { streams } : {}) };
}

function hintOf(job: Job, view: JobView, output: OutputAnswer): string | undefined {
  if (isFinal(job.status)) {
    if (output.from > 0 && job.status !== 'completed')
      return 'Only the end of the output is shown: read_output with mode errors or grep finds the rest.';
    return undefined;
  }
  if (job.status === 'input_required' || view.waitingForInput === true)
    return 'It waits for input: answer with send_input.';
  return `Still ${job.status}; it goes on by itself. wait_for_jobs waits for its end, read_output with mode since and ${cursorText(output)} reads on.`;
}

function cursorText({ next, streams }: OutputAnswer): string {
  if (!streams) return `from ${next}`;
  return streams.map((part) => `stream ${part.stream}, from ${part.next}`).join(' (or ') + ')';
}

/** A job that is interactive, ready or over answers plainly; any other is followed as a task where clients can. */
function followed(out: RunOutput): boolean {
  if (isFinal(out.status) || out.stage === 'ready' || out.status === 'input_required') return false;
  return out.interactive !== true;
}

function runText(jobs: Jobs, out: RunOutput): string {
  const parts = [jobText(jobs, { ...out, result: undefined })];
  if (out.existing) parts.push('Nothing new was started: this one was there already.');
  if (out.output?.text) parts.push(out.output.text);
  if (out.hint) parts.push(out.hint);
  return parts.join('\n');
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
