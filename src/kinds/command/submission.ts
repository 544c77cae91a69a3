// Prepares a submission: folder, environment, labels and limits of a command, checked before the job is stored.
import { isAbsolute, resolve } from 'node:path';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import { copySubmission, type Submission } from '../../jobs/submission.ts';
import type { CallContext } from '../../operation.ts';
import type { Environments } from './environments.ts';
import type { CommandInput } from './input.ts';
import { terminalSize, type runCommand } from '../../contracts/command.ts';
import type { AttemptMonitor } from './attempt-monitor.ts';
import type { Policy } from './policy.ts';
import type { ParsedInputOf } from '../../operation.ts';
import type { Secrets } from './secrets.ts';
import type { CommandSettings } from './settings.ts';

type RunInput = ParsedInputOf<typeof runCommand>;

export interface SubmissionDeps {
  monitor: AttemptMonitor;
  policy: Policy;
  secrets: Secrets;
  environments: Environments;
  settings: CommandSettings;
  /** The id of this server. */
  node: string;
  /** In a cluster: the label that only this node has. */
  nodeLabel: string | undefined;
  /** Reads a variable from the server's environment, for callers without one. */
  serverValue(name: string): string | undefined;
}

/** The same call from another terminal is the same work, even if PATH differs. */
function sameWork({ waitMs: _waitMs, ...input }: RunInput, cwd: string) {
  return { idempotencyKey: input.idempotencyKey!, idempotencyBody: { ...input, cwd } };
}

export type Prepared = Submission & { secretValues: Record<string, string> };

export function prepareSubmission(
  input: RunInput,
  context: CallContext,
  deps: SubmissionDeps,
): Prepared {
  const { origin } = context;
  const caller = context.caller!;
  const cwd = resolveFolder(input.cwd, origin?.cwd, deps);
  deps.policy.check({ command: input.command ?? input.argv ?? [], cwd });
  refuseOverTotal(deps);
  const tty = input.tty === true ? terminalSize.parse({}) : input.tty || undefined;
  const stored: CommandInput = {
    ...(input.command === undefined ? { argv: input.argv! } : { command: input.command }),
    cwd,
    ...environmentOf(input, origin?.env, deps),
    env: input.env,
    secrets: input.secrets,
    stdin: tty ? 'open' : input.stdin,
    streams: input.streams,
    ...(tty ? { tty } : {}),
    ...(input.ready ? { ready: input.ready } : {}),
    ...(input.maxOutputBytes === undefined ? {} : { maxOutputBytes: input.maxOutputBytes }),
    ...(input.ring ? { ring: ringOrRefuse() } : {}),
  };
  return {
    kind: 'command',
    input: stored,
    owner: caller.owner,
    tags: input.tags,
    ...labelsOf(input, origin?.cwd !== undefined || input.secrets.length > 0, deps),
    ...(input.name === undefined ? {} : { name: input.name }),
    ...(input.queue === undefined ? {} : { queue: input.queue }),
    ...(input.priority === undefined ? {} : { priority: input.priority }),
    ...(input.runAt === undefined ? {} : { runAt: Date.parse(input.runAt) }),
    ...(input.ttlMs === undefined ? {} : { ttlMs: input.ttlMs }),
    ...(input.timeoutMs === undefined ? {} : { timeoutMs: input.timeoutMs }),
    ...(input.after === undefined ? {} : { after: input.after }),
    ...(input.maxAttempts === 1 ? {} : { retry: { maxAttempts: input.maxAttempts } }),
    ...(input.idempotencyKey === undefined ? {} : sameWork(input, cwd)),
    secretValues: deps.secrets.values(input.secrets, origin?.env),
  };
}

function environmentOf(
  { secrets, env: given }: Pick<RunInput, 'secrets' | 'env'>,
  env: Record<string, string> | undefined,
  { environments, settings, node }: SubmissionDeps,
): Pick<CommandInput, 'environment' | 'withheld'> {
  if (!env || !settings.environment.inherit) return {};
  const { id, withheld } = environments.store(env);
  const named = new Set([...secrets, ...Object.keys(given)]);
  const left = withheld.filter((name) => !named.has(name));
  return { environment: { id, node }, ...(left.length === 0 ? {} : { withheld: left }) };
}

/**
 * Submits an ended job again, with the current policy and the secrets of the current caller. It uses the environment of the
 * original job or, if that is no longer stored, the caller's.
 */
export function prepareRerun(job: Job, { origin }: CallContext, deps: SubmissionDeps): Prepared {
  const input = job.input as CommandInput;
  deps.policy.check({ command: input.command ?? input.argv ?? [], cwd: input.cwd });
  refuseOverTotal(deps);
  const values = deps.secrets.valuesForRerun(job.id, input.secrets, origin?.env);
  const isStored = input.environment && deps.environments.use(input.environment.id);
  const { environment: _gone, withheld: _names, ...rest } = input;
  const rerunInput = isStored ? input : { ...rest, ...environmentOf(input, origin?.env, deps) };
  return { ...copySubmission(job), input: rerunInput, secretValues: values };
}

/** A local caller means local folders, and only this node knows the secrets that came with the call. */
function labelsOf(
  { labels }: RunInput,
  isLocal: boolean,
  { nodeLabel }: SubmissionDeps,
): { labels?: string[] } {
  if (labels.length > 0) return { labels };
  return isLocal && nodeLabel !== undefined ? { labels: [nodeLabel] } : {};
}

function resolveFolder(
  requested: string | undefined,
  origin: string | undefined,
  deps: SubmissionDeps,
): string {
  if (requested === undefined) return origin ?? deps.serverValue('HOME') ?? '/';
  const home = deps.serverValue('HOME');
  if (home && (requested === '~' || requested.startsWith('~/')))
    return resolve(home, requested.slice(2));
  if (isAbsolute(requested)) return requested;
  if (origin) return resolve(origin, requested);
  throw new AppError('invalidInput', 'cwd must be an absolute path.', {
    hint: 'A call over HTTP has no working directory to resolve a relative path.',
  });
}

function refuseOverTotal({ monitor, settings }: SubmissionDeps): void {
  if (monitor.totalBytes <= settings.maxOutputTotalBytes) return;
  throw new AppError('limitExceeded', 'The total output of all jobs exceeds its limit.', {
    hint: 'Retention removes ended jobs every minute (retention.maxBytes in config.json; pinned jobs stay). You can also raise command.maxOutputTotalBytes.',
    data: { bytes: monitor.totalBytes, maxBytes: settings.maxOutputTotalBytes },
  });
}

function ringOrRefuse(): true {
  if (process.platform === 'linux') return true;
  throw new AppError('unsupported', '`ring` is only supported on Linux.', {
    hint: 'Omit ring. The job is then stopped at maxOutputBytes.',
  });
}
