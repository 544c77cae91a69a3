// Spawns wrappers, without holding up the server: a fork copies the tables of all its memory, milliseconds in which
// nobody is answered. A burst of launches is given to a small process beside it; a launch now and then is made here.
// If that process is killed, its wrappers go on, and their ends are looked for as those of adopted ones.
import { spawn, type ChildProcess } from 'node:child_process';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { LaunchFolder } from './folder.ts';
import type { LauncherAnswer } from './launcher-main.ts';
import { startChild, type Order } from './start.ts';
import { adoptedEnd } from './watch.ts';

export interface Launched {
  /** Resolves when the wrapper is gone. */
  ended: Promise<void>;
  pid: number;
}

export interface Starter {
  start(order: Order, folder: LaunchFolder): Promise<Launched>;
}

/** So many launches within a second are a burst. */
const burst = 4;
const burstMs = 1000;
/** Without work for so long the launcher ends. */
const idleMs = 30_000;
/** How often an orphan of a launcher is looked at. */
const orphanPollMs = 500;
const orphanClaimMs = 50;
/** A claim without content after so long is of a wrapper that died while it wrote it. */
const orphanClaimMsMax = 10_000;

interface Given {
  folder: LaunchFolder;
  launched(pid: number): void;
  refused(error: Error): void;
  ended(): void;
  pid: number | undefined;
}

export class Launcher implements Starter {
  private readonly clock: Clock;
  private readonly given = new Map<number, Given>();
  private readonly times: number[] = [];
  private process: ChildProcess | undefined;
  private ready = false;
  private lastId = 0;
  private cancelIdle = () => {};
  private readonly stop = new AbortController();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** The launcher's process, while there is one. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /** It is up: what is started next is started by it. */
  get takesOrders(): boolean {
    return this.ready;
  }

  start(order: Order, folder: LaunchFolder): Promise<Launched> {
    if (this.isBurst() && !this.process) this.open();
    return this.takesOrders ? this.give(order, folder) : startHere(order);
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

  private give(order: Order, folder: LaunchFolder): Promise<Launched> {
    const id = ++this.lastId;
    this.cancelIdle();
    return new Promise((resolve, reject) => {
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      this.given.set(id, {
        folder,
        pid: undefined,
        launched: (pid) => resolve({ pid, ended }),
        refused: reject,
        ended: end,
      });
      this.process!.stdin!.write(`${JSON.stringify({ id, order })}\n`);
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
      // A session of its own: ctrl-c in the server's terminal is the server's.
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    this.process = child;
    child.once('error', () => this.gone(child));
    child.once('exit', () => this.gone(child));
    child.stdin.on('error', () => {});
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.hear(JSON.parse(line) as LauncherAnswer);
    });
    child.unref();
  }

  private hear(answer: LauncherAnswer): void {
    if ('ready' in answer) {
      this.ready = true;
      return this.rest();
    }
    const given = this.given.get(answer.id);
    if (!given) return;
    if ('pid' in answer) {
      given.pid = answer.pid;
      return given.launched(answer.pid);
    }
    this.given.delete(answer.id);
    this.rest();
    if ('ended' in answer) given.ended();
    else
      given.refused(
        answer.where === 'files' ? filesError(answer.failed) : startError(answer.failed),
      );
  }

  private rest(): void {
    if (this.given.size > 0) return;
    this.cancelIdle();
    this.cancelIdle = this.clock.after(idleMs, () => {
      this.ready = false;
      this.process?.stdin?.end();
    });
  }

  private gone(child: ChildProcess): void {
    if (this.process !== child) return;
    this.process = undefined;
    this.ready = false;
    const orphans = [...this.given.values()];
    this.given.clear();
    if (this.stop.signal.aborted) return;
    for (const orphan of orphans) this.follow(orphan).catch(() => orphan.ended());
  }

  /** The launcher was killed: whether this wrapper was started is for its claim to say. */
  private async follow(orphan: Given): Promise<void> {
    const { folder } = orphan;
    const { clock, stop } = this;
    for (let waited = 0; waited < orphanClaimMsMax; waited += orphanClaimMs) {
      if (stop.signal.aborted) return;
      const claim = folder.readClaim();
      if (claim.state === 'claimed') {
        orphan.launched(claim.identity.pid);
        const options = { clock, pollMs: orphanPollMs, signal: stop.signal };
        await adoptedEnd(folder, claim.identity, options);
        if (!stop.signal.aborted) orphan.ended();
        return;
      }
      if (claim.state === 'void' || (claim.state === 'none' && folder.voidClaim())) break;
      await clock.sleep(orphanClaimMs, stop.signal);
    }
    orphan.refused(startError('its launcher was killed'));
    orphan.ended();
  }
}

/** Spawns in this process. */
export const here: Starter = { start: (order) => startHere(order) };

async function startHere(order: Order): Promise<Launched> {
  const child = startChild(order);
  const ended = new Promise<void>((resolve, reject) => {
    child.once('exit', () => resolve());
    child.once('error', (cause: NodeJS.ErrnoException) => {
      reject(startError(cause.code ?? cause.message, cause));
    });
  });
  child.unref();
  if (child.pid === undefined) {
    await ended;
    throw startError('it has no process');
  }
  return { ended, pid: child.pid };
}

/** As the system would have said it here. */
const filesError = (code: string): Error => Object.assign(new Error(code), { code });

function startError(code: string, cause?: unknown): AppError {
  const why =
    code === 'EACCES'
      ? 'no permission to enter its working directory'
      : code === 'EAGAIN' || code === 'ENOMEM'
        ? 'the system has no room for another process'
        : code;
  return new AppError('cannotStart', `The command could not be started: ${why}.`, {
    hint: 'Nothing ran. Fix the cause, then retry_job.',
    ...(cause === undefined ? {} : { cause }),
  });
}
