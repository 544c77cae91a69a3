// Monitors all running commands of this server in one loop: writes the heartbeat for the guard, enforces output limits,
// and samples memory and whether a command waits for input. The loop limits its own CPU use.
import { systemClock, type Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import { LaunchFolder } from './process/folder.ts';
import { OrphanedProcesses, type LimitedAttempt } from './orphaned-processes.ts';
import { Guard } from './process/guard.ts';
import { Launcher } from './process/launcher.ts';
import type { Identity } from '../../runtime/process-identity.ts';
import { asleepMs, droppedBytes, keptBytes, readGaps, sizeOf, trimRing } from './process/limits.ts';
import { memoryPeak, waitingForInput } from './process/observe.ts';
import { Registry } from './process/registry.ts';
import { snapshot } from './process/tree.ts';
import type { CommandSettings } from './settings.ts';
import type { History } from './store/history.ts';
import type { MonitoredAttempt } from './monitored-attempt.ts';

interface AttemptMonitorOptions {
  folder: string;
  settings: CommandSettings;
  clock: Clock;
  log: Log;
  history: History;
}

/** Inspecting processes may use this share of a core, regardless of how many there are. */
const inspectionShare = 1 / 400;
/** Maximum interval between inspections if a job may wait for input. */
const maxInspectionMs = 10_000;
const beatMs = 5000;
const freshMs = 1000;
/** Long enough for a starting server to adopt every attempt. */
const staleEntriesMs = 120_000;

export class AttemptMonitor implements Service {
  readonly name = 'commands';
  readonly registry: Registry;
  readonly launcher: Launcher;
  private readonly options: AttemptMonitorOptions;
  private readonly guard: Guard;
  private readonly orphans: OrphanedProcesses;
  private readonly attempts = new Map<string, MonitoredAttempt>();
  private readonly loop: Loop;
  private inspectAt = 0;
  private beatAt = 0;
  /** When the heartbeat was last written with a guard running. */
  private guardedAt = 0;
  private staleEntriesAt = 0;
  private endedBytes = 0;
  private runningBytes = 0;
  /** Output size of each attempt at the last check. */
  private readonly seenBytes = new WeakMap<LimitedAttempt, number>();

  constructor(options: AttemptMonitorOptions) {
    this.options = options;
    const { settings, folder, clock, log } = options;
    this.registry = new Registry(folder);
    this.launcher = new Launcher(clock);
    this.orphans = new OrphanedProcesses({
      registry: this.registry,
      clock,
      log,
      graceMs: settings.killGraceMs,
      onExit: (attemptId, bytes, grown) => {
        this.endedBytes += grown;
        this.subtractRunningBytes(grown);
        if (grown > 0) options.history.resize(attemptId, bytes);
      },
    });
    this.guard = new Guard(folder, {
      everySeconds: settings.guardSeconds,
      staleSeconds: settings.staleSeconds,
      graceMs: settings.killGraceMs,
    });
    this.loop = new Loop({
      name: this.name,
      everyMs: settings.checkMs,
      clock,
      log,
      run: () => this.check(),
    });
  }

  async start(): Promise<void> {
    this.staleEntriesAt = this.options.clock.now() + staleEntriesMs;
    this.endedBytes = await this.options.history.bytes();
    await this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
    this.launcher.close();
    await this.options.history.flush();
    this.registry.close();
    this.guard.release(this.anythingRuns);
  }

  add(attempt: MonitoredAttempt): void {
    this.attempts.set(attempt.attemptId, attempt);
    if (attempt.inputPath !== undefined)
      this.inspectAt = Math.min(this.inspectAt, this.options.clock.now() + maxInspectionMs);
    // The guard must know the limits before the payload can exceed them.
    const { deadlineAt } = attempt;
    this.registry.add({
      attemptId: attempt.attemptId,
      folder: attempt.folder.path,
      deadlineAt: deadlineAt === null ? null : this.machineTime(deadlineAt),
      maxAloneMs: attempt.maxAloneMs,
      maxOutputBytes: attempt.maxOutputBytes,
      ring: attempt.ring,
      isOrphaned: false,
      registeredAt: this.machineTime(attempt.startedAt),
    });
    // The first attempt needs a guard and a heartbeat now. If commands start frequently, the previous ones are still fresh.
    const { clock } = this.options;
    if (this.attempts.size === 1 && clock.now() - this.guardedAt >= freshMs) this.beat();
  }

  /** If the server only stops, the attempt stays in the registry and the guard takes over. */
  remove(attemptId: string, hasEnded: boolean): void {
    const attempt = this.attempts.get(attemptId);
    if (!hasEnded) return;
    this.attempts.delete(attemptId);
    this.registry.remove(attemptId);
    if (!attempt) return;
    const bytes = keptBytes(attempt.folder);
    this.endedBytes += bytes;
    this.subtractRunningBytes(this.seenBytes.get(attempt) ?? 0);
    this.orphans.add(attempt, bytes);
  }

  /** Output that now counts as ended must not also count as running until the next check. */
  private subtractRunningBytes(bytes: number): void {
    this.runningBytes = Math.max(this.runningBytes - bytes, 0);
  }

  find(attemptId: string): MonitoredAttempt | undefined {
    return this.attempts.get(attemptId);
  }

  /** Output size of all jobs, ended and running. */
  get totalBytes(): number {
    return this.endedBytes + this.runningBytes;
  }

  /** How long the machine slept since then, as recorded by the guard. */
  asleepMs(since: number): number {
    return asleepMs(readGaps(this.options.folder), this.machineTime(since));
  }

  /** Output size of ended jobs. */
  get endedOutputBytes(): number {
    return this.endedBytes;
  }

  subtractEndedBytes(bytes: number): void {
    this.endedBytes = Math.max(this.endedBytes - bytes, 0);
  }

  private get anythingRuns(): boolean {
    return this.attempts.size > 0 || this.orphans.size > 0;
  }

  private async check(): Promise<void> {
    if (this.options.clock.now() >= this.beatAt) this.beat();
    await this.options.history.flush();
    this.removeStaleEntries();
    await this.enforceOutputLimits();
    if (this.options.clock.now() >= this.inspectAt) await this.inspectProcesses();
  }

  private beat(): void {
    const now = this.options.clock.now();
    const remaining = this.options.settings.maxOutputTotalBytes - this.endedBytes;
    this.guard.beat(this.machineTime(now), Math.max(remaining, 0));
    this.beatAt = now + beatMs;
    if (!this.anythingRuns) return;
    this.guard.ensure();
    this.guardedAt = now;
  }

  /** The guard uses this machine's clock. In a cluster, `clock` is the database's. */
  private machineTime(at: number): number {
    return at - this.options.clock.now() + systemClock.now();
  }

  private async enforceOutputLimits(): Promise<void> {
    let sum = 0;
    let largest: { attempt: LimitedAttempt; grown: number } | undefined;
    for (const attempt of [...this.attempts.values(), ...this.orphans.values()]) {
      // One file check for most jobs: with a thousand jobs, this is what an idle server does.
      let bytes = sizeOf(attempt.outPath) + (attempt.split ? sizeOf(attempt.folder.err) : 0);
      if (bytes > attempt.maxOutputBytes) {
        if (attempt.ring) await trimRing(attempt.folder, attempt.maxOutputBytes);
        else attempt.end('outputLimit');
      }
      if (attempt.ring) bytes -= droppedBytes(attempt.folder);
      const before = 'bytesBefore' in attempt ? attempt.bytesBefore : 0;
      const grown = bytes - (this.seenBytes.get(attempt) ?? before);
      this.seenBytes.set(attempt, bytes);
      sum += Math.max(bytes - before, 0);
      if (grown > (largest?.grown ?? 0)) largest = { attempt, grown };
    }
    this.runningBytes = sum;
    // Ending a job frees nothing, because its log stays. So only a job that still prints is ended.
    if (this.totalBytes > this.options.settings.maxOutputTotalBytes)
      largest?.attempt.end('totalOutputLimit');
  }

  private async inspectProcesses(): Promise<void> {
    const { clock } = this.options;
    if (process.platform !== 'linux' || !(this.attempts.size > 0 || this.orphans.needsSnapshot))
      return;
    const started = clock.now();
    const used = process.cpuUsage();
    const unsearched = this.orphans.takeUnsearched();
    const now = await snapshot();
    this.orphans.update(now, unsearched);
    let anyInput = false;
    for (const attempt of this.attempts.values()) {
      attempt.wrapper ??= identityIn(attempt.folder);
      if (!attempt.wrapper) continue;
      const members = now.relatives(attempt.wrapper);
      attempt.memoryPeakBytes = Math.max(attempt.memoryPeakBytes, memoryPeak(members));
      if (attempt.inputPath === undefined) continue;
      anyInput = true;
      const waiting = waitingForInput(members, attempt.inputPath) === true;
      if (waiting === attempt.waiting) continue;
      attempt.waiting = waiting;
      attempt.onWaiting(waiting);
    }
    // Measured as CPU time, because on a busy machine a cheap inspection may take long.
    const { user, system } = process.cpuUsage(used);
    const cost = Math.max((user + system) / 1000, 1);
    this.inspectAt =
      started + Math.min(cost / inspectionShare, anyInput ? maxInspectionMs : Infinity);
  }

  /** This server knows every running attempt. Other entries were left by a crash. */
  private removeStaleEntries(): void {
    const { clock } = this.options;
    if (clock.now() < this.staleEntriesAt) return;
    this.staleEntriesAt = clock.now() + staleEntriesMs;
    this.registry.keepOnly((id) => this.attempts.has(id) || this.orphans.has(id));
  }
}

function identityIn(folder: LaunchFolder): Identity | undefined {
  const claim = folder.readClaim();
  return claim.state === 'claimed' ? claim.identity : undefined;
}
