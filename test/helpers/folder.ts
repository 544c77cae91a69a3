// A folder of a test's own, gone when the test ends.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'errand-t-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}
