// How the runner stops attempts: a stuck attempt is abandoned, and one that stops leaves no timer behind.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Kind } from '../../src/jobs/kind.ts';
import { Runner } from '../../src/jobs/runner.ts';
import { systemClock, type Clock } from '../../src/runtime/clock.ts';
import { silentLog } from '../../src/runtime/log.ts';
import { createCore, toyKind } from '../helpers/jobs.ts';
import { until } from '../helpers/until.ts';

async function startRunner(t: TestContext, kind: Kind, maxStopMs: number) {
  const clock = countingClock();
  const core = await createCore(t, { clock, kinds: [kind] });
  const options = { jobs: core.jobs, log: silentLog, node: 'node_a', leaseMs: 30_000, pollMs: 100 };
  const runner = new Runner({ ...options, clock, maxStopMs });
  await runner.start();
  t.after(() => runner.stop());
  const cancelled = async () => {
    const { job } = await core.jobs.submit({ kind: 'toy', owner: 'ada', input: {} });
    const now = () => core.jobs.get(job.id);
    await until('running', async () => (await now()).status === 'running');
    await core.jobs.cancel(job.id, 'ada');
    return until('ended', async () => {
      const { status, error } = await now();
      return status === 'cancelled' ? { error } : undefined;
    });
  };
  return { cancelled, sleeps: clock.sleeps };
}

/** The system clock. `sleeps` contains the pending ones. */
function countingClock(): Clock & { sleeps: Set<number> } {
  const sleeps = new Set<number>();
  return {
    ...systemClock,
    sleeps,
    sleep: async (ms, signal) => {
      sleeps.add(ms);
      await systemClock.sleep(ms, signal);
      sleeps.delete(ms);
    },
  };
}

test('an attempt that stops when asked leaves no timer that keeps the process alive', async (t) => {
  const kind: Kind = {
    ...toyKind,
    run: ({ signal }) =>
      new Promise((end) => {
        signal.addEventListener('abort', () => end({ type: 'cancelled' }), { once: true });
      }),
  };
  const { cancelled, sleeps } = await startRunner(t, kind, 3_600_000);
  assert.ok(!(await cancelled()).error);
  await until('no timer', () => !sleeps.has(3_600_000));
});

test('an attempt that does not stop is abandoned after maxStopMs', async (t) => {
  const kind: Kind = { ...toyKind, run: () => new Promise(() => {}) };
  const { cancelled } = await startRunner(t, kind, 50);
  assert.equal((await cancelled()).error?.code, 'stuck');
});
