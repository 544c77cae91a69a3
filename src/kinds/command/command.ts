// The kind: what a command job is, how its attempts run, what get_job says about it.
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Kind, Run } from '../../jobs/kind.ts';
import type { Clock } from '../../runtime/clock.ts';
import { runAttempt, type AttemptNeeds, type Payload } from './attempt.ts';
import {
  lastOutputAgeMs,
  membersOf,
  waitsForInput,
  whenAll,
  whenAny,
  type ConditionNeeds,
  type Met,
} from './conditions.ts';
import { attemptTrace } from '../../jobs/attempt-trace.ts';
import { quoted } from '../../runtime/shell.ts';
import { traceparentOf } from '../../runtime/trace.ts';
import { payloadEnvironment } from './environment.ts';
import type { JobFiles } from './files.ts';
import type { CommandInput } from './input.ts';
import type { Keeper } from './keeper.ts';
import type { Policy } from './policy.ts';
import type { HttpProbe } from './probe.ts';
import type { LaunchFolder } from './process/folder.ts';
import { outputBytes } from './process/limits.ts';
import { observe } from './process/observe.ts';
import { findProgram } from './process/program.ts';
import type { Terminals } from './process/terminal.ts';
import { takenPorts } from './ready-ports.ts';
import type { Secrets } from './secrets.ts';
import type { CommandSettings } from './settings.ts';
import { commandKey, type History } from './store.ts';
import { commandWords } from './words.ts';

export interface CommandNeeds {
  jobs: Jobs;
  clock: Clock;
  settings: CommandSettings;
  files: JobFiles;
  keeper: Keeper;
  history: History;
  policy: Policy;
  secrets: Secrets;
  probe: HttpProbe;
  terminals: Terminals;
  /** The job as it is now. */
  find(id: string): Promise<Job>;
  /** Watches a job that another node runs. */
  watchThere(
    id: string,
    until: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ reason?: string; detail?: unknown }>;
}

/** Between two looks for the node of a job. */
const movedMs = 200;

export interface CommandKind extends Kind {
  conditions: ConditionNeeds;
}

export function commandKind(needs: CommandNeeds): CommandKind {
  const { clock, files, settings, keeper, history } = needs;
  const ready = new Set<string>();
  const isReady = (attemptId: string) => ready.has(attemptId);
  const conditions: ConditionNeeds = { files, clock, probe: needs.probe, isReady };
  const attempt: AttemptNeeds = {
    clock,
    settings,
    keeper,
    jobFolder: (id) => files.folder(id),
    cancelGraceMs: async (id) => {
      const { cancelGraceMs } = (await needs.jobs.get(id)).facts;
      return typeof cancelGraceMs === 'number' ? cancelGraceMs : undefined;
    },
    prepare: (job, input) => prepare(job, input, needs),
    whenReady: (run, folder, signal) => whenReady(run, folder, signal, conditions, ready),
  };
  return {
    name: 'command',
    allows: 'run any command as the user of this server, and so read and change all its files',
    adopts: true,
    dispatched: true,
    retryable: true,
    cancellable: true,
    conditions,
    asleepMs: (since) => keeper.asleepMs(since),
    capacity: () => settings.jobsMax,
    run: async (run) => {
      const outcome = await runAttempt(run, attempt);
      ready.delete(run.job.attemptId);
      if (outcome.type !== 'snoozed') remember(run.job, outcome, history, clock);
      return outcome;
    },
    view: (job) => viewOf(job, needs),
    words: commandWords,
    summary: (job) => commandText(job.input as CommandInput),
    line: ({ facts: { exitCode } }) => (typeof exitCode === 'number' ? { exitCode } : {}),
    watch: (job, until, signal) =>
      watchAnywhere(job, needs, signal, {
        here: (present) => whenAny(present, until, conditions, signal),
        there: () => needs.watchThere(job.id, until, signal),
      }),
    folder: (id) => files.folder(id),
    endedBytes: () => keeper.bytesOfEnded,
    forget: async (ids) => {
      for (const id of ids) await files.remove(id);
      keeper.forgotBytes(await history.forget(ids));
    },
  };
}

/** A job that waits may be started by any node: when it turns out to run elsewhere, the watching moves there. */
async function watchAnywhere(
  job: Job,
  { files, clock, find }: CommandNeeds,
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
      await clock.sleep(movedMs, signal);
    }
  }
}

/** As a person would type it. */
function commandText(input: Pick<CommandInput, 'command' | 'argv'>): string {
  return input.command ?? (input.argv ?? []).map(quoted).join(' ');
}

function historyKey(job: Job): string {
  const input = job.input as CommandInput;
  return commandKey(job.owner, input.command ?? input.argv ?? [], input.cwd);
}

async function prepare(job: Job, input: CommandInput, needs: CommandNeeds): Promise<Payload> {
  const { settings, policy, secrets } = needs;
  // Asked again at every attempt: the policy may be stricter than when the job was submitted.
  policy.check({ command: input.command ?? input.argv ?? [], cwd: input.cwd });
  const env = payloadEnvironment({
    caller: input.callerEnv,
    given: input.env,
    secrets: secrets.take(job.id, input.secrets),
    safe: settings.safeEnvironment,
    tty: input.tty !== undefined,
    jobId: job.id,
    trace: traceOf(job),
    passes: (name) => policy.passes(name),
  });
  const words = input.argv ?? [shellOf(settings.shell, env.PATH ?? ''), '-c', input.command!];
  const argv = policy.limited(words);
  if (!input.tty) return { argv, env };
  const helper = await needs.terminals.helper();
  return { argv, env, terminal: { size: input.tty, helper } };
}

function traceOf(job: Job): string | undefined {
  const trace = attemptTrace(job);
  return trace && traceparentOf(trace);
}

/** A shell that agents expect: bash where the job's own PATH has it. */
function shellOf(setting: string, path: string): string {
  if (setting !== 'auto') return setting;
  return findProgram('bash', path) ?? '/bin/sh';
}

async function whenReady(
  run: Run,
  folder: LaunchFolder,
  signal: AbortSignal,
  conditions: ConditionNeeds,
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

/** Of the ready check, where a process outside of the job listens. */
function outsidePorts(met: Met[]): { outsidePorts?: number[] } {
  const details = met.map(({ detail }) => detail as { own?: false; port?: number } | undefined);
  const ports = details.flatMap((one) => (one?.own === false ? (one.port ?? []) : []));
  return ports.length === 0 ? {} : { outsidePorts: [...new Set(ports)] };
}

function remember(
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

async function viewOf(job: Job, needs: CommandNeeds): Promise<Record<string, unknown>> {
  const { clock, history, settings } = needs;
  const input = job.input as CommandInput;
  const past = await history.of(historyKey(job));
  const { cancelGraceMs: _grace, ...facts } = job.facts;
  const interactive = {
    ...(input.stdin === 'open' ? { interactive: true } : {}),
    ...(input.tty ? { terminal: true } : {}),
  };
  const common = { cwd: input.cwd, ...interactive, ...(past ? { history: past } : {}) };
  if (isFinal(job.status)) return { exitCode: null, signal: null, ...facts, ...common };
  const folder = runningFolder(job, needs);
  if (!folder) return { exitCode: null, ...facts, ...common };
  const claim = folder.readClaim();
  const rows = await membersOf(folder, job.attemptId);
  const seen = observe(rows, undefined);
  const runMs = claim.state === 'claimed' ? clock.now() - claim.at : 0;
  const usualMs = (past?.expectedMs ?? Infinity) * settings.slowFactor;
  const slow = runMs > Math.max(usualMs, settings.slowMsMin);
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
      needs.keeper.find(job.attemptId)?.memoryPeakBytes ?? 0,
    ),
    ...(slow ? { slowerThanUsual: true } : {}),
  };
}

/** The folder of an attempt that runs on this server; get_job must answer for jobs of other servers, too. */
function runningFolder(job: Job, { files }: CommandNeeds): LaunchFolder | undefined {
  try {
    return files.launch(job);
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}
