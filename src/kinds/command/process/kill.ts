// Ending an attempt: a polite signal to every member of its tree, a grace, then SIGKILL in rounds until nobody is
// left; who survives is reported. The wrapper is never signalled: it must live to write the exit record.
import type { Clock } from '../../../runtime/clock.ts';
import { bootId, signalProcess } from './identity.ts';
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
  /** How many processes got the first signal. */
  signalled: number;
  forced: boolean;
  /** Processes that were still there at the end (in an uninterruptible call, or of another user). */
  survivors: number[];
}

const pollMs = 50;
/** A tree that forks while it is killed needs several rounds; each waits longer. */
const roundsMax = 12;

export async function killTree(tree: Tree, options: KillOptions): Promise<KillReport> {
  const { clock, graceMs, signal = 'SIGTERM', hurry } = options;
  const first = await treeMembers(tree);
  const signalled = send(first, signal);
  // A stopped process takes the polite signal only when it goes on.
  if (signal !== 'SIGKILL') send(first, 'SIGCONT');
  let waited = 0;
  let left = first;
  const hurried = () => hurry?.aborted ?? false;
  while (left.length > 0 && waited < graceMs && !hurried()) {
    const pause = Math.min(pollMs + waited / 4, 500, graceMs - waited);
    await clock.sleep(pause, hurry);
    waited += pause;
    left = await treeMembers(tree);
  }
  if (left.length === 0) return { signalled, forced: false, survivors: [] };
  for (let round = 0; round < roundsMax && left.length > 0; round++) {
    send(left, 'SIGKILL');
    await clock.sleep(Math.min(10 * 2 ** round, 500));
    left = await treeMembers(tree);
  }
  return { signalled, forced: true, survivors: left.map((row) => row.pid) };
}

function send(rows: readonly ProcessRow[], signal: NodeJS.Signals): number {
  const boot = bootId();
  let sent = 0;
  for (const row of rows) if (signalProcess(identityOf(row, boot), signal)) sent++;
  return sent;
}
