// The only folder that stays after a test run: programs that are expensive to unpack. Its name is fixed per user, because
// files of another user cannot be trusted.
import { mkdirSync } from 'node:fs';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { tmpdir } from 'node:os';

/** The parent of the run's temp folder if scripts/test.ts started this process. */
const base = process.env.ERRAND_TEST_RUN ? dirname(process.env.ERRAND_TEST_RUN) : tmpdir();

/** Returns the path of `name` in the cache. `create` fills it if missing. Safe for concurrent processes. */
export async function cached(name: string, create: (folder: string) => unknown): Promise<string> {
  const cache = join(base, `errand-test-cache-${process.getuid?.() ?? 0}`);
  const path = join(cache, name);
  if (existsSync(path)) return path;
  const unfinished = `${path}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true, mode: 0o755 });
  try {
    await create(unfinished);
    renameSync(unfinished, path);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(path)) throw error;
  }
  return path;
}
