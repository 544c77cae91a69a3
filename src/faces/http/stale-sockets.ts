// Removes sockets that killed servers left behind: only our own names in folders of our own, only when nobody listens.
import { lstatSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** As config-place.ts names them. */
const ownName = /^[0-9a-f]{16}\.sock$/;
const socketsMax = 2000;

/** Answers how many were removed. */
export async function removeStaleSockets(folders: readonly string[]): Promise<number> {
  let removed = 0;
  for (const folder of new Set(folders)) {
    if (!isOwn(folder)) continue;
    for (const name of readdirSync(folder)
      .filter((one) => ownName.test(one))
      .slice(0, socketsMax))
      if (await removeIfStale(join(folder, name))) removed += 1;
  }
  return removed;
}

async function removeIfStale(path: string): Promise<boolean> {
  try {
    if (!lstatSync(path).isSocket() || !(await isDead(path))) return false;
    // A server may take this name right now. Under another name the socket is looked at once more before it goes.
    const aside = `${path}.${process.pid}`;
    renameSync(path, aside);
    if (await isDead(aside)) {
      rmSync(aside, { force: true });
      return true;
    }
    renameSync(aside, path);
  } catch {
    // Somebody else was faster.
  }
  return false;
}

/** Refused means that no process listens; any other failure proves nothing. */
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
