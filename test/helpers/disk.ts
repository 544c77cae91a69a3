// A small disk that fills up quickly: a tmpfs that is unmounted when the test ends.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Returns undefined and skips the test if this user may not mount. */
export function smallDisk(t: TestContext, size: string): string | undefined {
  const root = mkdtempSync(join(tmpdir(), 'errand-small-'));
  const options = ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', root];
  let mounted = true;
  try {
    execFileSync('mount', options, { stdio: 'ignore' });
  } catch {
    mounted = false;
    t.skip('not permitted to mount a small tmpfs here');
  }
  t.after(() => {
    // Unmount lazily, because a server of the test may still be running.
    if (mounted) execFileSync('umount', ['-l', root]);
    rmSync(root, { recursive: true, force: true });
  });
  return mounted ? root : undefined;
}
