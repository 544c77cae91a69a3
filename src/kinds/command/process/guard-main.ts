// The guard's strong arm: node guard-main <commands folder> <grace ms>. Looks at every running attempt once, ends
// those over their limits, turns rings, and exits. The guard starts it only while no server lives.
import { systemClock } from '../../../runtime/clock.ts';
import { noteEnding } from './ending.ts';
import { LaunchFolder } from './folder.ts';
import { aliveAt } from './guard.ts';
import { killTree } from './kill.ts';
import { overLimit, readGaps, turnRing } from './limits.ts';
import { Registry, type Registered } from './registry.ts';

const [commandsFolder, grace] = process.argv.slice(2);
const gaps = readGaps(commandsFolder!);
const seenAt = aliveAt(commandsFolder!);

async function enforce(entry: Registered): Promise<void> {
  const folder = new LaunchFolder(entry.folder);
  if (entry.ring && entry.outputBytesMax !== null) await turnRing(folder, entry.outputBytesMax);
  const over = overLimit(entry, systemClock.now(), gaps, seenAt);
  if (!over || folder.readExit()) return;
  const claim = folder.readClaim();
  if (claim.state !== 'claimed') return;
  noteEnding(folder, over.reason);
  const tree = { wrapper: claim.identity, mark: entry.attemptId, folder: folder.path };
  // Another node is about to run it: no time for farewells.
  const graceMs = over.reason === 'lost' ? 0 : Number(grace);
  await killTree(tree, { clock: systemClock, graceMs });
}

const entries = new Registry(commandsFolder!).list();
await Promise.allSettled(entries.map((entry) => enforce(entry)));
