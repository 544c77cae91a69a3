// A disk so small that it is soon full: a tmpfs of the test's own, gone when the test ends.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Undefined where this user may not mount: the test is skipped then. */
export function smallDisk(t: TestContext, size: string): string | undefined {
  const root = mkdtempSync(join(tmpdir(), 'errand-small-'));
  const options = ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', root];
  let mounted = true;
  try {
    execFileSync('mount', options, { stdio: 'ignore' });
  } catch {
    mounted = false;
    t.skip('no right to mount a small tmpfs here');
  }
  t.after(() => {
    // Lazily: a server of the test may still be there.
    if (mounted) execFileSync('umount', ['-l', root]);
    rmSync(root, { recursive: true, force: true });
  });
  return mounted ? root : undefined;
}
