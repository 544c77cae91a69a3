// A folder of a test's own, gone when the test ends.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'errand-t-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

/** A home with these settings in its config.json. */
export function homeWith(t: TestContext, config: object): string {
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  return home;
}
