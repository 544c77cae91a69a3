// The guard's strong arm: node guard-main <commands folder> <grace ms>. Looks at every running attempt once, ends
// those over their limits, turns rings, and exits. The guard starts it only while no server lives.
import { systemClock } from '../../../runtime/clock.ts';
import { noteEnding, type EndingReason } from './ending.ts';
import { LaunchFolder } from './folder.ts';
import { aliveAt, roomBytes } from './guard.ts';
import { isAlive } from './identity.ts';
import { killTree } from './kill.ts';
import { keptBytes, overLimit, readGaps, turnRing } from './limits.ts';
import { Registry, type Registered } from './registry.ts';

const [commandsFolder, grace] = process.argv.slice(2);
const gaps = readGaps(commandsFolder!);
const seenAt = aliveAt(commandsFolder!);

async function enforce(entry: Registered): Promise<void> {
  const folder = new LaunchFolder(entry.folder);
  if (entry.ring && entry.outputBytesMax !== null) await turnRing(folder, entry.outputBytesMax);
  const over = overLimit(entry, systemClock.now(), gaps, seenAt);
  if (over && (entry.left || !folder.readExit())) await end(entry, over.reason);
}

async function end(entry: Registered, reason: EndingReason): Promise<void> {
  const folder = new LaunchFolder(entry.folder);
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return;
  const { attemptId, left } = entry;
  const tree = { wrapper: claim.identity, mark: attemptId, folder: folder.path, groupGone: left };
  if (!left) noteEnding(folder, reason);
  // Another node is about to run it: no time for farewells.
  const graceMs = reason === 'lost' ? 0 : Number(grace);
  await killTree(tree, { clock: systemClock, graceMs });
}

/** Between two looks at who prints. */
const lookMs = 1000;

/** While all together have more than they may: whoever prints most is ended, until nobody prints any more. */
async function keepTotal(): Promise<void> {
  for (;;) {
    const running = entries.filter(isRunning).map((entry) => {
      const folder = new LaunchFolder(entry.folder);
      return { entry, folder, bytes: keptBytes(folder) };
    });
    const sum = running.reduce((total, { bytes }) => total + bytes, 0);
    if (sum <= roomBytes(commandsFolder!)) return;
    await systemClock.sleep(lookMs);
    const grown = running.map((one) => ({ ...one, grown: keptBytes(one.folder) - one.bytes }));
    const loudest = grown.toSorted((a, b) => b.grown - a.grown)[0];
    if (!loudest || loudest.grown <= 0) return;
    await end(loudest.entry, 'totalOutputLimit');
  }
}

function isRunning({ folder: path, left }: Registered): boolean {
  const claim = new LaunchFolder(path).readClaim();
  return !left && claim.state === 'claimed' && isAlive(claim.identity);
}

const entries = new Registry(commandsFolder!).list();
await Promise.allSettled(entries.map((entry) => enforce(entry)));
await keepTotal();
