// Ending an attempt: a polite signal to every member of its tree, a grace, then SIGKILL in rounds until nobody is
// left; who survives is reported. The wrapper is never signalled: it must live to write the exit record.
import type { Clock } from '../../../runtime/clock.ts';
import { bootId, isAlive, signalProcess } from './identity.ts';
import { identityOf, treeMembers, type ProcessRow, type Tree } from './tree.ts';

export interface KillOptions {
  clock: Clock;
  /** Between the polite signal and SIGKILL. */
  graceMs: number;
  signal?: NodeJS.Signals;
  /** Ends the grace at once (a second cancel, a deadline). */
  hurry?: AbortSignal;
}

export interface KillReport {
  /** How many processes got the polite signal. */
  signalled: number;
  forced: boolean;
  /** Processes that were still there at the end (in an uninterruptible call, or of another user). */
  survivors: number[];
}

const pollMs = 50;
const pollMsAlone = 10;
/** A tree that forks while it is killed may need several rounds; each waits longer. */
const roundsMax = 12;
/** Looks at a tree until everybody in it is stopped. */
const looksMax = 20;

export async function killTree(tree: Tree, options: KillOptions): Promise<KillReport> {
  const { clock, graceMs, signal = 'SIGTERM', hurry } = options;
  const polite = new Politeness(signal);
  let waited = 0;
  let left = await treeMembers(tree);
  polite.ask(left);
  const isOver = () => left.length === 0 && !isAlive(tree.wrapper);
  while (!isOver() && waited < graceMs && !(hurry?.aborted ?? false)) {
    // A wrapper alone has still to start its payload, or only to write its record.
    const alone = left.length === 0;
    const pause = Math.min(alone ? pollMsAlone : pollMs + waited / 4, 500, graceMs - waited);
    await clock.sleep(pause, hurry);
    waited += pause;
    left = await treeMembers(tree);
    polite.ask(left);
  }
  const { signalled } = polite;
  if (isOver()) return { signalled, forced: false, survivors: [] };
  for (let round = 0; round < roundsMax && !isOver(); round++) {
    send(await frozen(tree, left), 'SIGKILL');
    await clock.sleep(Math.min(10 * 2 ** round, 500));
    left = await treeMembers(tree);
  }
  return { signalled, forced: true, survivors: left.map((row) => row.pid) };
}

/** Whoever is stopped does not fork: nobody is killed before all others are held, or the last one would begin anew. */
async function frozen(tree: Tree, members: ProcessRow[]): Promise<ProcessRow[]> {
  const held = new Set<string>();
  let present = members;
  for (let look = 0; look < looksMax; look++) {
    const fresh = present.filter(({ pid, start }) => !held.has(`${pid} ${start}`));
    if (fresh.length === 0) break;
    send(fresh, 'SIGSTOP');
    for (const { pid, start } of fresh) held.add(`${pid} ${start}`);
    present = await treeMembers(tree);
  }
  return present;
}

/** The first signal: once to everybody, also to those who come while the others are leaving. */
class Politeness {
  signalled = 0;
  private readonly signal: NodeJS.Signals;
  private readonly asked = new Set<string>();

  constructor(signal: NodeJS.Signals) {
    this.signal = signal;
  }

  ask(rows: readonly ProcessRow[]): void {
    const fresh = rows.filter(({ pid, start }) => !this.asked.has(`${pid} ${start}`));
    this.signalled += send(fresh, this.signal);
    // A stopped process takes the polite signal only when it goes on.
    if (this.signal !== 'SIGKILL') send(fresh, 'SIGCONT');
    for (const { pid, start } of fresh) this.asked.add(`${pid} ${start}`);
  }
}

function send(rows: readonly ProcessRow[], signal: NodeJS.Signals): number {
  const boot = bootId();
  let sent = 0;
  for (const row of rows) if (signalProcess(identityOf(row, boot), signal)) sent++;
  return sent;
}
