// The run_command operation: starts a command as a job, waits briefly for its end, and returns what it printed.
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import { briefJob, briefJobSchema } from '../../../jobs/brief-view.ts';
import { jobText } from '../../../jobs/job-text.ts';
import { excerptOrError } from '../../../jobs/view-output.ts';
import { isOwn, ownJob, viewJob } from '../../../jobs/view.ts';
import type { JobView } from '../../../contracts/jobs.ts';
import { reportWait, limitWait } from '../../../jobs/wait-progress.ts';
import type { JobWaiter } from '../../../jobs/wait.ts';
import {
  defineOperation,
  type CallContext,
  type Operation,
  type OutputOf,
  type ParsedInputOf,
} from '../../../operation.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { Step } from '../../../store/store.ts';
import { returnConditions } from '../conditions.ts';
import { agentSessionHeader, agentSessionOf, isAction } from '../../../webhooks/end-actions.ts';
import { webhookKeyOf } from '../../../webhooks/rows.ts';
import type { Webhooks } from '../../../webhooks/webhooks.ts';
import { readExcerpt } from '../output/excerpt.ts';
import type { CommandInput } from '../input.ts';
import type { OutputResponse, OutputDeps, OutputRequest } from '../output/request.ts';
import { runCommand } from '../../../contracts/command.ts';
import { JobNames } from '../store/job-names.ts';
import {
  prepareRerun,
  prepareSubmission,
  type Prepared,
  type SubmissionDeps,
} from '../submission.ts';

const finalEvents = ['completed', 'failed', 'cancelled', 'timed_out'];

interface RunDeps extends SubmissionDeps {
  jobs: Jobs;
  waiting: JobWaiter;
  clock: Clock;
  mask: OutputDeps['mask'];
  webhooks: Pick<Webhooks, 'plan' | 'check'>;
  /** Reads unmasked job output, including jobs whose files are on another node. */
  read(job: Job, request: OutputRequest): Promise<OutputResponse>;
}

type RunInput = ParsedInputOf<typeof runCommand>;
type RunOutput = OutputOf<typeof runCommand>;

export function runCommandOperation(deps: RunDeps): Operation {
  const starting = new Map<string, Promise<unknown>>();
  return defineOperation<RunInput, RunOutput>({
    ...runCommand,
    title: 'Run command',
    description:
      'Runs a shell command as a background job; prefer it to your own shell for builds, tests, dev servers and anything over 10 s. ' +
      'Not for quick commands like ls. The job outlives timeouts and restarts of this client and keeps all output (up to 1 GiB) and the exit code; a non-zero exit is a result, not a tool error. ' +
      'Returns the output if it ends within waitMs, else an id: continue with wait_for_jobs, read_output, cancel_job. ' +
      'It gets your environment without secrets (see `secrets`) and no input, so prompts fail: set stdin or tty, then use send_input. For a dev server set name, ensure and ready.',
    effect: 'destroy',
    openWorld: true,
    scope: 'run',
    reach: { queue: ({ queue = 'default' }) => queue, alsoJobs: ({ after = [] }) => after },
    toolsets: ['default', 'command'],
    alwaysLoad: true,
    allowsNul: ['stdin.text'],
    brief: { schema: briefJobSchema, of: (out) => briefJob(deps.jobs, out) },
    http: { method: 'POST', path: '/api/commands' },
    cli: { words: ['run'], args: ['argv'], custom: true },
    rareInput: [
      'idempotencyKey (same key, same job)',
      'after (job ids)',
      'runAt (ISO time)',
      'queue',
      'priority (higher first)',
      'maxAttempts (retries)',
      'onEnd (notify, run:NAME, URL)',
      'streams (split: stderr apart)',
      'maxOutputBytes (stops the job)',
    ],
    unlistedInput: ['labels', 'tags', 'ttlMs', 'ring'],
    startsJob: (out) => (isFollowed(out) ? out.id : undefined),
    outputFor: async (id, context) => {
      const job = await ownJob(deps.jobs, id, context.caller);
      return job.kind === 'command'
        ? buildResponse({ id, existing: false }, { waitMs: 0 }, context, deps)
        : undefined;
    },
    text: (out) => runText(deps.jobs, out),
    run: async (input, context) => {
      const submission = prepareSubmission(input, context, deps);
      const key = `${submission.owner}\n${input.name}`;
      const reports = endReports(input, context, deps);
      const { job, existing } = input.ensure
        ? await runExclusively(starting, key, () =>
            ensure(submission, { ...context, reports }, deps),
          )
        : await submit(submission, deps, reports);
      return buildResponse({ id: job.id, existing }, input, context, deps);
    },
  });
}

async function submit(
  { secretValues, ...submission }: Prepared,
  { jobs, secrets }: Pick<RunDeps, 'jobs' | 'secrets'>,
  more: (job: Job) => Step[] = () => [],
): Promise<{ job: Job; existing: boolean }> {
  const result = await jobs.submit({
    ...submission,
    // Stored in memory before the job can be claimed.
    steps: (job) => {
      secrets.store(job.id, secretValues);
      return more(job);
    },
  });
  return result;
}

/** Starts the work of an ended command as a new job. */
export async function rerunCommand(
  job: Job,
  context: CallContext,
  deps: Pick<RunDeps, 'jobs'> & SubmissionDeps,
): Promise<Job> {
  return (await submit(prepareRerun(job, context, deps), deps)).job;
}

type EnsureContext = CallContext & { reports: (job: Job) => Step[] };

/** Steps that subscribe the receivers of `onEnd` to a new job, in the transaction that stores the job. */
function endReports(
  { onEnd = [] }: RunInput,
  { caller, origin }: CallContext,
  { webhooks }: RunDeps,
): (job: Job) => Step[] {
  const session = agentSessionOf(origin?.env);
  const receivers = [...new Set(onEnd)];
  for (const url of receivers) webhooks.check(url);
  return ({ id, owner }) =>
    receivers.flatMap((url) => {
      const request = { owner, url, events: finalEvents, jobId: id, allowsActions: true } as const;
      const headers =
        isAction(url) && session !== undefined ? { [agentSessionHeader]: session } : undefined;
      return webhooks.plan({ ...request, headers, ...webhookKeyOf(caller!) }).steps;
    });
}

/** Another node took the name first. The job it started is checked instead. */
class NameTaken extends Error {}

/** Returns the healthy job with this name, or starts a new one. At most one exists across all nodes. */
async function ensure(
  submission: Prepared,
  context: EnsureContext,
  deps: RunDeps,
): Promise<{ job: Job; existing: boolean }> {
  for (;;) {
    try {
      return await ensureOnce(submission, context, deps);
    } catch (error) {
      if (!(error instanceof NameTaken)) throw error;
    }
  }
}

/** Healthy means running, and ready if a ready check was requested. */
async function ensureOnce(
  submission: Prepared,
  { signal, caller, reports }: EnsureContext,
  deps: RunDeps,
): Promise<{ job: Job; existing: boolean }> {
  const { jobs, waiting } = deps;
  const names = new JobNames(jobs.store);
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
    if (await isHealthy(job, deps)) return { job, existing: true };
    await jobs.cancel(job.id, submission.owner, 'Replaced because it was no longer healthy.');
    await waiting.waitForEnd(job.id, signal);
  }
  let planned = false;
  return submit(submission, deps, (job) => {
    // A second call means that the first one conflicted, because another job took the name.
    if (planned) throw new NameTaken();
    planned = true;
    return [names.take({ owner, name }, job.id, before), ...reports(job)];
  });
}

function nameInUse(name: string): AppError {
  return new AppError(
    'conflict',
    `The name ${name} is used by a job that this key cannot access.`,
    {
      hint: 'Choose another name, or use a key that can access that job.',
    },
  );
}

/** A server that was ready must still be ready. A server that is starting gets more time. */
async function isHealthy(job: Job, { jobs, waiting }: RunDeps): Promise<boolean> {
  const { ready } = job.input as CommandInput;
  if (!ready || job.stage !== 'ready') return true;
  const { text: _text, ...lasting } = ready;
  if (Object.keys(lasting).length === 0) return true;
  const never = new AbortController();
  const healthMs = 5000;
  for (const [name, value] of Object.entries(lasting)) {
    const result = await waiting.wait({
      ids: [job.id],
      mode: 'any',
      until: { [name]: value },
      timeoutMs: healthMs,
      signal: never.signal,
    });
    const hit = result.reached.get(job.id);
    if (!hit || hit.reason !== name) return false;
  }
  return !isFinal((await jobs.get(job.id)).status);
}

async function buildResponse(
  { id, existing }: { id: string; existing: boolean },
  input: Pick<RunInput, 'waitMs'> & Partial<RunInput>,
  context: CallContext,
  deps: RunDeps,
): Promise<RunOutput> {
  const { jobs, waiting, clock } = deps;
  if (input.waitMs > 0) {
    const stopProgress = reportWait(context, [id], deps);
    const timeoutMs = limitWait(input.waitMs, context);
    const { signal } = context;
    const until = returnConditions((await jobs.get(id)).input as CommandInput);
    await waiting.wait({ ids: [id], mode: 'any', timeoutMs, signal, until }).finally(stopProgress);
  }
  const job = await jobs.get(id);
  const view = await viewJob(jobs, job, clock.now());
  const { output, outputError } = await excerptOrError(() =>
    readExcerpt(job, (request) => deps.read(job, request)),
  );
  const hint = [output && nextStepHint(job, view, output), cwdHint(job, input, context)]
    .filter(Boolean)
    .join(' ');
  return {
    ...view,
    ...(existing ? { existing } : {}),
    ...(outputError ? { outputError } : {}),
    ...(output && output.size > 0
      ? {
          output: toOutput(output, (text) =>
            context.maxResponseBytes === undefined ? text : deps.mask(id, text),
          ),
        }
      : {}),
    ...(hint ? { hint } : {}),
  };
}

function toOutput(output: OutputResponse, mask: (text: string) => string) {
  const { text, from, next, size, streams } = output;
  return { text: mask(text), from, next, size, ...(streams ? { streams } : {}) };
}

function nextStepHint(job: Job, view: JobView, output: OutputResponse): string | undefined {
  if (isFinal(job.status)) {
    if (output.from > 0 && job.status !== 'completed')
      return 'Only the end of the output is shown. Use read_output with mode errors or grep to find the rest.';
    return undefined;
  }
  if (job.status === 'input_required' || view.waitingForInput === true)
    return 'The command waits for input. Answer with send_input.';
  const { stdin, tty } = job.input as CommandInput;
  const typing = tty || stdin === 'open' ? 'Type into it with send_input. ' : '';
  return `Still ${job.status}. ${typing}Wait for its end with wait_for_jobs; continue reading with read_output, ${cursorText(output)}.`;
}

/** A call over HTTP has no working directory. The hint reports where the command ran, because a model expects its own folder. */
function cwdHint(
  job: Job,
  { command, argv, cwd }: Partial<RunInput>,
  { origin }: CallContext,
): string | undefined {
  const isStarted = command !== undefined || argv !== undefined;
  if (!isStarted || cwd !== undefined || origin?.cwd !== undefined) return undefined;
  return `It ran in ${(job.input as CommandInput).cwd}; set cwd for another folder.`;
}

function cursorText({ next, streams }: OutputResponse): string {
  if (!streams) return `from ${next}`;
  return streams.map((part) => `stream ${part.stream}, from ${part.next}`).join(' (or ') + ')';
}

/** Interactive, ready and ended jobs return a plain result. Clients that support tasks follow other jobs as tasks. */
function isFollowed(out: RunOutput): boolean {
  if (isFinal(out.status) || out.stage === 'ready' || out.status === 'input_required') return false;
  return out.interactive !== true;
}

function runText(jobs: Jobs, out: RunOutput): string {
  const parts = [jobText(jobs, { ...out, result: undefined })];
  if (out.existing) parts.push('No new job was started: this one already existed.');
  if (out.outputError) parts.push(`The output cannot be read: ${out.outputError}`);
  if (out.output?.text) parts.push(out.output.text);
  if (out.hint) parts.push(out.hint);
  return parts.join('\n');
}

/** Two concurrent calls that ensure the same name get the same job. */
async function runExclusively<T>(
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
