// Spawns wrappers without blocking the server: a fork copies the page tables of all its memory, which takes milliseconds.
// Bursts of launches go to a small separate process; single launches are made here.
// If that process is killed, its wrappers continue, and their ends are detected like those of adopted wrappers.
import { spawn, type ChildProcess } from 'node:child_process';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { LaunchFolder } from './folder.ts';
import type { LauncherMessage } from './launcher-main.ts';
import { startChild, type SpawnRequest } from './start.ts';
import { waitForAdopted } from './watch.ts';

export interface Launched {
  /** Resolves when the wrapper has exited. */
  ended: Promise<void>;
  pid: number;
}

export interface Starter {
  start(request: SpawnRequest, folder: LaunchFolder): Promise<Launched>;
}

/** This many launches within a second count as a burst. */
const burst = 4;
const burstMs = 1000;
/** The launcher exits after this long without work. */
const idleMs = 30_000;
/** How often wrappers of a killed launcher are checked. */
const orphanPollMs = 500;
const orphanClaimMs = 50;
/** A claim that has no content after this long belongs to a wrapper that died while writing it. */
const maxOrphanClaimMs = 10_000;

interface PendingLaunch {
  folder: LaunchFolder;
  launched(pid: number): void;
  failed(error: Error): void;
  ended(): void;
  pid: number | undefined;
}

export class Launcher implements Starter {
  private readonly clock: Clock;
  private readonly pending = new Map<number, PendingLaunch>();
  private readonly times: number[] = [];
  private process: ChildProcess | undefined;
  private ready = false;
  private lastId = 0;
  private cancelIdle = () => {};
  private readonly stop = new AbortController();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** The pid of the launcher process, while one runs. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /** True if the next launch goes to the launcher process. */
  get isReady(): boolean {
    return this.ready;
  }

  start(request: SpawnRequest, folder: LaunchFolder): Promise<Launched> {
    if (this.isBurst() && !this.process) this.open();
    return this.isReady ? this.send(request, folder) : startHere(request);
  }

  close(): void {
    this.stop.abort('closed');
    this.cancelIdle();
    this.process?.stdin?.end();
  }

  private isBurst(): boolean {
    const now = this.clock.now();
    this.times.push(now);
    if (this.times.length > burst) this.times.shift();
    return this.times.length === burst && now - this.times[0]! < burstMs;
  }

  private send(request: SpawnRequest, folder: LaunchFolder): Promise<Launched> {
    const id = ++this.lastId;
    this.cancelIdle();
    return new Promise((resolve, reject) => {
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      this.pending.set(id, {
        folder,
        pid: undefined,
        launched: (pid) => resolve({ pid, ended }),
        failed: reject,
        ended: end,
      });
      this.process!.stdin!.write(`${JSON.stringify({ id, request })}\n`);
    });
  }

  private open(): void {
    if (this.stop.signal.aborted) return;
    const main = fileURLToPath(
      new URL(`./launcher-main${extname(import.meta.filename)}`, import.meta.url),
    );
    const child = spawn(process.execPath, ['--max-old-space-size=64', main], {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' },
      // Its own session, so that ctrl-c in the server's terminal does not reach it.
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    this.process = child;
    child.once('error', () => this.handleExit(child));
    child.once('exit', () => this.handleExit(child));
    child.stdin.on('error', () => {});
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.handleMessage(JSON.parse(line) as LauncherMessage);
    });
    child.unref();
  }

  private handleMessage(message: LauncherMessage): void {
    if ('ready' in message) {
      this.ready = true;
      return this.startIdleTimer();
    }
    const pending = this.pending.get(message.id);
    if (!pending) return;
    if ('pid' in message) {
      pending.pid = message.pid;
      return pending.launched(message.pid);
    }
    this.pending.delete(message.id);
    this.startIdleTimer();
    if ('ended' in message) pending.ended();
    else
      pending.failed(
        message.where === 'files' ? filesError(message.failed) : startError(message.failed),
      );
  }

  private startIdleTimer(): void {
    if (this.pending.size > 0) return;
    this.cancelIdle();
    this.cancelIdle = this.clock.after(idleMs, () => {
      this.ready = false;
      this.process?.stdin?.end();
    });
  }

  private handleExit(child: ChildProcess): void {
    if (this.process !== child) return;
    this.process = undefined;
    this.ready = false;
    const orphans = [...this.pending.values()];
    this.pending.clear();
    if (this.stop.signal.aborted) return;
    for (const orphan of orphans) this.awaitOrphan(orphan).catch(() => orphan.ended());
  }

  /** The launcher was killed. The claim file shows whether it started this wrapper. */
  private async awaitOrphan(orphan: PendingLaunch): Promise<void> {
    const { folder } = orphan;
    const { clock, stop } = this;
    for (let waited = 0; waited < maxOrphanClaimMs; waited += orphanClaimMs) {
      if (stop.signal.aborted) return;
      const claim = folder.readClaim();
      if (claim.state === 'claimed') {
        orphan.launched(claim.identity.pid);
        const options = { clock, pollMs: orphanPollMs, signal: stop.signal };
        await waitForAdopted(folder, claim.identity, options);
        if (!stop.signal.aborted) orphan.ended();
        return;
      }
      if (claim.state === 'void' || (claim.state === 'none' && folder.voidClaim())) break;
      await clock.sleep(orphanClaimMs, stop.signal);
    }
    orphan.failed(startError('the launcher process was killed'));
    orphan.ended();
  }
}

/** Spawns wrappers in this process. */
export const localStarter: Starter = { start: (request) => startHere(request) };

async function startHere(request: SpawnRequest): Promise<Launched> {
  const child = startChild(request);
  const ended = new Promise<void>((resolve, reject) => {
    child.once('exit', () => resolve());
    child.once('error', (cause: NodeJS.ErrnoException) => {
      reject(startError(cause.code ?? cause.message, cause));
    });
  });
  child.unref();
  if (child.pid === undefined) {
    await ended;
    throw startError('no process was created');
  }
  return { ended, pid: child.pid };
}

/** The error that the system would have reported in this process. */
const filesError = (code: string): Error => Object.assign(new Error(code), { code });

function startError(code: string, cause?: unknown): AppError {
  const why =
    code === 'EACCES'
      ? 'permission denied for the working directory'
      : code === 'EAGAIN' || code === 'ENOMEM'
        ? 'the system cannot create another process'
        : code;
  return new AppError('cannotStart', `The command could not be started: ${why}.`, {
    hint: 'Nothing ran. Fix the cause, then call retry_job.',
    ...(cause === undefined ? {} : { cause }),
  });
}
