// Ends an attempt: SIGTERM to every process of its tree, a grace period, then SIGKILL in rounds until none is left.
// Survivors are reported. The wrapper is never signalled, because it must write the exit record.
import type { Clock } from '../../../runtime/clock.ts';
import { bootId, isAlive, signalProcess } from '../../../runtime/process-identity.ts';
import { isForkOf } from './proc.ts';
import { identityOf, treeMembers, type ProcessRow, type Tree } from './tree.ts';

interface KillOptions {
  clock: Clock;
  /** Time between the first signal and SIGKILL. */
  graceMs: number;
  signal?: NodeJS.Signals;
  /** Ends the grace period immediately (a second cancel, a deadline). */
  hurry?: AbortSignal;
}

export interface KillReport {
  /** How many processes received the first signal. */
  signalled: number;
  forced: boolean;
  /** Processes that could not be killed (in an uninterruptible system call, or owned by another user). */
  survivors: number[];
}

const pollMs = 50;
const pollMsAlone = 10;
/** A tree that forks while it is killed may need several rounds. Each one waits longer. */
const maxRounds = 12;
/** Maximum snapshots until every process of the tree is stopped. */
const maxLooks = 20;

export async function killTree(tree: Tree, options: KillOptions): Promise<KillReport> {
  const { clock, graceMs, signal = 'SIGTERM', hurry } = options;
  const firstSignal = new FirstSignal(signal, tree.wrapper.pid);
  let waited = 0;
  let left = await treeMembers(tree);
  firstSignal.sendTo(left);
  const isOver = () => left.length === 0 && !isAlive(tree.wrapper);
  while (!isOver() && waited < graceMs && !(hurry?.aborted ?? false)) {
    // A wrapper without other processes is either about to start its payload or about to write its record.
    const alone = left.length === 0;
    const pause = Math.min(alone ? pollMsAlone : pollMs + waited / 4, 500, graceMs - waited);
    await clock.sleep(pause, hurry);
    waited += pause;
    left = await treeMembers(tree);
    firstSignal.sendTo(left);
  }
  const { signalled } = firstSignal;
  if (isOver()) return { signalled, forced: false, survivors: [] };
  for (let round = 0; round < maxRounds && !isOver(); round++) {
    send(await stopAll(tree, left), 'SIGKILL');
    await clock.sleep(Math.min(10 * 2 ** round, 500));
    left = await treeMembers(tree);
  }
  return { signalled, forced: true, survivors: left.map((row) => row.pid) };
}

/** Stops every process before any is killed. A stopped process cannot fork, so no process can restart the others. */
async function stopAll(tree: Tree, members: ProcessRow[]): Promise<ProcessRow[]> {
  const held = new Set<string>();
  let present = members;
  for (let look = 0; look < maxLooks; look++) {
    const fresh = present.filter(({ pid, start }) => !held.has(`${pid} ${start}`));
    if (fresh.length === 0) break;
    send(fresh, 'SIGSTOP');
    for (const { pid, start } of fresh) held.add(`${pid} ${start}`);
    present = await treeMembers(tree);
  }
  return present;
}

/** Sends the first signal once to every program, including those that start while others are exiting. */
class FirstSignal {
  signalled = 0;
  private readonly signal: NodeJS.Signals;
  private readonly wrapperPid: number;
  private readonly signalledIds = new Set<string>();

  constructor(signal: NodeJS.Signals, wrapperPid: number) {
    this.signal = signal;
    this.wrapperPid = wrapperPid;
  }

  sendTo(rows: readonly ProcessRow[]): void {
    const fresh = rows.filter(({ pid, start }) => !this.signalledIds.has(`${pid} ${start}`));
    // A fork of the wrapper loses the signal, so it is signalled again once it runs its own program. Checked before the signal:
    // afterwards it may have started that program without it.
    const started = fresh.filter(({ pid }) => !isForkOf(pid, this.wrapperPid));
    this.signalled += send(fresh, this.signal);
    // A stopped process handles the signal only after it continues.
    if (this.signal !== 'SIGKILL') send(fresh, 'SIGCONT');
    for (const { pid, start } of started) this.signalledIds.add(`${pid} ${start}`);
  }
}

function send(rows: readonly ProcessRow[], signal: NodeJS.Signals): number {
  const boot = bootId();
  let sent = 0;
  for (const row of rows) if (signalProcess(identityOf(row, boot), signal)) sent++;
  return sent;
}
