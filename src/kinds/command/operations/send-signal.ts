// The send_signal operation, and sending signals to a running command.
import { constants as osConstants } from 'node:os';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { isFinal, type Job } from '../../../jobs/job.ts';
import { jobId } from '../../../contracts/jobs.ts';
import { ownJob } from '../../../jobs/view.ts';
import { defineOperation, type Caller, type Operation } from '../../../operation.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { membersOf } from '../conditions.ts';
import { markInterrupted } from '../process/end-reason.ts';
import type { LaunchFolder } from '../process/folder.ts';
import { bootId, signalProcess } from '../../../runtime/process-identity.ts';
import { handledSignals } from '../process/observe.ts';
import { isForkOf } from '../process/proc.ts';
import { isHolder } from '../process/stdin.ts';
import { identityOf, type ProcessRow } from '../process/tree.ts';
import type { OutputDeps } from '../output/request.ts';

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
const maxStartMs = 5000;
const startStepMs = 20;
/** Sent to every process of the job. Other signals are sent only to processes that handle them, because the default is to die. */
const forAll = new Set([
  'SIGINT',
  'SIGQUIT',
  'SIGTERM',
  'SIGKILL',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
]);

export function sendSignal(deps: OutputDeps): Operation {
  return defineOperation({
    name: 'send_signal',
    title: 'Send signal',
    description:
      'Sends one signal to a running command: INT, TERM, QUIT, KILL, STOP and CONT to all its processes; HUP, USR1 and the like to those that handle them (to all if none does). ' +
      'Use it to interrupt, pause, resume or reload a program. It does not mark the job cancelled: to stop the job with its whole process tree use cancel_job; to press ctrl-c in a terminal use send_input. Each process is identified again before it is signalled.',
    effect: 'destroy',
    scope: 'run',
    reach: { jobs: ({ id }) => [id] },
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
      const job = await ownCommand(deps, id, caller);
      refuseEnded(job);
      return { id, signal, processes: await signalCommand(job, signal, deps) };
    },
  });
}

/** Returns how many processes received the signal. */
export async function signalCommand(
  job: Job,
  signal: NodeJS.Signals,
  { files, clock }: OutputDeps,
): Promise<number> {
  const folder = files.launch(job);
  const members = folder ? await startedMembers(folder, job.attemptId, clock) : [];
  const number = osConstants.signals[signal];
  const handlers = members.filter(({ pid }) => handledSignals(pid).has(number));
  const chosen = forAll.has(signal) || handlers.length === 0 ? members : handlers;
  const boot = bootId();
  if (folder && signal === 'SIGINT') markInterrupted(folder);
  return chosen.filter((row: ProcessRow) => signalProcess(identityOf(row, boot), signal)).length;
}

/**
 * The members once the payload has replaced the wrapper's forked shell. That shell still has the wrapper's signal handlers,
 * so a signal that arrives before its exec would be lost.
 */
async function startedMembers(
  folder: LaunchFolder,
  attemptId: string,
  clock: Clock,
): Promise<ProcessRow[]> {
  for (let waitedMs = 0; ; waitedMs += startStepMs) {
    const members = await ownMembers(folder, attemptId);
    if (waitedMs >= maxStartMs || !isStarting(folder, members)) return members;
    await clock.sleep(startStepMs);
  }
}

function isStarting(folder: LaunchFolder, members: readonly ProcessRow[]): boolean {
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return false;
  return members.some(({ pid }) => isForkOf(pid, claim.identity.pid));
}

/** Excludes the process that keeps the input open: a command that survives the signal still needs its input. */
async function ownMembers(folder: LaunchFolder, attemptId: string): Promise<ProcessRow[]> {
  const claim = folder.readClaim();
  const rows = await membersOf(folder, attemptId);
  if (claim.state !== 'claimed') return rows;
  return rows.filter((row) => !isHolder(row, folder, claim.identity));
}

export async function ownCommand(
  { jobs }: OutputDeps,
  id: string,
  caller: Caller | undefined,
): Promise<Job> {
  const job = await ownJob(jobs, id, caller);
  if (job.kind === 'command') return job;
  throw new AppError('wrongState', `${id} is a job of kind ${job.kind}, not a command.`);
}

export function refuseEnded(job: Job): void {
  if (!isFinal(job.status)) return;
  throw new AppError('wrongState', `The job has ended (${job.status}).`, {
    hint: 'get_job shows how it ended. retry_job runs it again.',
    data: { status: job.status, exitCode: job.facts.exitCode ?? null },
  });
}
