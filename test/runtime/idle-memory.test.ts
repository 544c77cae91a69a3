// Memory is returned to the system only when the process is idle.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collectGarbage, IdleMemory, processUsage } from '../../src/runtime/idle-memory.ts';

const mb = 1024 * 1024;

test('memory is collected after five idle seconds, and again only after the heap has grown', () => {
  const usage = { cpuMs: 0, heapBytes: 60 * mb };
  let collected = 0;
  const memory = new IdleMemory(
    () => ({ ...usage }),
    () => {
      collected += 1;
      usage.heapBytes = 30 * mb;
    },
  );
  let now = 0;
  const pass = (seconds: number, cpuMsEach: number) => {
    for (let second = 0; second < seconds; second++) {
      usage.cpuMs += cpuMsEach;
      memory.sample((now += 1000));
    }
  };
  pass(20, 500);
  assert.equal(collected, 0, 'busy');
  pass(4, 5);
  assert.equal(collected, 0, 'a short pause');
  pass(1, 5);
  assert.equal(collected, 1);
  pass(60, 5);
  assert.equal(collected, 1, 'nothing new to collect');
  usage.heapBytes = 45 * mb;
  pass(5, 5);
  assert.equal(collected, 2);
});

test('a collection shrinks the heap of this process', () => {
  let garbage: unknown[] | undefined = Array.from({ length: 400_000 }, (_, i) => ({ i }));
  const before = processUsage().heapBytes;
  assert.equal(garbage.length, 400_000);
  garbage = undefined;
  collectGarbage();
  assert.ok(processUsage().heapBytes < before - 5 * mb);
  assert.equal('gc' in globalThis, false);
});
