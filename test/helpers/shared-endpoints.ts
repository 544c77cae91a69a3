// One server shared by the endpoint tests of a file, because a start costs more than most of these tests. A test that
// stops its server, or that needs settings of its own, starts another one.
import { after, type TestContext } from 'node:test';
import { startEndpoints, type EndpointServer } from './endpoint.ts';

const cleanUps: (() => unknown)[] = [];
const file = { after: (run: () => unknown) => void cleanUps.push(run) } as unknown as TestContext;
after(async () => {
  for (const run of cleanUps) await run();
});

let shared: Promise<EndpointServer> | undefined;

export function sharedEndpoints(): Promise<EndpointServer> {
  shared ??= startEndpoints(file);
  return shared;
}
