// Retention of ended jobs per endpoint, and the size limit of worker logs.
import assert from 'node:assert/strict';
import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { queueKey } from '../../../src/jobs/intents.ts';
import { Endpoints } from '../../../src/kinds/endpoint/endpoints.ts';
import { AssignmentLoop } from '../../../src/kinds/endpoint/jobs/assignment-loop.ts';
import { WorkerRegistry } from '../../../src/kinds/endpoint/workers/registry.ts';
import { maxLogBytes } from '../../../src/kinds/endpoint/workers/log-file.ts';
import { WorkerLogs } from '../../../src/kinds/endpoint/workers/logs.ts';
import { endpointMigrations } from '../../../src/kinds/endpoint/migrations.ts';
import { EndpointStore } from '../../../src/kinds/endpoint/store/endpoints.ts';
import { ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { toyKind } from '../../helpers/jobs.ts';
import { stores } from '../../helpers/stores.ts';
import { until } from '../../helpers/until.ts';

test('an ended job is deleted when the retention of its endpoint has passed', async (t) => {
  const base = await stores[0]!.open(t, endpointMigrations);
  const clock = new ManualClock();
  const jobs = new Jobs(base, clock);
  jobs.addKind({ ...toyKind, name: 'endpoint' });
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
  const registry = new WorkerRegistry({ jobs, store, clock, log, node: 'n', paused });
  const assignmentLoop = new AssignmentLoop({ jobs, registry, endpoints, store, clock, log });
  await assignmentLoop.start();
  t.after(() => assignmentLoop.stop());
  await clock.advance(59_000);
  assert.ok(await jobs.ledger.find(ids[0]!), 'still there');
  await until('it is forgotten', async () => {
    await clock.advance(5000);
    return (await jobs.ledger.find(ids[0]!)) === undefined;
  });
  assert.ok(await jobs.ledger.find(ids[1]!), 'the home keeps the others');
  assert.ok(await jobs.ledger.find(ids[2]!), 'a waiting job is kept');
  await assert.rejects(jobs.retry(ids[0]!, 'me'), { code: 'notFound' }, 'it cannot be retried');
});

test('worker logs are bounded: the newest lines are kept', (t) => {
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
    assert.ok(statSync(path).size <= maxLogBytes);
  }
  const last = logs.read('a', 'w', { source: 'container', tail: 1 });
  assert.equal(last[0]?.line, 'end of part 4');
  const kept = statSync(path).size + statSync(`${path}.1`).size;
  assert.ok(kept <= 2 * (maxLogBytes + line.length * 5000), 'at most one older part');
  assert.equal(logs.read('a', 'w', { source: 'system' })[0]?.line, 'start worker');
});
