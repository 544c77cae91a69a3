// The scaling rule alone, without processes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  startDelayMs,
  workersWanted,
  type Load,
} from '../../../../src/kinds/endpoint/workers/scaling.ts';
import { endpointSpec } from '../../../../src/kinds/endpoint/spec.ts';

const calm: Load = {
  queued: 0,
  running: 0,
  oldestWaitMs: 0,
  workers: 0,
  starting: 0,
  sinceStartMs: 1e9,
};

test('QUEUE_DELAY starts one worker from zero, then one at a time up to the maximum', () => {
  const spec = endpointSpec.parse({
    scaling: { type: 'QUEUE_DELAY', queueDelay: 2 },
    maxWorkers: 2,
  });
  assert.equal(workersWanted(spec, calm), 0);
  assert.equal(workersWanted(spec, { ...calm, queued: 9 }), 1);
  const busy = { ...calm, queued: 9, workers: 1, running: 1, oldestWaitMs: 2500 };
  assert.equal(workersWanted(spec, busy), 2);
  assert.equal(
    workersWanted(spec, { ...busy, starting: 1 }),
    1,
    'the starting worker may be sufficient',
  );
  assert.equal(workersWanted(spec, { ...busy, sinceStartMs: 100 }), 1, 'no flapping');
  assert.equal(workersWanted(spec, { ...busy, workers: 2 }), 2);
});

test('REQUEST_COUNT divides jobs by the count, and only idle time scales down', () => {
  const scaling = { type: 'REQUEST_COUNT', requestCount: 4 };
  const spec = endpointSpec.parse({ scaling, minWorkers: 1, maxWorkers: 5 });
  assert.equal(workersWanted(spec, calm), 1);
  assert.equal(workersWanted(spec, { ...calm, queued: 8, running: 1, workers: 1 }), 3);
  assert.equal(workersWanted(spec, { ...calm, queued: 100, workers: 1 }), 5);
  assert.equal(workersWanted(spec, { ...calm, workers: 3 }), 3);
});

test('the delay after failed starts grows to a minute', () => {
  assert.deepEqual([0, 1, 2, 3].map(startDelayMs), [0, 500, 1000, 2000]);
  assert.equal(startDelayMs(20), 60_000);
});
