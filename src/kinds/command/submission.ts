// From the call to what is stored: folder, environment, labels and limits of a command, checked before it is a job.
import { isAbsolute, resolve } from 'node:path';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import { sameJob, type Submission } from '../../jobs/submission.ts';
import type { CallContext } from '../../operation.ts';
import { callerEnvironment } from './environment.ts';
import { terminalSize, type CommandInput } from './input.ts';
import type { Keeper } from './keeper.ts';
import type { Policy } from './policy.ts';
import type { RunInput } from './run-input.ts';
import type { Secrets } from './secrets.ts';
import type { CommandSettings } from './settings.ts';

export interface SubmissionNeeds {
  keeper: Keeper;
  policy: Policy;
  secrets: Secrets;
  settings: CommandSettings;
  /** In a cluster: the label that only this node has. */
  nodeLabel: string | undefined;
  /** A value of this server's environment, for callers that bring none. */
  serverValue(name: string): string | undefined;
}

/** The same call from another terminal is the same work, whatever PATH it has. */
function sameWork({ waitMs: _waitMs, ...input }: RunInput, cwd: string) {
  return { idempotencyKey: input.idempotencyKey!, idempotencyBody: { ...input, cwd } };
}

export type Prepared = Submission & { secretValues: Record<string, string> };

export function prepareSubmission(
  input: RunInput,
  context: CallContext,
  needs: SubmissionNeeds,
): Prepared {
  const { origin } = context;
  const caller = context.caller!;
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

/** An ended job once more: checked against the policy of today, with secrets of the caller of today. */
export function prepareRerun(job: Job, { origin }: CallContext, needs: SubmissionNeeds): Prepared {
  const input = job.input as CommandInput;
  needs.policy.check({ command: input.command ?? input.argv ?? [], cwd: input.cwd });
  checkRoom(needs);
  const values = needs.secrets.again(job.id, input.secrets, origin?.env);
  return { ...sameJob(job), secretValues: values };
}

/** Whoever calls from this machine means its folders, and only this node knows the secrets it was given. */
function labelsOf(
  { labels }: RunInput,
  isLocal: boolean,
  { nodeLabel }: SubmissionNeeds,
): { labels?: string[] } {
  if (labels.length > 0) return { labels };
  return isLocal && nodeLabel !== undefined ? { labels: [nodeLabel] } : {};
}

function folderOf(
  wish: string | undefined,
  origin: string | undefined,
  needs: SubmissionNeeds,
): string {
  if (wish === undefined) return origin ?? needs.serverValue('HOME') ?? '/';
  const home = needs.serverValue('HOME');
  if (home && (wish === '~' || wish.startsWith('~/'))) return resolve(home, wish.slice(2));
  if (isAbsolute(wish)) return wish;
  if (origin) return resolve(origin, wish);
  throw new AppError('invalidInput', 'cwd must be an absolute path.', {
    hint: 'A call over HTTP has no folder of its own that a relative path could begin at.',
  });
}

function checkRoom({ keeper, settings }: SubmissionNeeds): void {
  if (keeper.totalBytes <= settings.outputTotalBytesMax) return;
  throw new AppError('limitExceeded', 'The output of all jobs together is over its limit.', {
    hint: 'Ended jobs are forgotten by retention (retention.bytesMax in config.json, every minute; pinned ones stay); or raise command.outputTotalBytesMax.',
    data: { bytes: keeper.totalBytes, bytesMax: settings.outputTotalBytesMax },
  });
}

function ringOrRefuse(): true {
  if (process.platform === 'linux') return true;
  throw new AppError('unsupported', 'A ring needs holes in files, which only Linux has here.', {
    hint: 'Leave ring out; outputBytesMax then ends the job at the cap.',
  });
}
