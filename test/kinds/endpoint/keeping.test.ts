// What is kept and for how long: results past an endpoint's retention, logs past their size.
import assert from 'node:assert/strict';
import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { EventFeed } from '../../../src/jobs/events.ts';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { queueKey } from '../../../src/jobs/intents.ts';
import { Endpoints } from '../../../src/kinds/endpoint/endpoints.ts';
import { Followup } from '../../../src/kinds/endpoint/followup.ts';
import { WorkerHub } from '../../../src/kinds/endpoint/hub.ts';
import { logBytesMax, WorkerLogs } from '../../../src/kinds/endpoint/logs.ts';
import { endpointMigrations } from '../../../src/kinds/endpoint/migrations.ts';
import { EndpointStore } from '../../../src/kinds/endpoint/store.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { toyKind } from '../../helpers/jobs.ts';
import { stores } from '../../helpers/stores.ts';
import { until } from '../../helpers/until.ts';

test('an ended job is there until the retention of its endpoint ends, and is then unknown', async (t) => {
  const base = await stores[0]!.open(t, endpointMigrations);
  const clock = new ManualClock();
  const jobs = new Jobs(base, clock);
  jobs.addKind({ ...toyKind, name: 'endpoint' });
  const feed = new EventFeed(base, silentLog);
  t.after(() => feed.close());
  const store = new EndpointStore(base);
  const endpoints = new Endpoints(store, clock);
  const save = { owner: 'me', source: 'api' as const, merge: true };
  await endpoints.save({ id: 'short', fields: { retentionMs: 60_000 }, ...save });
  await endpoints.save({ id: 'long', fields: {}, ...save });
  const ids: string[] = [];
  for (const queue of ['short', 'long', 'short']) {
    const { job } = await jobs.submit({ kind: 'endpoint', queue, input: {}, owner: 'me' });
    ids.push(job.id);
    if (ids.length === 3) continue;
    const queues = [{ name: queueKey('endpoint', queue) }];
    const claim = { queues, limit: 1, holder: 'w', node: null, leaseMs: 1000 };
    const [taken] = await jobs.claim(claim);
    await jobs.finish({ jobId: job.id, attemptId: taken!.attemptId }, { type: 'completed' });
  }
  const log = silentLog;
  const paused = async () => ({ paused: false });
  const hub = new WorkerHub({ jobs, store, clock, log, node: 'n', paused });
  const followup = new Followup({ feed, jobs, hub, endpoints, store, clock, log });
  await followup.start();
  t.after(() => followup.stop());
  await clock.advance(59_000);
  assert.ok(await jobs.ledger.find(ids[0]!), 'still there');
  await until('it is forgotten', async () => {
    await clock.advance(5000);
    return (await jobs.ledger.find(ids[0]!)) === undefined;
  });
  assert.ok(await jobs.ledger.find(ids[1]!), 'the home keeps the others');
  assert.ok(await jobs.ledger.find(ids[2]!), 'a waiting job is no ended one');
  await assert.rejects(jobs.retry(ids[0]!, 'me'), { code: 'notFound' }, 'and no retry after that');
});

test('logs of a worker are bounded: the older part goes, the newest lines stay', (t) => {
  const folder = tempFolder(t);
  const clock = new ManualClock();
  const logs = new WorkerLogs(folder, clock);
  const path = join(folder, 'logs/a/w.log');
  logs.note('a', 'w', 'start worker');
  const line = `${'x'.repeat(1000)}\n`;
  for (let part = 0; part < 5; part++) {
    appendFileSync(path, line.repeat(5000));
    appendFileSync(path, `end of part ${part}\n`);
    clock.jump(1000);
    logs.tick('a', 'w');
    assert.ok(statSync(path).size <= logBytesMax);
  }
  const last = logs.read('a', 'w', { source: 'container', tail: 1 });
  assert.equal(last[0]?.line, 'end of part 4');
  const kept = statSync(path).size + statSync(`${path}.1`).size;
  assert.ok(kept <= 2 * (logBytesMax + line.length * 5000), 'one older part at most');
  assert.equal(logs.read('a', 'w', { source: 'system' })[0]?.line, 'start worker');
});
