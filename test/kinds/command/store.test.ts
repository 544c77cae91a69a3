// The rows of commands on both stores: past runs, what they printed on which node, names that one job at a time has.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  commandMigrations,
  History,
  Names,
  type PastRun,
} from '../../../src/kinds/command/store.ts';
import { queueKey } from '../../../src/jobs/intents.ts';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import type { Store } from '../../../src/store/store.ts';
import { toyKind } from '../../helpers/jobs.ts';
import { stores } from '../../helpers/stores.ts';

const run = (jobId: string, more: Partial<PastRun> = {}): PastRun => ({
  ...{ attemptId: `${jobId}.1`, jobId, key: 'make', endedAt: 1, runMs: 100, bytes: 10 },
  ...{ ok: true, cancelled: false },
  ...more,
});

/** A job that ran on this node. */
async function jobOn(store: Store, node: string): Promise<string> {
  const jobs = new Jobs(store, systemClock);
  jobs.addKind(toyKind);
  const { job } = await jobs.submit({ kind: 'toy', owner: 'ada', input: 1 });
  const queues = [{ name: queueKey('toy', 'default') }];
  await jobs.claim({ queues, limit: 1, holder: node, node, leaseMs: 30_000 });
  return job.id;
}

for (const factory of stores)
  describe(`commands on ${factory.name}`, () => {
    test('past runs are remembered once each, also before they are written', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const history = new History(store, 'node_a');
      assert.equal(await history.of('make'), undefined);
      history.add(run('job_1', { runMs: 300 }));
      history.add(run('job_2', { ok: false, runMs: 9 }));
      assert.deepEqual(await history.of('make'), { runs: 2, successRate: 0.5 });
      await history.flush();
      // The same end told twice, after a crash between the two.
      history.add(run('job_1', { runMs: 300 }));
      await history.flush();
      assert.deepEqual(await history.of('make'), { runs: 2, successRate: 0.5 });
      assert.equal(await history.of('test'), undefined);
    });

    test('runs of other nodes show after a flush, forgotten ones do not', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const [here, there] = [new History(store, 'node_a'), new History(store, 'node_b')];
      here.add(run('job_1'));
      assert.equal((await here.of('make'))?.runs, 1);
      there.add(run('job_2'));
      await there.flush();
      await here.flush();
      assert.equal((await here.of('make'))?.runs, 2);
      await here.forget(['job_1']);
      assert.equal((await here.of('make'))?.runs, 1);
    });

    test('a cancelled run is a run, but neither a success nor a failure', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const history = new History(store, 'node_a');
      history.add(run('job_1', { ok: false, cancelled: true }));
      assert.deepEqual(await history.of('make'), { runs: 1 });
      await history.flush();
      assert.deepEqual(await history.of('make'), { runs: 1 });
      history.add(run('job_2'));
      history.add(run('job_3', { ok: false }));
      await history.flush();
      assert.deepEqual(await history.of('make'), { runs: 3, successRate: 0.5 });
      for (const id of ['job_4', 'job_5']) history.add(run(id));
      assert.deepEqual(await history.of('make'), { runs: 5, successRate: 0.75, expectedMs: 100 });
    });

    test('bytes count on the node that has them, and leave with their job', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const [here, there] = [await jobOn(store, 'node_a'), await jobOn(store, 'node_b')];
      const [onA, onB] = [new History(store, 'node_a'), new History(store, 'node_b')];
      const large = 5 * 1024 ** 3;
      onA.add(run(here, { bytes: large }));
      onB.add(run(there, { bytes: 7 }));
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [large, 7]);
      await Promise.all([onA.flush(), onB.flush()]);
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [large, 7]);
      // What was left running printed on.
      onA.resize(`${here}.1`, large + 5);
      await onA.flush();
      assert.equal(await onA.bytes(), large + 5);
      assert.equal(await onA.forget([here, there]), large + 5, 'what b had is not on this disk');
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [0, 0]);
    });

    test('a name changes hands once', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const names = new Names(store);
      const name = { owner: 'ada', name: 'dev' };
      assert.equal(await names.holder('ada', 'dev'), '');
      const tries = await Promise.all(
        ['job_1', 'job_2', 'job_3'].map((id) => store.commit([names.take(name, id, '')])),
      );
      assert.equal(tries.filter(({ applied }) => applied).length, 1);
      const holder = await names.holder('ada', 'dev');
      assert.equal(await names.holder('bob', 'dev'), '');
      const [late, right] = [names.take(name, 'job_4', 'job_x'), names.take(name, 'job_5', holder)];
      assert.equal((await store.commit([late])).applied, false);
      assert.equal((await store.commit([right])).applied, true);
      await new History(store, 'node_a').forget(['job_5']);
      assert.equal(await names.holder('ada', 'dev'), '');
    });
  });
