// One loop over all running commands of this server: the heartbeat the guard looks for, output caps and rings, and
// what the kernel says about each (memory, whether it waits for input). Its cost is bounded by its own measure.
import { systemClock, type Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Loop, type Service } from '../../runtime/service.ts';
import type { EndingReason } from './process/ending.ts';
import { LaunchFolder } from './process/folder.ts';
import { Leftovers, type Capped } from './leftovers.ts';
import { Guard } from './process/guard.ts';
import { Launcher } from './process/launcher.ts';
import type { Identity } from './process/identity.ts';
import { asleepMs, droppedBytes, keptBytes, readGaps, sizeOf, turnRing } from './process/limits.ts';
import { memoryPeak, waitingForInput } from './process/observe.ts';
import { Registry } from './process/registry.ts';
import { snapshot } from './process/tree.ts';
import type { CommandSettings } from './settings.ts';
import type { History } from './store.ts';

export interface Kept {
  attemptId: string;
  folder: LaunchFolder;
  /** `folder.out`, joined once. */
  outPath: string;
  /** Known once the wrapper has claimed. */
  wrapper: Identity | undefined;
  outputBytesMax: number;
  ring: boolean;
  /** Its streams are two files. */
  split: boolean;
  /** It has an input that somebody can write to. */
  inputPath: string | undefined;
  startedAt: number;
  deadlineAt: number | null;
  /** In a cluster: ended by the guard when the server is away for longer, because another node may run it by then. */
  aloneMsMax: number | null;
  memoryPeakBytes: number;
  waiting: boolean;
  /** Ends the attempt for this reason. */
  end(reason: EndingReason): void;
  /** Called when it begins or stops to wait for input. */
  onWaiting(waiting: boolean): void;
}

export interface KeeperOptions {
  folder: string;
  settings: CommandSettings;
  clock: Clock;
  log: Log;
  history: History;
}

/** Looking at processes may take this share of a core, however many there are. */
const lookShare = 1 / 400;
/** But a job that may wait for input is looked at so often. */
const lookMsMax = 10_000;
const beatMs = 5000;
const freshMs = 1000;
/** Long enough for a start to adopt everything. */
const litterMs = 120_000;

export class Keeper implements Service {
  readonly name = 'commands';
  readonly registry: Registry;
  readonly launcher: Launcher;
  private readonly options: KeeperOptions;
  private readonly guard: Guard;
  private readonly leftovers: Leftovers;
  private readonly kept = new Map<string, Kept>();
  private readonly loop: Loop;
  private lookAt = 0;
  private beatAt = 0;
  /** When there last was a heartbeat and a guard. */
  private guardedAt = 0;
  private litterAt = 0;
  private endedBytes = 0;
  private runningBytes = 0;
  /** Of each at the last look. */
  private readonly seenBytes = new WeakMap<Capped, number>();

  constructor(options: KeeperOptions) {
    this.options = options;
    const { settings, folder, clock, log } = options;
    this.registry = new Registry(folder);
    this.launcher = new Launcher(clock);
    this.leftovers = new Leftovers({
      registry: this.registry,
      clock,
      log,
      graceMs: settings.killGraceMs,
      gone: (attemptId, bytes, grown) => {
        this.endedBytes += grown;
        this.noLongerRunning(grown);
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
      run: () => this.turn(),
    });
  }

  async start(): Promise<void> {
    this.litterAt = this.options.clock.now() + litterMs;
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

  add(kept: Kept): void {
    this.kept.set(kept.attemptId, kept);
    if (kept.inputPath !== undefined)
      this.lookAt = Math.min(this.lookAt, this.options.clock.now() + lookMsMax);
    // The guard must know the limits before the payload can pass them.
    const { deadlineAt } = kept;
    this.registry.add({
      attemptId: kept.attemptId,
      folder: kept.folder.path,
      deadlineAt: deadlineAt === null ? null : this.machineTime(deadlineAt),
      aloneMsMax: kept.aloneMsMax,
      outputBytesMax: kept.outputBytesMax,
      ring: kept.ring,
      left: false,
      registeredAt: this.machineTime(kept.startedAt),
    });
    // The first one needs a guard and a heartbeat now; when commands come and go, the last ones are still fresh.
    const { clock } = this.options;
    if (this.kept.size === 1 && clock.now() - this.guardedAt >= freshMs) this.beat();
  }

  /** A server that only stops leaves the attempt in the registry: the guard goes on with it. */
  remove(attemptId: string, over: boolean): void {
    const kept = this.kept.get(attemptId);
    if (!over) return;
    this.kept.delete(attemptId);
    this.registry.remove(attemptId);
    if (!kept) return;
    const bytes = keptBytes(kept.folder);
    this.endedBytes += bytes;
    this.noLongerRunning(this.seenBytes.get(kept) ?? 0);
    this.leftovers.add(kept, bytes);
  }

  /** Output that is counted as ended must not count as running until the next check, too. */
  private noLongerRunning(bytes: number): void {
    this.runningBytes = Math.max(this.runningBytes - bytes, 0);
  }

  find(attemptId: string): Kept | undefined {
    return this.kept.get(attemptId);
  }

  /** Output on record of all jobs, ended and running. */
  get totalBytes(): number {
    return this.endedBytes + this.runningBytes;
  }

  /** Time since then in which the machine slept, as the guard noticed it. */
  asleepMs(since: number): number {
    return asleepMs(readGaps(this.options.folder), this.machineTime(since));
  }

  /** Of those that are over. */
  get bytesOfEnded(): number {
    return this.endedBytes;
  }

  forgotBytes(bytes: number): void {
    this.endedBytes = Math.max(this.endedBytes - bytes, 0);
  }

  private get anythingRuns(): boolean {
    return this.kept.size > 0 || this.leftovers.size > 0;
  }

  private async turn(): Promise<void> {
    if (this.options.clock.now() >= this.beatAt) this.beat();
    await this.options.history.flush();
    this.forgetLitter();
    await this.checkCaps();
    if (this.options.clock.now() >= this.lookAt) await this.look();
  }

  private beat(): void {
    const now = this.options.clock.now();
    const room = this.options.settings.outputTotalBytesMax - this.endedBytes;
    this.guard.beat(this.machineTime(now), Math.max(room, 0));
    this.beatAt = now + beatMs;
    if (!this.anythingRuns) return;
    this.guard.ensure();
    this.guardedAt = now;
  }

  /** The guard knows this machine's clock only; in a cluster ours is the database's. */
  private machineTime(at: number): number {
    return at - this.options.clock.now() + systemClock.now();
  }

  private async checkCaps(): Promise<void> {
    let sum = 0;
    let loudest: { kept: Capped; grown: number } | undefined;
    for (const kept of [...this.kept.values(), ...this.leftovers.values()]) {
      // One look at one file for most: with a thousand jobs this is what an idle server does.
      let bytes = sizeOf(kept.outPath) + (kept.split ? sizeOf(kept.folder.err) : 0);
      if (bytes > kept.outputBytesMax) {
        if (kept.ring) await turnRing(kept.folder, kept.outputBytesMax);
        else kept.end('outputLimit');
      }
      if (kept.ring) bytes -= droppedBytes(kept.folder);
      const before = 'bytesBefore' in kept ? kept.bytesBefore : 0;
      const grown = bytes - (this.seenBytes.get(kept) ?? before);
      this.seenBytes.set(kept, bytes);
      sum += Math.max(bytes - before, 0);
      if (grown > (loudest?.grown ?? 0)) loudest = { kept, grown };
    }
    this.runningBytes = sum;
    // Ending one frees nothing (its log stays), so only somebody who still prints is ended.
    if (this.totalBytes > this.options.settings.outputTotalBytesMax)
      loudest?.kept.end('totalOutputLimit');
  }

  private async look(): Promise<void> {
    const { clock } = this.options;
    if (process.platform !== 'linux' || !(this.kept.size > 0 || this.leftovers.asks)) return;
    const started = clock.now();
    const used = process.cpuUsage();
    const ended = this.leftovers.takeEnded();
    const now = await snapshot();
    this.leftovers.look(now, ended);
    let asked = false;
    for (const kept of this.kept.values()) {
      kept.wrapper ??= identityIn(kept.folder);
      if (!kept.wrapper) continue;
      const members = now.relatives(kept.wrapper);
      kept.memoryPeakBytes = Math.max(kept.memoryPeakBytes, memoryPeak(members));
      if (kept.inputPath === undefined) continue;
      asked = true;
      const waiting = waitingForInput(members, kept.inputPath) === true;
      if (waiting === kept.waiting) continue;
      kept.waiting = waiting;
      kept.onWaiting(waiting);
    }
    // By CPU time: on a busy machine a cheap look may take long.
    const { user, system } = process.cpuUsage(used);
    const cost = Math.max((user + system) / 1000, 1);
    this.lookAt = started + Math.min(cost / lookShare, asked ? lookMsMax : Infinity);
  }

  /** This server knows all that runs: an entry of anything else is litter of a crash. */
  private forgetLitter(): void {
    const { clock } = this.options;
    if (clock.now() < this.litterAt) return;
    this.litterAt = clock.now() + litterMs;
    this.registry.keepOnly((id) => this.kept.has(id) || this.leftovers.has(id));
  }
}

function identityIn(folder: LaunchFolder): Identity | undefined {
  const claim = folder.readClaim();
  return claim.state === 'claimed' ? claim.identity : undefined;
}
