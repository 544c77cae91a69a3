// The thread pool: a task that ends its thread fails alone, whatever the cause.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { ThreadPool } from '../../src/runtime/thread-pool.ts';

const module = `import { runTasks } from '${new URL('../../src/runtime/thread.ts', import.meta.url).href}';
  runTasks(({ code }) => new Function(code)());`;

test('a task that ends its thread fails alone, and the tasks behind it get a new thread', async (t) => {
  const pool = new ThreadPool<{ code: string }>({
    name: 'test',
    clock: systemClock,
    file: new URL(`data:text/javascript,${encodeURIComponent(module)}`),
    threads: 1,
    memoryMb: 32,
    maxMs: 60_000,
    maxCpuMs: 1000,
  });
  t.after(() => pool.stop());
  const cases: [code: string, ends: object][] = [
    ['process.exit(1)', { reason: 'crash', message: 'ended unexpectedly' }],
    [
      'return new Promise(() => setImmediate(() => { throw new Error("oops") }))',
      { reason: 'crash', message: 'failed: oops' },
    ],
    ['for (;;);', { reason: 'time', message: 'took more than 1000 ms of CPU time' }],
    [
      'const all = []; for (;;) all.push({})',
      { reason: 'memory', message: 'needed more than 32 MB' },
    ],
    ['throw new Error("a secret")', { code: 'internal', message: 'An internal error occurred.' }],
  ];
  await Promise.all(
    cases.map(async ([code, ends]) => {
      const [bad, good] = [pool.run({ code }), pool.run({ code: 'return 6 * 7' })];
      await assert.rejects(bad, ends);
      assert.equal(await good, 42, code);
    }),
  );
  assert.equal(pool.size, 1);
});
