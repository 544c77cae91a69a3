// The command kind: how attempts run and what get_job reports about them.
import { statSync } from 'node:fs';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Kind, Run } from '../../jobs/kind.ts';
import type { Clock } from '../../runtime/clock.ts';
import { runAttempt, type AttemptDeps, type Payload } from './attempt.ts';
import {
  lastOutputAgeMs,
  membersOf,
  returnConditions,
  waitsForInput,
  whenAll,
  whenAny,
  type ConditionDeps,
  type Met,
} from './conditions.ts';
import { attemptTrace } from '../../jobs/attempt-trace.ts';
import { shellQuote } from '../../runtime/shell.ts';
import { formatTraceparent } from '../../runtime/trace.ts';
import { payloadEnvironment, serverEnvironment } from './environment.ts';
import type { CommandInput } from './input.ts';
import { latestLine } from './output/latest-line.ts';
import { Log } from './output/log.ts';
import type { LaunchFolder } from './process/folder.ts';
import { bootId } from '../../runtime/process-identity.ts';
import { killTree } from './process/kill.ts';
import { outputBytes } from './process/limits.ts';
import { observe } from './process/observe.ts';
import { findProgram } from './process/program.ts';
import { takenPorts } from './ready-ports.ts';
import { commandKey, type History } from './store/history.ts';
import type { CommandDeps } from './deps.ts';
import { reportSlowness } from './slowness.ts';
import { describeState } from './state-text.ts';

/** Delay between two attempts to find the node that runs a job. */
const moveRetryMs = 200;

interface CommandKind extends Kind {
  conditions: ConditionDeps;
}

export function commandKind(deps: CommandDeps): CommandKind {
  const { clock, files, settings, monitor, history } = deps;
  const ready = new Set<string>();
  const isReady = (attemptId: string) => ready.has(attemptId);
  const conditions: ConditionDeps = {
    files,
    clock,
    probe: deps.probe,
    isReady,
    mask: deps.mask,
  };
  const attempt: AttemptDeps = {
    clock,
    settings,
    monitor,
    jobFolder: (id) => files.folder(id),
    cancelGraceMs: async (id) => {
      const { cancelGraceMs } = (await deps.jobs.get(id)).facts;
      return typeof cancelGraceMs === 'number' ? cancelGraceMs : undefined;
    },
    prepare: (job, input) => prepare(job, input, deps),
    whenReady: (run, folder, signal) => whenReady({ run, folder, signal }, conditions, ready),
  };
  return {
    name: 'command',
    allows: 'run any command as the user of this server, and so read and change all its files',
    adopts: true,
    dispatched: true,
    retryable: true,
    cancellable: true,
    conditions,
    asleepMs: (since) => monitor.asleepMs(since),
    capacity: () => settings.maxJobs,
    run: async (run) => {
      const stopSlowCheck = reportSlowness(run, historyKey(run.job), deps);
      const outcome = await runAttempt(run, attempt).finally(stopSlowCheck);
      ready.delete(run.job.attemptId);
      if (outcome.type !== 'snoozed') recordRun(run.job, outcome, history, clock);
      return outcome;
    },
    view: (job) => toView(job, deps),
    details: viewDetails,
    describe: describeState,
    summary: (job) => commandText(job.input as CommandInput),
    line: ({ facts: { exitCode, signal } }) => ({
      ...(typeof exitCode === 'number' ? { exitCode } : {}),
      ...(typeof signal === 'string' ? { signal } : {}),
    }),
    watch: (job, until, signal) =>
      watchAnywhere(job, deps, signal, {
        here: (present) => whenAny(present, until, conditions, signal),
        there: () => deps.watchThere(job.id, until, signal),
      }),
    returnsWhen: (job) => returnConditions(job.input as CommandInput),
    latestLine: (job) => latestLineOf(job, deps),
    endOrphanedProcesses: (job, graceMs = settings.killGraceMs) =>
      endOrphanedProcesses(job, graceMs, deps),
    folder: (id) => files.folder(id),
    endedBytes: () => monitor.endedOutputBytes,
    forget: async (ids) => {
      for (const id of ids) await files.remove(id);
      monitor.subtractEndedBytes(await history.forget(ids));
    },
  };
}

/** A queued job may start on any node. If it starts elsewhere, the watch moves to that node. */
async function watchAnywhere(
  job: Job,
  { files, clock, find }: CommandDeps,
  signal: AbortSignal,
  watch: {
    here(job: Job): Promise<Met | undefined>;
    there(): Promise<{ reason?: string; detail?: unknown }>;
  },
): Promise<Met | undefined> {
  for (let present = job; ; present = await find(job.id)) {
    try {
      if (!files.isElsewhere(present)) return await watch.here(present);
      const { reason, detail } = await watch.there();
      return reason === undefined ? undefined : { reason, detail };
    } catch (error) {
      const moved = error instanceof AppError && error.code === 'unavailable';
      if (!moved || signal.aborted) throw error;
      await clock.sleep(moveRetryMs, signal);
    }
  }
}

/** The command as a person would type it. */
function commandText(input: Pick<CommandInput, 'command' | 'argv'>): string {
  return input.command ?? (input.argv ?? []).map(shellQuote).join(' ');
}

function historyKey(job: Job): string {
  const input = job.input as CommandInput;
  return commandKey(job.owner, input.command ?? input.argv ?? [], input.cwd);
}

async function prepare(job: Job, input: CommandInput, deps: CommandDeps): Promise<Payload> {
  const { settings, policy, secrets } = deps;
  // Checked before every attempt, because the policy may have become stricter since submission.
  policy.check({ command: input.command ?? input.argv ?? [], cwd: input.cwd });
  const env = payloadEnvironment({
    caller: environmentOf(input, deps),
    given: input.env,
    secrets: secrets.valuesForAttempt(job.id, input.secrets),
    safe: settings.safeEnvironment,
    tty: input.tty !== undefined,
    cwd: input.cwd,
    jobId: job.id,
    trace: traceparentOf(job),
    passes: (name) => policy.passes(name),
  });
  const describe = input.argv ?? [
    selectShell(settings.shell, env.PATH ?? ''),
    '-c',
    input.command!,
  ];
  const argv = policy.withLimits(describe);
  if (!input.tty) return { argv, env };
  const helper = await deps.terminals.helper();
  return { argv, env, terminal: { size: input.tty, helper } };
}

/** Returns the caller's environment if this node stores it, otherwise the server's. */
function environmentOf(
  input: CommandInput,
  { environments, node, serverValue }: CommandDeps,
): Record<string, string> {
  if (input.callerEnv) return input.callerEnv;
  const { environment } = input;
  if (!environment || environment.node !== node) return serverEnvironment(serverValue);
  const values = environments.find(environment.id);
  if (values) return values;
  throw new AppError('environmentMissing', "The caller's environment is no longer stored.", {
    hint: 'Nothing ran. Run `errand rerun` to start the command with the environment of your shell. The setting command.environment.maxKept limits how many environments are stored.',
  });
}

function traceparentOf(job: Job): string | undefined {
  const trace = attemptTrace(job);
  return trace && formatTraceparent(trace);
}

/** Agents expect bash, so `auto` selects it if the job's PATH contains it. */
function selectShell(setting: string, path: string): string {
  if (setting !== 'auto') return setting;
  return findProgram('bash', path) ?? '/bin/sh';
}

async function whenReady(
  { run, folder, signal }: { run: Run; folder: LaunchFolder; signal: AbortSignal },
  conditions: ConditionDeps,
  ready: Set<string>,
): Promise<void> {
  const { job } = run;
  const check = (job.input as CommandInput).ready;
  if (!check) return;
  if (job.stage === 'ready') {
    ready.add(job.attemptId);
    return;
  }
  const met = await whenAll(job, check, conditions, signal);
  if (!met || folder.readExit()) return;
  const readyAt = new Date(conditions.clock.now()).toISOString();
  await run.report({ stage: 'ready', facts: { readyAt, ...outsidePorts(met) } });
  ready.add(job.attemptId);
}

/** Ports of the ready check on which a process outside the job listens. */
function outsidePorts(met: Met[]): { outsidePorts?: number[] } {
  const details = met.map(({ detail }) => detail as { own?: false; port?: number } | undefined);
  const ports = details.flatMap((one) => (one?.own === false ? (one.port ?? []) : []));
  return ports.length === 0 ? {} : { outsidePorts: [...new Set(ports)] };
}

function recordRun(
  job: Job,
  outcome: { type: string; facts?: Record<string, unknown> },
  history: History,
  clock: Clock,
): void {
  const { facts } = outcome;
  if (!facts || typeof facts.runMs !== 'number') return;
  history.add({
    attemptId: job.attemptId,
    jobId: job.id,
    key: historyKey(job),
    endedAt: clock.now(),
    runMs: facts.runMs,
    ok: outcome.type === 'completed',
    cancelled: outcome.type === 'cancelled',
    bytes: Number(facts.outputBytes ?? 0) - Number(facts.droppedBytes ?? 0),
  });
}

const viewDetails = [
  'cpuMs',
  'cpuSystemMs',
  'cpuUserMs',
  'cwd',
  'history',
  'interactive',
  'lastOutputAgeMs',
  'memoryBytes',
  'memoryPeakBytes',
  'outputBytes',
  'pid',
  'processes',
  'readyAt',
  'runMs',
  'terminal',
];

async function toView(job: Job, deps: CommandDeps): Promise<Record<string, unknown>> {
  const { clock, history, settings } = deps;
  const input = job.input as CommandInput;
  const past = await history.get(historyKey(job));
  const { cancelGraceMs: _grace, slowAttempt: _slow, ...facts } = job.facts;
  const interactive = {
    ...(input.stdin === 'open' ? { interactive: true } : {}),
    ...(input.tty ? { terminal: true } : {}),
  };
  const common = {
    cwd: input.cwd,
    ...(input.withheld ? { withheld: input.withheld } : {}),
    ...interactive,
    ...(past ? { history: past } : {}),
  };
  if (isFinal(job.status)) return { exitCode: null, signal: null, ...facts, ...common };
  const folder = runningFolder(job, deps);
  if (!folder) return { exitCode: null, ...facts, ...common };
  const claim = folder.readClaim();
  const rows = await membersOf(folder, job.attemptId);
  const seen = observe(rows, undefined);
  const runMs = claim.state === 'claimed' ? clock.now() - claim.at : 0;
  const usualMs = (past?.expectedMs ?? Infinity) * settings.slowFactor;
  const slow = runMs > Math.max(usualMs, settings.minSlowMs);
  const silentMs = lastOutputAgeMs(folder, clock);
  const taken = job.stage === 'ready' ? [] : takenPorts(folder, input.ready);
  return {
    exitCode: null,
    ...facts,
    ...common,
    ...(claim.state === 'claimed' ? { pid: claim.identity.pid } : {}),
    outputBytes: outputBytes(folder),
    ...(silentMs === undefined ? {} : { lastOutputAgeMs: silentMs }),
    waitingForInput: waitsForInput(job, folder, rows),
    ...(seen.ports.length > 0 ? { ports: seen.ports } : {}),
    ...(taken.length > 0 ? { takenPorts: taken } : {}),
    processes: seen.processes,
    cpuMs: seen.cpuMs,
    memoryBytes: seen.memoryBytes,
    memoryPeakBytes: Math.max(
      seen.memoryPeakBytes,
      deps.monitor.find(job.attemptId)?.memoryPeakBytes ?? 0,
    ),
    ...(slow ? { slowerThanUsual: true } : {}),
  };
}

/** Finds processes by their mark, because the process group id may have been reused. */
async function endOrphanedProcesses(job: Job, graceMs: number, deps: CommandDeps): Promise<number> {
  const folder = runningFolder(job, deps);
  const claim = folder?.readClaim();
  if (!folder || claim?.state !== 'claimed' || claim.identity.bootId !== bootId()) return 0;
  const tree = {
    wrapper: claim.identity,
    mark: job.attemptId,
    folder: folder.path,
    groupGone: true,
  };
  const { signalled } = await killTree(tree, { clock: deps.clock, graceMs });
  return signalled;
}

/** Reads the stream that was written to last. */
async function latestLineOf(job: Job, { files, mask }: CommandDeps): Promise<string | undefined> {
  if (files.isElsewhere(job)) return undefined;
  const views = files.logs(job).map(({ view }) => view);
  const writtenAt = ({ path }: { path: string }) =>
    statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  for (const view of views.toSorted((a, b) => writtenAt(b) - writtenAt(a))) {
    await using log = await Log.open(view);
    const line = await latestLine(log);
    if (line !== undefined) return mask(job.id, line);
  }
  return undefined;
}

/** Returns undefined for a job of another server, because get_job must work for every job. */
function runningFolder(job: Job, { files }: CommandDeps): LaunchFolder | undefined {
  try {
    return files.launch(job);
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}
