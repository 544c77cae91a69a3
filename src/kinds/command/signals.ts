// Signals to a running command.
import { constants as osConstants } from 'node:os';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import { jobId } from '../../jobs/operation-needs.ts';
import { ownJob } from '../../jobs/view.ts';
import { defineOperation, type Caller, type Operation } from '../../operation.ts';
import { membersOf } from './conditions.ts';
import { noteInterrupt } from './process/ending.ts';
import type { LaunchFolder } from './process/folder.ts';
import { bootId, signalProcess } from './process/identity.ts';
import { handledSignals } from './process/observe.ts';
import { isHolder } from './process/stdin.ts';
import { identityOf, type ProcessRow } from './process/tree.ts';
import type { OutputNeeds } from './read-output.ts';

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

export function sendSignal(needs: OutputNeeds): Operation {
  return defineOperation({
    name: 'send_signal',
    title: 'Send signal',
    description:
      'Sends one signal to a running command: INT, TERM, QUIT, KILL, STOP and CONT to all its processes; HUP, USR1 and the like to those that handle them (to all if none does). ' +
      'Use it to interrupt, pause, go on or make a server reload. It does not mark the job cancelled: to stop it for good with its whole tree use cancel_job; to press ctrl-c in a terminal send_input. Each process is identified again before it is signalled.',
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
      const job = await ownCommand(needs, id, caller);
      refuseOver(job);
      return { id, signal, processes: await signalCommand(job, signal, needs) };
    },
  });
}

/** Answers how many processes got it. */
export async function signalCommand(
  job: Job,
  signal: NodeJS.Signals,
  { files }: OutputNeeds,
): Promise<number> {
  const folder = files.launch(job);
  const members = folder ? await ownMembers(folder, job.attemptId) : [];
  const number = osConstants.signals[signal];
  const handlers = members.filter(({ pid }) => handledSignals(pid).has(number));
  const chosen = forAll.has(signal) || handlers.length === 0 ? members : handlers;
  const boot = bootId();
  if (folder && signal === 'SIGINT') noteInterrupt(folder);
  return chosen.filter((row: ProcessRow) => signalProcess(identityOf(row, boot), signal)).length;
}

/** Not the holder of its input: whoever survives the signal still wants to be typed to. */
async function ownMembers(folder: LaunchFolder, attemptId: string): Promise<ProcessRow[]> {
  const claim = folder.readClaim();
  const rows = await membersOf(folder, attemptId);
  if (claim.state !== 'claimed') return rows;
  return rows.filter((row) => !isHolder(row, folder, claim.identity));
}

export async function ownCommand(
  { jobs }: OutputNeeds,
  id: string,
  caller: Caller | undefined,
): Promise<Job> {
  const job = await ownJob(jobs, id, caller);
  if (job.kind === 'command') return job;
  throw new AppError('wrongState', `${id} is a job of kind ${job.kind}, not a command.`);
}

export function refuseOver(job: Job): void {
  if (!isFinal(job.status)) return;
  throw new AppError('wrongState', `The job is over (${job.status}).`, {
    hint: 'get_job shows how it ended; retry_job runs it again.',
    data: { status: job.status, exitCode: job.facts.exitCode ?? null },
  });
}
