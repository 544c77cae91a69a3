// One server shared by the tests of a file, because a start costs more than most of these tests. A test that stops its
// server, or that lists or limits all jobs, starts its own.
import { after, type TestContext } from 'node:test';
import { homeWith } from './folder.ts';
import { startServer, type TestServer } from './server.ts';

const cleanUps: (() => unknown)[] = [];
const file = { after: (run: () => unknown) => void cleanUps.push(run) } as unknown as TestContext;
after(async () => {
  for (const run of cleanUps.toReversed()) await run();
});

let shared: Promise<TestServer> | undefined;

/** The settings of the first call hold. */
export function sharedServer(settings: Record<string, unknown> = {}): Promise<TestServer> {
  shared ??= startServer(file, { home: homeWith(file, settings) });
  return shared;
}
