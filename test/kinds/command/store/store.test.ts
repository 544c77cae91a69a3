// Tables of the command kind on both stores: past runs, output per node, job names.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { History, type PastRun } from '../../../../src/kinds/command/store/history.ts';
import { commandMigrations } from '../../../../src/kinds/command/migrations.ts';
import { JobNames } from '../../../../src/kinds/command/store/job-names.ts';
import { queueKey } from '../../../../src/jobs/intents.ts';
import { Jobs } from '../../../../src/jobs/jobs.ts';
import { systemClock } from '../../../../src/runtime/clock.ts';
import type { Store } from '../../../../src/store/store.ts';
import { toyKind } from '../../../helpers/jobs.ts';
import { applyMigration } from '../../../helpers/migration.ts';
import { stores } from '../../../helpers/stores.ts';

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
    test('each past run counts once, even before it is written', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const history = new History(store, 'node_a');
      assert.equal(await history.get('make'), undefined);
      history.add(run('job_1', { runMs: 300 }));
      history.add(run('job_2', { ok: false, runMs: 9 }));
      assert.deepEqual(await history.get('make'), { runs: 2, successRate: 0.5 });
      await history.flush();
      // The same run reported twice, after a crash in between.
      history.add(run('job_1', { runMs: 300 }));
      await history.flush();
      assert.deepEqual(await history.get('make'), { runs: 2, successRate: 0.5 });
      assert.equal(await history.get('test'), undefined);
    });

    test('runs of other nodes are visible after a flush, removed ones are not', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const [here, there] = [new History(store, 'node_a'), new History(store, 'node_b')];
      here.add(run('job_1'));
      assert.equal((await here.get('make'))?.runs, 1);
      there.add(run('job_2'));
      await there.flush();
      await here.flush();
      assert.equal((await here.get('make'))?.runs, 2);
      await here.forget(['job_1']);
      assert.equal((await here.get('make'))?.runs, 1);
    });

    test('a cancelled run counts as a run, but neither as success nor as failure', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const history = new History(store, 'node_a');
      history.add(run('job_1', { ok: false, cancelled: true }));
      assert.deepEqual(await history.get('make'), { runs: 1 });
      await history.flush();
      assert.deepEqual(await history.get('make'), { runs: 1 });
      history.add(run('job_2'));
      history.add(run('job_3', { ok: false }));
      await history.flush();
      assert.deepEqual(await history.get('make'), { runs: 3, successRate: 0.5 });
      for (const id of ['job_4', 'job_5']) history.add(run(id));
      assert.deepEqual(await history.get('make'), { runs: 5, successRate: 0.75, expectedMs: 100 });
    });

    test('output bytes count on the node that stores them, until the job is removed', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const [here, there] = [await jobOn(store, 'node_a'), await jobOn(store, 'node_b')];
      const [onA, onB] = [new History(store, 'node_a'), new History(store, 'node_b')];
      const large = 5 * 1024 ** 3;
      onA.add(run(here, { bytes: large }));
      onB.add(run(there, { bytes: 7 }));
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [large, 7]);
      await Promise.all([onA.flush(), onB.flush()]);
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [large, 7]);
      // Processes that were left running printed more.
      onA.resize(`${here}.1`, large + 5);
      await onA.flush();
      assert.equal(await onA.bytes(), large + 5);
      assert.equal(
        await onA.forget([here, there]),
        large + 5,
        'output of node b is not on this disk',
      );
      assert.deepEqual([await onA.bytes(), await onB.bytes()], [0, 0]);
    });

    test('only one of several concurrent jobs takes a name', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const names = new JobNames(store);
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

    test('command/4 renames the output limit in stored inputs', async (t) => {
      const store = await factory.open(t, commandMigrations);
      const [old, other] = [await jobOn(store, 'node_a'), await jobOn(store, 'node_a')];
      // The text of the command mentions the old key and must not change.
      const command = 'echo \'{"outputBytesMax": 1}\'';
      const input = JSON.stringify({ command, cwd: '/', outputBytesMax: 4096, ring: true });
      const sql = 'UPDATE jobs SET kind = ?, input = ? WHERE id = ?';
      await store.commit([
        { sql, params: ['command', input, old], expect: 1 },
        { sql, params: ['toy', input, other], expect: 1 },
      ]);
      await applyMigration(store, commandMigrations, 'command/4');
      const inputOf = async (id: string): Promise<unknown> => {
        const [row] = await store.read<{ input: string }>('SELECT input FROM jobs WHERE id = ?', [
          id,
        ]);
        return JSON.parse(row!.input);
      };
      assert.deepEqual(await inputOf(old), { command, cwd: '/', maxOutputBytes: 4096, ring: true });
      assert.deepEqual(await inputOf(other), JSON.parse(input));
    });
  });
