// `npm run test:deep` runs the same files with larger counts and repetitions that rarely find more.
import { test } from 'node:test';

export const isDeep = process.env.ERRAND_TEST_DEEP === '1';

/** Imports the test files in a deep run. In `npm test` each is listed as not run, with the reason. */
export async function importInDeepRun(
  files: Record<string, () => Promise<unknown>>,
): Promise<void> {
  for (const [name, load] of Object.entries(files)) {
    if (isDeep) await load();
    else test(`${name} on PostgreSQL`, { skip: 'the same tests ran on SQLite; runs in test:deep' });
  }
}
