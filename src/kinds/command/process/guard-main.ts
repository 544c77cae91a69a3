// Started by the guard: node guard-main <commands folder> <grace ms>. Checks every running attempt once, ends those over
// their limits, trims rings, and exits. It runs only while no server does.
import { systemClock } from '../../../runtime/clock.ts';
import { writeEndReason, type EndReason } from './end-reason.ts';
import { LaunchFolder } from './folder.ts';
import { aliveAt, roomBytes } from './guard.ts';
import { isAlive } from '../../../runtime/process-identity.ts';
import { killTree } from './kill.ts';
import { keptBytes, overLimit, readGaps, trimRing } from './limits.ts';
import { Registry, type Registered } from './registry.ts';

const [commandsFolder, grace] = process.argv.slice(2);
const gaps = readGaps(commandsFolder!);
const seenAt = aliveAt(commandsFolder!);

async function enforce(entry: Registered): Promise<void> {
  const folder = new LaunchFolder(entry.folder);
  if (entry.ring && entry.maxOutputBytes !== null) await trimRing(folder, entry.maxOutputBytes);
  const over = overLimit(entry, systemClock.now(), gaps, seenAt);
  if (over && (entry.isOrphaned || !folder.readExit())) await end(entry, over.reason);
}

async function end(entry: Registered, reason: EndReason): Promise<void> {
  const folder = new LaunchFolder(entry.folder);
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return;
  const { attemptId, isOrphaned } = entry;
  const tree = {
    wrapper: claim.identity,
    mark: attemptId,
    folder: folder.path,
    groupGone: isOrphaned,
  };
  if (!isOrphaned) writeEndReason(folder, reason);
  // Another node is about to run the job, so there is no grace period.
  const graceMs = reason === 'lost' ? 0 : Number(grace);
  await killTree(tree, { clock: systemClock, graceMs });
}

/** Interval for measuring which job prints. */
const measureMs = 1000;

/** While the total limit is exceeded, ends the job that prints the most, until none prints. */
async function enforceTotalLimit(): Promise<void> {
  for (;;) {
    const running = entries.filter(isRunning).map((entry) => {
      const folder = new LaunchFolder(entry.folder);
      return { entry, folder, bytes: keptBytes(folder) };
    });
    const sum = running.reduce((total, { bytes }) => total + bytes, 0);
    if (sum <= roomBytes(commandsFolder!)) return;
    await systemClock.sleep(measureMs);
    const grown = running.map((one) => ({ ...one, grown: keptBytes(one.folder) - one.bytes }));
    const fastest = grown.toSorted((a, b) => b.grown - a.grown)[0];
    if (!fastest || fastest.grown <= 0) return;
    await end(fastest.entry, 'totalOutputLimit');
  }
}

function isRunning({ folder: path, isOrphaned }: Registered): boolean {
  const claim = new LaunchFolder(path).readClaim();
  return !isOrphaned && claim.state === 'claimed' && isAlive(claim.identity);
}

const entries = new Registry(commandsFolder!).list();
await Promise.allSettled(entries.map((entry) => enforce(entry)));
await enforceTotalLimit();
