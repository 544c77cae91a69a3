// Removes socket files that killed servers left behind: only our own file names, only in our own folders, and only when no
// process listens.
import { lstatSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** The names that config-place.ts generates. */
const ownName = /^[0-9a-f]{16}\.sock$/;
const maxSockets = 2000;

/** Returns how many were removed. */
export async function removeStaleSockets(folders: readonly string[]): Promise<number> {
  let removed = 0;
  for (const folder of new Set(folders)) {
    if (!isOwn(folder)) continue;
    for (const name of readdirSync(folder)
      .filter((one) => ownName.test(one))
      .slice(0, maxSockets))
      if (await removeIfStale(join(folder, name))) removed += 1;
  }
  return removed;
}

async function removeIfStale(path: string): Promise<boolean> {
  try {
    if (!lstatSync(path).isSocket() || !(await isDead(path))) return false;
    // A server may start using this name right now, so the socket is renamed and checked again before it is removed.
    const aside = `${path}.${process.pid}`;
    renameSync(path, aside);
    if (await isDead(aside)) {
      rmSync(aside, { force: true });
      return true;
    }
    renameSync(aside, path);
  } catch {
    // Another process was faster.
  }
  return false;
}

/** ECONNREFUSED means that no process listens; any other failure proves nothing. */
function isDead(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => (socket.destroy(), resolve(false)));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
}

function isOwn(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  return found.uid === process.getuid?.() && (found.mode & 0o022) === 0;
}
