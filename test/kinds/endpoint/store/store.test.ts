// The contract of the endpoint tables, on every store.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { queueKey } from '../../../../src/jobs/intents.ts';
import { endpointMigrations } from '../../../../src/kinds/endpoint/migrations.ts';
import { RemoteStore } from '../../../../src/kinds/endpoint/store/remote-jobs.ts';
import { endpointSpec } from '../../../../src/kinds/endpoint/spec.ts';
import { EndpointStore, type WorkerRow } from '../../../../src/kinds/endpoint/store/endpoints.ts';
import { forgetSteps, Streams } from '../../../../src/kinds/endpoint/store/streams.ts';
import { EventFeed } from '../../../../src/jobs/events.ts';
import { Jobs } from '../../../../src/jobs/jobs.ts';
import { ManualClock } from '../../../../src/runtime/clock.ts';
import { silentLog } from '../../../../src/runtime/log.ts';
import { toyKind } from '../../../helpers/jobs.ts';
import { stores } from '../../../helpers/stores.ts';

for (const factory of stores) {
  describe(`endpoint tables on ${factory.name}`, () => {
    test('endpoints, releases and workers are read back as written', async (t) => {
      const store = new EndpointStore(await factory.open(t, endpointMigrations));
      const row = {
        id: 'a',
        owner: 'me',
        spec: endpointSpec.parse({ env: { A: '1' } }),
        version: 1,
        source: 'api' as const,
        createdAt: 5,
        updatedAt: 5,
      };
      assert.ok((await store.store.commit(store.insertEndpoint(row))).applied);
      assert.ok(!(await store.store.commit(store.insertEndpoint(row))).applied, 'once');
      const next = { ...row, version: 2, updatedAt: 6 };
      assert.ok((await store.store.commit(store.updateEndpoint(row, next))).applied);
      assert.ok(!(await store.store.commit(store.updateEndpoint(row, next))).applied, 'fenced');
      assert.deepEqual(await store.endpoints(), [next]);
      const worker: WorkerRow = {
        id: 'w',
        endpointId: 'a',
        node: 'n',
        version: 1,
        origin: 'process',
        pid: null,
        processStart: null,
        keyId: null,
        state: 'starting',
        reason: null,
        createdAt: 1,
        readyAt: null,
        seenAt: null,
        endedAt: null,
        exitCode: null,
        exitSignal: null,
      };
      await store.store.commit(store.insertWorker(worker));
      await store.store.commit(store.workerState(worker, 'ready', 7));
      const [live] = await store.liveWorkers('a');
      assert.deepEqual(live, { ...worker, state: 'ready', readyAt: 7, seenAt: 7 });
      const end = { at: 9, reason: 'done', exitCode: 0, exitSignal: null };
      await store.store.commit(store.workerEnded(worker, end));
      assert.deepEqual(await store.liveWorkers(), []);
      assert.equal((await store.endedWorkers('a', 5))[0]?.reason, 'done');
    });

    test('a migration renames the bounds in stored specs and releases', async (t) => {
      const store = new EndpointStore(await factory.open(t, endpointMigrations));
      const spec = {
        env: { A: 'say "workersMax":1' },
        workersMin: 1,
        workersMax: 2,
        outboxBytesMax: 3,
        queueMax: 4,
      };
      const row = { id: 'a', owner: 'me', version: 1, source: 'api' as const };
      const stored = { ...row, spec: spec as never, createdAt: 5, updatedAt: 5 };
      const change = { field: 'workersMax', old: 1, new: 2 };
      const release = { version: 1, diff: [change], by: 'me', createdAt: 5 };
      await store.store.commit([
        ...store.insertEndpoint(stored),
        ...store.insertRelease('a', release),
      ]);
      const { statements } = endpointMigrations.find(({ id }) => id === 'endpoint/4')!;
      const sql = statements({ engine: store.store.engine } as Parameters<typeof statements>[0]);
      await store.store.commit(sql.map((one) => ({ sql: one, params: [] })));
      const [migrated] = await store.endpoints();
      assert.equal(migrated!.undecodable, undefined);
      const { minWorkers, maxWorkers, maxOutboxBytes, maxQueue, env } = migrated!.spec;
      assert.deepEqual([minWorkers, maxWorkers, maxOutboxBytes, maxQueue], [1, 2, 3, 4]);
      assert.deepEqual(env, spec.env, 'values are not touched');
      assert.equal((await store.releases('a', 1))[0]?.diff[0]?.field, 'maxWorkers');
    });

    test('each chunk is returned once, even to concurrent callers, and only for the current attempt', async (t) => {
      const base = await factory.open(t, endpointMigrations);
      const clock = new ManualClock();
      const jobs = new Jobs(base, clock);
      jobs.addKind({ ...toyKind, name: 'endpoint' });
      const feed = new EventFeed(base, silentLog);
      t.after(() => feed.close());
      const streams = new Streams(base, jobs);
      const { job } = await jobs.submit({ kind: 'endpoint', queue: 'a', input: {}, owner: 'me' });
      const [taken] = await jobs.claim({
        queues: [{ name: queueKey('endpoint', 'a') }],
        limit: 1,
        holder: 'w',
        node: null,
        leaseMs: 1000,
      });
      const attempt = { jobId: job.id, attemptId: taken!.attemptId };
      for (let i = 0; i < 6; i++) assert.ok(await streams.append(attempt, { i }));
      const present = await jobs.get(job.id);
      const parts = await Promise.all([streams.drain(present, 3), streams.drain(present, 3)]);
      const all = parts.flatMap(({ chunks }) => chunks) as { i: number }[];
      assert.deepEqual(
        all.map(({ i }) => i).toSorted((a, b) => a - b),
        [0, 1, 2, 3, 4, 5],
      );
      assert.deepEqual((await streams.drain(present, 3)).chunks, []);
      for (const text of ['x'.repeat(500), 'y', 'z']) await streams.append(attempt, text);
      const first = await streams.drain(present, 9, 100);
      assert.deepEqual([first.chunks[0], first.more], ['x'.repeat(500), true], 'one at least');
      const rest = await streams.drain(present, 9, 1000);
      assert.deepEqual([rest.chunks, rest.more], [['y', 'z'], false]);
      assert.equal(
        (await streams.read(present, 4, 10)).length,
        5,
        'reading does not consume chunks',
      );
      await jobs.finish(attempt, { type: 'completed' });
      assert.ok(!(await streams.append(attempt, 'late')), 'a late chunk changes nothing');
    });

    test('a remote row changes only from the state that was read', async (t) => {
      const store = new RemoteStore(await factory.open(t, endpointMigrations));
      const input = { attemptId: 'j.1', jobId: 'j', endpointId: 'a', dueAt: 5 };
      await store.store.commit(store.insert(input, 5));
      const [one] = await store.due(5, 10);
      const [two] = await store.due(5, 10);
      assert.ok(await store.move(one!, { state: 'sending', dueAt: 60 }));
      assert.ok(!(await store.move(two!, { state: 'sending', dueAt: 60 })), 'never sent twice');
      assert.ok(await store.move(one!, { state: 'sent', dueAt: 70, remoteId: 'r' }));
      assert.equal((await store.all())[0]?.remoteId, 'r');
      await store.makeJobDue('j', 3);
      assert.equal((await store.due(3, 10)).length, 1, 'a callback applies to the job');
      const [row] = await store.all();
      assert.ok(await store.move(row!, { state: 'intent', dueAt: 80, remoteId: null }));
      assert.equal((await store.all())[0]?.remoteId, null);
    });

    test('a retry key is stored until its job is deleted', async (t) => {
      const opened = await factory.open(t, endpointMigrations);
      const store = new EndpointStore(opened);
      for (const at of [1, 2]) await opened.commit([store.addRetry('j', 'k', at)]);
      assert.deepEqual(
        [await store.hasRetry('j', 'k'), await store.hasRetry('j', 'other')],
        [true, false],
      );
      await opened.commit(forgetSteps(['j']));
      assert.equal(await store.hasRetry('j', 'k'), false);
    });
  });
}
