// One attempt of a command from start (or adoption) to its outcome. Nothing here changes the job: how it ended is
// returned as data, and everything needed to find that out again after a crash is in the attempt's folder.
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Outcome, Run, StopReason } from '../../jobs/kind.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { CommandInput } from './input.ts';
import type { Keeper, Kept } from './keeper.ts';
import { outcomeOf } from './outcome.ts';
import { noteEnding, readEnding, type EndingReason } from './process/ending.ts';
import { launchFolder, nextLaunchFolder, type LaunchFolder } from './process/folder.ts';
import type { Identity } from './process/identity.ts';
import { killTree, type KillReport } from './process/kill.ts';
import { launch, type LaunchSpec } from './process/launch.ts';
import { groupExists, markHolders, treeMembers } from './process/tree.ts';
import { adoptedEnd } from './process/watch.ts';
import { noteTaken } from './ready-ports.ts';
import type { CommandSettings } from './settings.ts';

export interface AttemptNeeds {
  clock: Clock;
  settings: CommandSettings;
  keeper: Keeper;
  jobFolder(jobId: string): string;
  /** Words, environment and terminal of the payload; throws AppError when it cannot be run. */
  prepare(job: Job, input: CommandInput): Promise<Payload>;
  /** How long the caller of cancel_job lets it take; undefined: the setting. */
  cancelGraceMs(jobId: string): Promise<number | undefined>;
  /** Looks at a running attempt's ready check until it is met. */
  whenReady(run: Run, folder: LaunchFolder, signal: AbortSignal): Promise<void>;
}

export type Payload = Pick<LaunchSpec, 'argv' | 'env' | 'terminal'>;

interface Started {
  folder: LaunchFolder;
  /** Resolves with the end of the wrapper when this server had it started. */
  ended: Promise<void> | undefined;
}

/** An adopted wrapper is looked at so often; a thousand of them are still cheap. */
const adoptedPollMs = 1000;
/** How often a job that is given time is asked about again. */
const impatiencePollMs = 500;
/** After its payload was killed the wrapper only has to write its record. */
const recordMsMax = 5000;
/** What another attempt of the same job cannot mend without somebody doing something. */
const neverByItself = new Set(['secretMissing', 'policyRefused', 'unsupported']);
/** A claim without its content is a wrapper in its first microseconds, or one that died there. */
const claimMsMax = 10_000;

export async function runAttempt(run: Run, needs: AttemptNeeds): Promise<Outcome> {
  const { job } = run;
  const input = job.input as CommandInput;
  const limit = new AbortController();
  const watching = new AbortController();
  let keep: Kept | undefined;
  let over = true;
  try {
    const started = await begin(run, input, needs, (folder) => {
      keep = keptOf(run, folder, needs, (reason) => limit.abort(reason));
      needs.keeper.add(keep);
    });
    void needs.whenReady(run, started.folder, watching.signal).catch(() => {});
    const stop = AbortSignal.any([run.signal, limit.signal]);
    const end = await Promise.race([endOf(started, needs, watching.signal), whenAborted(stop)]);
    const reason = stop.aborted ? (stop.reason as StopReason | EndingReason) : undefined;
    if (end === 'stop' && reason === 'shutdown') {
      over = false;
      return { type: 'lost' };
    }
    const kill =
      end === 'stop' || end === 'lost'
        ? await endTree(started, job, end === 'lost' ? 'lost' : reason!, needs)
        : undefined;
    return await conclude(run, started.folder, needs, kill, keep);
  } catch (thrown) {
    const error = systemRefusal(thrown) ?? thrown;
    if (!(error instanceof AppError)) throw error;
    const { code, message, hint } = error;
    const facts = { exitCode: null, signal: null };
    const lasting = neverByItself.has(code) ? { retry: false } : {};
    return {
      type: 'failed',
      error: { code, message, ...(hint ? { hint } : {}) },
      facts,
      ...lasting,
    };
  } finally {
    watching.abort('over');
    needs.keeper.remove(job.attemptId, over);
  }
}

const mendHome = 'Nothing ran. `errand doctor` looks at the home; retry_job when it is mended.';

/** What the system said while the files of the attempt were made, or its wrapper spawned. */
const refusals: Record<string, { why: string; hint: string }> = byName({
  ENOSPC: { why: 'the disk of the home is full', hint: mendHome },
  EDQUOT: { why: 'the quota on the disk of the home is used up', hint: mendHome },
  EROFS: { why: 'the disk of the home is read-only', hint: mendHome },
  EACCES: { why: 'the home may not be written', hint: mendHome },
  EMFILE: { why: 'the server has too many files open', hint: mendHome },
  ENFILE: { why: 'the system has too many files open', hint: mendHome },
  ENOMEM: { why: 'the system has no memory for it', hint: 'Nothing ran. retry_job when there is.' },
  E2BIG: {
    why: 'its words and environment are together larger than the system takes',
    hint: 'Nothing ran. Give large data as stdin or in a file.',
  },
});

function systemRefusal(error: unknown): AppError | undefined {
  const { code } = error as NodeJS.ErrnoException;
  const refusal = error instanceof AppError ? undefined : refusals[code ?? ''];
  if (!refusal) return undefined;
  const { why, hint } = refusal;
  return new AppError('cannotStart', `The command could not be started: ${why}.`, {
    hint,
    cause: error,
  });
}

async function begin(
  run: Run,
  input: CommandInput,
  needs: AttemptNeeds,
  known: (folder: LaunchFolder) => void,
): Promise<Started> {
  const { job } = run;
  const jobFolder = needs.jobFolder(job.id);
  const before = run.adopted ? launchFolder(jobFolder, job.attempt) : undefined;
  if (before && (await wasStarted(before, job.attemptId, needs))) {
    known(before);
    return { folder: before, ended: undefined };
  }
  const payload = await needs.prepare(job, input);
  const folder = nextLaunchFolder(jobFolder, job.attempt);
  known(folder);
  noteTaken(folder, input.ready);
  const spec: LaunchSpec = {
    ...payload,
    folder,
    cwd: input.cwd,
    attemptId: job.attemptId,
    stdin: input.stdin,
    streams: input.streams,
  };
  const { ended } = await launch(spec, needs.keeper.launcher);
  return { folder, ended };
}

/** False: its payload did not and never will start, so a new launch is safe. */
async function wasStarted(
  folder: LaunchFolder,
  attemptId: string,
  needs: AttemptNeeds,
): Promise<boolean> {
  for (let waited = 0; ; waited += 100) {
    const claim = folder.readClaim();
    if (claim.state === 'claimed') return true;
    if (claim.state === 'void') return false;
    if (claim.state === 'none') {
      if (folder.voidClaim()) return false;
      continue;
    }
    if (waited > claimMsMax || (await markHolders(attemptId)).length === 0) {
      return folder.readClaim().state === 'claimed';
    }
    await needs.clock.sleep(100);
  }
}

function keptOf(
  run: Run,
  folder: LaunchFolder,
  needs: AttemptNeeds,
  end: (reason: EndingReason) => void,
): Kept {
  const { job } = run;
  const input = job.input as CommandInput;
  const open = input.stdin === 'open' || input.tty !== undefined;
  const startedAt = job.startedAt ?? needs.clock.now();
  return {
    attemptId: job.attemptId,
    folder,
    outPath: folder.out,
    wrapper: undefined,
    outputBytesMax: input.outputBytesMax ?? needs.settings.outputBytesMax,
    ring: input.ring ?? false,
    split: input.streams === 'split',
    inputPath: open ? folder.stdin : undefined,
    startedAt,
    deadlineAt: job.timeoutMs === null ? null : startedAt + job.timeoutMs,
    aloneMsMax: run.aloneMsMax,
    memoryPeakBytes: 0,
    waiting: false,
    end,
    onWaiting: (waiting) => {
      const why = waiting ? 'The command reads its input: answer with send_input.' : undefined;
      run.needInput(waiting, why).catch(() => {});
    },
  };
}

async function endOf(
  started: Started,
  { clock }: AttemptNeeds,
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
      'The command could not be started: its wrapper ended first.',
      {
        hint: 'A full disk under the home is the usual cause (`errand doctor`). Nothing ran; retry_job when it is mended.',
      },
    );
  }
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return 'lost';
  const options = { clock, pollMs: adoptedPollMs, signal };
  return (await adoptedEnd(folder, claim.identity, options)) === 'lost' ? 'lost' : 'end';
}

type EndCause = StopReason | EndingReason;

/** Ends what still runs. Voids a wrapper that has not claimed yet; else notes why and kills the tree. */
async function endTree(
  started: Started,
  { id, attemptId }: Job,
  cause: EndCause,
  needs: AttemptNeeds,
): Promise<KillReport | 'voided'> {
  const { folder } = started;
  const { clock, settings } = needs;
  if (folder.voidClaim()) {
    noteEnding(folder, endingOf(cause));
    return 'voided';
  }
  const wrapper = await claimedBy(folder, clock);
  if (!wrapper) return { signalled: 0, forced: false, survivors: [] };
  if (!folder.readExit()) noteEnding(folder, endingOf(cause));
  const wish = cause === 'cancel' ? await needs.cancelGraceMs(id) : undefined;
  const graceMs = cause === 'lost' ? 0 : (wish ?? settings.killGraceMs);
  const impatience = cause === 'cancel' ? impatient(id, needs) : undefined;
  const hurry = impatience ? { hurry: impatience.signal } : {};
  const tree = { wrapper, mark: attemptId, folder: folder.path };
  const report = await killTree(tree, { clock, graceMs, ...hurry });
  impatience?.abort();
  for (let waited = 0; waited < recordMsMax && !folder.readExit(); waited += 20) {
    if (cause === 'lost') break;
    await clock.sleep(20);
  }
  return report;
}

/** Aborts when a later cancel leaves less time than has passed already. */
function impatient(id: string, { clock, cancelGraceMs }: AttemptNeeds): AbortController {
  const enough = new AbortController();
  const begun = clock.now();
  void (async () => {
    while (!enough.signal.aborted) {
      await clock.sleep(impatiencePollMs, enough.signal);
      const granted = await cancelGraceMs(id).catch(() => undefined);
      if (granted !== undefined && clock.now() - begun >= granted) enough.abort();
    }
  })();
  return enough;
}

async function claimedBy(folder: LaunchFolder, clock: Clock): Promise<Identity | undefined> {
  for (let waited = 0; waited < claimMsMax; waited += 50) {
    const claim = folder.readClaim();
    if (claim.state === 'claimed') return claim.identity;
    if (claim.state !== 'unreadable') return undefined;
    await clock.sleep(50);
  }
  return undefined;
}

const endingOf = (cause: EndCause): EndingReason =>
  cause === 'shutdown' || cause === 'lost' ? 'lost' : cause;

async function conclude(
  run: Run,
  folder: LaunchFolder,
  needs: AttemptNeeds,
  kill: KillReport | 'voided' | undefined,
  keep: Kept | undefined,
): Promise<Outcome> {
  const claim = folder.readClaim();
  const wrapper = claim.state === 'claimed' ? claim.identity : undefined;
  if (keep && wrapper) keep.wrapper = wrapper;
  const survivors = typeof kill === 'object' ? kill.survivors : [];
  return outcomeOf({
    job: run.job,
    folder,
    record: folder.readExit(),
    ending: readEnding(folder),
    survivors,
    leftBehind: kill ? [] : await leftBehind(wrapper, run.job.attemptId),
    memoryPeakBytes: keep?.memoryPeakBytes ?? 0,
    startedAt: claim.state === 'claimed' ? claim.at : undefined,
    now: needs.clock.now(),
  });
}

/** Children that outlive a command that ended by itself: told, not killed (`nohup server &` may be meant so). */
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
