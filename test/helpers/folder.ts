// A folder for one test, removed when the test ends.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Also removes what an aborted test or a program that is still writing leaves behind. */
const remaining = new Set<string>();
process.once('exit', () => remaining.forEach(remove));

export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'errand-t-'));
  remaining.add(folder);
  t.after(() => remove(folder));
  return folder;
}

/** A home with these settings in its config.json. */
export function homeWith(t: TestContext, config: object): string {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  return home;
}

function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}
