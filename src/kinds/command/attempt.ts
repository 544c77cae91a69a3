// Runs one attempt of a command from start (or adoption) to its outcome. Nothing here changes the job: the outcome is
// returned as data, and the attempt folder holds everything needed to determine it again after a crash.
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Outcome, Run, StopReason } from '../../jobs/kind.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { CommandInput } from './input.ts';
import type { AttemptMonitor } from './attempt-monitor.ts';
import type { MonitoredAttempt } from './monitored-attempt.ts';
import { outcomeOf } from './outcome.ts';
import { writeEndReason, readEndNote, type EndReason } from './process/end-reason.ts';
import { launchFolder, nextLaunchFolder, type LaunchFolder } from './process/folder.ts';
import type { Identity } from '../../runtime/process-identity.ts';
import { killTree, type KillReport } from './process/kill.ts';
import { launch, type LaunchSpec } from './process/launch.ts';
import { groupExists, markHolders, treeMembers } from './process/tree.ts';
import { waitForAdopted } from './process/watch.ts';
import { recordTakenPorts } from './ready-ports.ts';
import type { CommandSettings } from './settings.ts';

export interface AttemptDeps {
  clock: Clock;
  settings: CommandSettings;
  monitor: AttemptMonitor;
  jobFolder(jobId: string): string;
  /** Arguments, environment and terminal of the payload. Throws AppError if it cannot run. */
  prepare(job: Job, input: CommandInput): Promise<Payload>;
  /** The grace period that the caller of cancel_job requested. Undefined: use the setting. */
  cancelGraceMs(jobId: string): Promise<number | undefined>;
  /** Resolves when the ready check of a running attempt is met. */
  whenReady(run: Run, folder: LaunchFolder, signal: AbortSignal): Promise<void>;
}

export type Payload = Pick<LaunchSpec, 'argv' | 'env' | 'terminal'>;

interface Started {
  folder: LaunchFolder;
  /** Resolves when the wrapper ends. Undefined for an adopted wrapper, which was started by an earlier server. */
  ended: Promise<void> | undefined;
}

/** Poll interval for adopted wrappers. A thousand of them are still cheap. */
const adoptedPollMs = 1000;
/** How often to check whether a later cancel shortened the grace period. */
const gracePollMs = 500;
/** After its payload is killed, the wrapper only has to write the exit record. */
const maxRecordMs = 5000;
/** Errors that another attempt cannot fix without user action. */
const notRetryable = new Set([
  'secretMissing',
  'environmentMissing',
  'policyRefused',
  'unsupported',
]);
/** A claim without content belongs to a wrapper that is just starting, or that died while starting. */
const maxClaimMs = 10_000;

export async function runAttempt(run: Run, deps: AttemptDeps): Promise<Outcome> {
  const { job } = run;
  const input = job.input as CommandInput;
  const limit = new AbortController();
  const watching = new AbortController();
  let monitored: MonitoredAttempt | undefined;
  let over = true;
  try {
    const started = await startOrAdopt(run, input, deps, (folder) => {
      monitored = toMonitoredAttempt(run, folder, deps, (reason) => limit.abort(reason));
      deps.monitor.add(monitored);
    });
    void deps.whenReady(run, started.folder, watching.signal).catch(() => {});
    const stop = AbortSignal.any([run.signal, limit.signal]);
    const end = await Promise.race([waitForEnd(started, deps, watching.signal), whenAborted(stop)]);
    const reason = stop.aborted ? (stop.reason as StopReason | EndReason) : undefined;
    if (end === 'stop' && reason === 'shutdown') {
      over = false;
      return { type: 'lost' };
    }
    const kill =
      end === 'stop' || end === 'lost'
        ? await endTree(started, job, end === 'lost' ? 'lost' : reason!, deps)
        : undefined;
    return await toOutcome(run, started.folder, deps, { kill, monitored });
  } catch (thrown) {
    const error = toStartError(thrown) ?? thrown;
    if (!(error instanceof AppError)) throw error;
    const { code, message, hint } = error;
    const facts = { exitCode: null, signal: null };
    const noRetry = notRetryable.has(code) ? { retry: false } : {};
    return {
      type: 'failed',
      error: { code, message, ...(hint ? { hint } : {}) },
      facts,
      ...noRetry,
    };
  } finally {
    watching.abort('over');
    deps.monitor.remove(job.attemptId, over);
  }
}

const fixHomeHint =
  'Nothing ran. Check the home with `errand doctor`, fix the problem, then call retry_job.';

/** Messages for system errors while creating the attempt files or spawning the wrapper. */
const systemErrors: Record<string, { why: string; hint: string }> = byName({
  ENOSPC: { why: 'the disk of the home folder is full', hint: fixHomeHint },
  EDQUOT: { why: 'the disk quota of the home folder is exhausted', hint: fixHomeHint },
  EROFS: { why: 'the disk of the home folder is read-only', hint: fixHomeHint },
  EACCES: { why: 'the home folder is not writable', hint: fixHomeHint },
  EMFILE: { why: 'the server has too many open files', hint: fixHomeHint },
  ENFILE: { why: 'the system has too many open files', hint: fixHomeHint },
  ENOMEM: {
    why: 'the system is out of memory',
    hint: 'Nothing ran. Call retry_job when memory is available.',
  },
  E2BIG: {
    why: 'the arguments and environment exceed the system limit',
    hint: 'Nothing ran. Pass large data as stdin or in a file.',
  },
});

function toStartError(error: unknown): AppError | undefined {
  const { code } = error as NodeJS.ErrnoException;
  const known = error instanceof AppError ? undefined : systemErrors[code ?? ''];
  if (!known) return undefined;
  const { why, hint } = known;
  return new AppError('cannotStart', `The command could not be started: ${why}.`, {
    hint,
    cause: error,
  });
}

async function startOrAdopt(
  run: Run,
  input: CommandInput,
  deps: AttemptDeps,
  onFolder: (folder: LaunchFolder) => void,
): Promise<Started> {
  const { job } = run;
  const jobFolder = deps.jobFolder(job.id);
  const before = run.adopted ? launchFolder(jobFolder, job.attempt) : undefined;
  if (before && (await wasStarted(before, job.attemptId, deps))) {
    onFolder(before);
    return { folder: before, ended: undefined };
  }
  const payload = await deps.prepare(job, input);
  const folder = nextLaunchFolder(jobFolder, job.attempt);
  onFolder(folder);
  recordTakenPorts(folder, input.ready);
  const spec: LaunchSpec = {
    ...payload,
    folder,
    cwd: input.cwd,
    attemptId: job.attemptId,
    stdin: input.stdin,
    streams: input.streams,
  };
  const { ended } = await launch(spec, deps.monitor.launcher);
  return { folder, ended };
}

/** Returns false if the payload did not start and never will, so that a new launch is safe. */
async function wasStarted(
  folder: LaunchFolder,
  attemptId: string,
  deps: AttemptDeps,
): Promise<boolean> {
  for (let waited = 0; ; waited += 100) {
    const claim = folder.readClaim();
    if (claim.state === 'claimed') return true;
    if (claim.state === 'void') return false;
    if (claim.state === 'none') {
      if (folder.voidClaim()) return false;
      continue;
    }
    if (waited > maxClaimMs || (await markHolders(attemptId)).length === 0) {
      return folder.readClaim().state === 'claimed';
    }
    await deps.clock.sleep(100);
  }
}

function toMonitoredAttempt(
  run: Run,
  folder: LaunchFolder,
  deps: AttemptDeps,
  end: (reason: EndReason) => void,
): MonitoredAttempt {
  const { job } = run;
  const input = job.input as CommandInput;
  const open = input.stdin === 'open' || input.tty !== undefined;
  const startedAt = job.startedAt ?? deps.clock.now();
  return {
    attemptId: job.attemptId,
    folder,
    outPath: folder.out,
    wrapper: undefined,
    maxOutputBytes: input.maxOutputBytes ?? deps.settings.maxOutputBytes,
    ring: input.ring ?? false,
    split: input.streams === 'split',
    inputPath: open ? folder.stdin : undefined,
    startedAt,
    deadlineAt: job.timeoutMs === null ? null : startedAt + job.timeoutMs,
    maxAloneMs: run.maxAloneMs,
    memoryPeakBytes: 0,
    waiting: false,
    end,
    onWaiting: (waiting) => {
      const why = waiting ? 'The command waits for input. Answer with send_input.' : undefined;
      run.needInput(waiting, why).catch(() => {});
    },
  };
}

async function waitForEnd(
  started: Started,
  { clock }: AttemptDeps,
  signal: AbortSignal,
): Promise<'end' | 'lost'> {
  const { folder, ended } = started;
  if (ended) {
    await ended;
    if (folder.readExit()) return 'end';
    const claim = folder.readClaim();
    if (claim.state === 'claimed') return 'lost';
    throw new AppError(
      'cannotStart',
      'The command could not be started: its wrapper exited first.',
      {
        hint: 'Nothing ran. The usual cause is a full disk under the home: check with `errand doctor`, then call retry_job.',
      },
    );
  }
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return 'lost';
  const options = { clock, pollMs: adoptedPollMs, signal };
  return (await waitForAdopted(folder, claim.identity, options)) === 'lost' ? 'lost' : 'end';
}

type EndCause = StopReason | EndReason;

/** Ends the processes that still run. Voids a launch that is not claimed yet; otherwise records the reason, then kills the tree. */
async function endTree(
  started: Started,
  { id, attemptId }: Job,
  cause: EndCause,
  deps: AttemptDeps,
): Promise<KillReport | 'voided'> {
  const { folder } = started;
  const { clock, settings } = deps;
  if (folder.voidClaim()) {
    writeEndReason(folder, endReasonOf(cause));
    return 'voided';
  }
  const wrapper = await waitForClaim(folder, clock);
  if (!wrapper) return { signalled: 0, forced: false, survivors: [] };
  if (!folder.readExit()) writeEndReason(folder, endReasonOf(cause));
  const requestedMs = cause === 'cancel' ? await deps.cancelGraceMs(id) : undefined;
  const graceMs = cause === 'lost' ? 0 : (requestedMs ?? settings.killGraceMs);
  const graceChange = cause === 'cancel' ? watchGraceChanges(id, deps) : undefined;
  const hurry = graceChange ? { hurry: graceChange.signal } : {};
  const tree = { wrapper, mark: attemptId, folder: folder.path };
  const report = await killTree(tree, { clock, graceMs, ...hurry });
  graceChange?.abort();
  for (let waited = 0; waited < maxRecordMs && !folder.readExit(); waited += 20) {
    if (cause === 'lost') break;
    await clock.sleep(20);
  }
  return report;
}

/** Aborts when a later cancel requests a shorter grace period than has already passed. */
function watchGraceChanges(id: string, { clock, cancelGraceMs }: AttemptDeps): AbortController {
  const shorter = new AbortController();
  const begun = clock.now();
  void (async () => {
    while (!shorter.signal.aborted) {
      await clock.sleep(gracePollMs, shorter.signal);
      const granted = await cancelGraceMs(id).catch(() => undefined);
      if (granted !== undefined && clock.now() - begun >= granted) shorter.abort();
    }
  })();
  return shorter;
}

async function waitForClaim(folder: LaunchFolder, clock: Clock): Promise<Identity | undefined> {
  for (let waited = 0; waited < maxClaimMs; waited += 50) {
    const claim = folder.readClaim();
    if (claim.state === 'claimed') return claim.identity;
    if (claim.state !== 'unreadable') return undefined;
    await clock.sleep(50);
  }
  return undefined;
}

const endReasonOf = (cause: EndCause): EndReason =>
  cause === 'shutdown' || cause === 'lost' ? 'lost' : cause;

async function toOutcome(
  run: Run,
  folder: LaunchFolder,
  deps: AttemptDeps,
  end: { kill: KillReport | 'voided' | undefined; monitored: MonitoredAttempt | undefined },
): Promise<Outcome> {
  const { kill, monitored } = end;
  const claim = folder.readClaim();
  const wrapper = claim.state === 'claimed' ? claim.identity : undefined;
  if (monitored && wrapper) monitored.wrapper = wrapper;
  const survivors = typeof kill === 'object' ? kill.survivors : [];
  return outcomeOf({
    job: run.job,
    folder,
    record: folder.readExit(),
    endNote: readEndNote(folder),
    survivors,
    leftBehind: kill ? [] : await leftBehind(wrapper, run.job.attemptId),
    memoryPeakBytes: monitored?.memoryPeakBytes ?? 0,
    startedAt: claim.state === 'claimed' ? claim.at : undefined,
    now: deps.clock.now(),
  });
}

/** Children that outlive a command. They are reported, not killed, because `nohup server &` may be intended. */
async function leftBehind(wrapper: Identity | undefined, mark: string): Promise<number[]> {
  if (!wrapper || !groupExists(wrapper.pid)) return [];
  return (await treeMembers({ wrapper, mark })).map((row) => row.pid);
}

function whenAborted(signal: AbortSignal): Promise<'stop'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('stop');
    else signal.addEventListener('abort', () => resolve('stop'), { once: true });
  });
}
