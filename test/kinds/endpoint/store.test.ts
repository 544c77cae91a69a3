// The contract of the endpoint tables, over every store there is.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { queueKey } from '../../../src/jobs/intents.ts';
import { endpointMigrations } from '../../../src/kinds/endpoint/migrations.ts';
import { RemoteStore } from '../../../src/kinds/endpoint/remote/store.ts';
import { endpointSpec } from '../../../src/kinds/endpoint/spec.ts';
import { EndpointStore, type WorkerRow } from '../../../src/kinds/endpoint/store.ts';
import { forgetSteps, Streams } from '../../../src/kinds/endpoint/stream/store.ts';
import { EventFeed } from '../../../src/jobs/events.ts';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { toyKind } from '../../helpers/jobs.ts';
import { stores } from '../../helpers/stores.ts';

for (const factory of stores) {
  describe(`endpoint tables on ${factory.name}`, () => {
    test('endpoints, releases and workers come back as they were written', async (t) => {
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

    test('chunks are handed out once, also to two at a time, and only of the present attempt', async (t) => {
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
      assert.equal((await streams.read(present, 4, 10)).length, 5, 'reading takes nothing away');
      await jobs.finish(attempt, { type: 'completed' });
      assert.ok(!(await streams.append(attempt, 'late')), 'a late chunk changes nothing');
    });

    test('a row for a remote moves only from the state it was read in', async (t) => {
      const store = new RemoteStore(await factory.open(t, endpointMigrations));
      const wish = { attemptId: 'j.1', jobId: 'j', endpointId: 'a', dueAt: 5 };
      await store.store.commit(store.insert(wish, 5));
      const [one] = await store.due(5, 10);
      const [two] = await store.due(5, 10);
      assert.ok(await store.move(one!, { state: 'sending', dueAt: 60 }));
      assert.ok(!(await store.move(two!, { state: 'sending', dueAt: 60 })), 'never sent twice');
      assert.ok(await store.move(one!, { state: 'sent', dueAt: 70, remoteId: 'r' }));
      assert.equal((await store.all())[0]?.remoteId, 'r');
      await store.nudgeJob('j', 3);
      assert.equal((await store.due(3, 10)).length, 1, 'a call back is for the job');
      const [row] = await store.all();
      assert.ok(await store.move(row!, { state: 'intent', dueAt: 80, remoteId: null }));
      assert.equal((await store.all())[0]?.remoteId, null);
    });

    test('the key of a retry is known until its job is forgotten', async (t) => {
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
