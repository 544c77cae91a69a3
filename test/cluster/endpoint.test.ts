// Endpoints across nodes: one from any node's config.json exists for all and is deleted only on request. A cordoned or
// draining node neither starts workers nor assigns jobs, to its own or to external workers.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { client, handlerFile } from '../helpers/endpoint.ts';
import { homeWith } from '../helpers/folder.ts';
import { openReader } from '../helpers/postgres.ts';
import type { TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

const idOf = async (node: TestServer) =>
  (await node.api('GET', '/api/nodes'))
    .json<{ nodes: { id: string; here: boolean }[] }>()
    .nodes.find(({ here }) => here)!.id;
const endpointsOf = async (node: TestServer) =>
  (await node.api('GET', '/api/endpoints'))
    .json<{ endpoints: { id: string }[] }>()
    .endpoints.map(({ id }) => id);

test('an endpoint of one node exists for all; a drained node takes no part in its work', async (t) => {
  const cluster = await startCluster(t, 0);
  const sum = { recipe: { module: handlerFile }, maxWorkers: 1, spareRunner: false };
  const a = await cluster.add({ home: homeWith(t, {}) });
  const b = await cluster.add({ home: homeWith(t, { endpoint: { sum } }) });
  const ledger = await openReader(t, cluster.url);
  const [idA, idB] = [await idOf(a), await idOf(b)];
  const viaA = client(a.url, a.key);
  const hold = async (verb: string, id: string) => {
    const result = await a.api('POST', `/api/nodes/${id}/${verb}`);
    assert.equal(result.status, 200, result.text);
  };
  const workersOn = (node: string) =>
    ledger.read('SELECT id FROM endpoint_workers WHERE node = ?', [node]);

  await until('a sees it', async () => (await endpointsOf(a)).includes('sum'));
  // Node a is cordoned before there is any work: it starts no worker, and b does everything.
  await hold('drain', idA);
  const first = await viaA.run('sum', { value: 1 });
  assert.equal((await viaA.ended('sum', first)).status, 'COMPLETED');
  assert.deepEqual(await workersOn(idA), []);
  assert.equal((await workersOn(idB)).length, 1);

  // Now b as well: it has a warm worker, but assigns nothing, to its own worker or to any other.
  await hold('drain', idB);
  await until('b sees its state', async () => {
    const probe = (
      await b.api('POST', '/api/commands', {
        ...{ command: 'true', cwd: '/', waitMs: 500 },
      })
    ).json<{ id: string; status: string }>();
    await b.api('POST', `/api/jobs/${probe.id}/cancel`, {});
    return probe.status === 'queued';
  });
  const held = await viaA.run('sum', { value: 2 });
  // A take call waits for a long time, but returns an available job immediately.
  const takes = [a, b].map((node) =>
    fetch(`${node.url}/v2/sum/job-take/outside?gpu=x`, {
      headers: { authorization: `Bearer ${node.key}` },
      signal: AbortSignal.timeout(1500),
    }).then((result) => result.text()),
  );
  for (const take of takes) await assert.rejects(take, { name: 'TimeoutError' });
  assert.equal((await viaA.call('GET', `/v2/sum/status/${held}`)).body.status, 'IN_QUEUE');
  await hold('uncordon', idB);
  assert.equal((await viaA.ended('sum', held)).status, 'COMPLETED');
  await hold('uncordon', idA);

  // Neither a start without it nor its removal from the file deletes an endpoint for the others.
  await a.stop();
  const again = await cluster.add({ home: a.home });
  assert.deepEqual(await endpointsOf(again), ['sum']);
  await b.stop();
  writeFileSync(join(b.home, 'config.json'), '{}');
  const back = await cluster.add({ home: b.home });
  assert.deepEqual(await endpointsOf(back), ['sum']);
  assert.equal((await again.api('DELETE', '/api/endpoints/sum')).status, 200);
  await until('b sees that it is deleted', async () => (await endpointsOf(back)).length === 0);
});

test('output of an earlier attempt is readable on any node, and a retry counts once', async (t) => {
  const talk = { recipe: { module: handlerFile }, maxWorkers: 1, spareRunner: false };
  const cluster = await startCluster(t, 0);
  const a = await cluster.add({ home: homeWith(t, { endpoint: { talk } }) });
  const b = await cluster.add({ home: homeWith(t, {}) });
  const c = await cluster.add({ home: homeWith(t, {}) });
  // Only b takes part in the work: a must call b, and b must know that it is addressed.
  for (const node of [a, c])
    assert.equal((await node.api('POST', `/api/nodes/${await idOf(node)}/cordon`)).status, 200);
  const viaA = client(a.url, a.key);
  const id = await viaA.run('talk', { do: 'printThrow' });
  assert.equal((await viaA.ended('talk', id)).status, 'FAILED');
  await viaA.call('POST', `/v2/talk/retry/${id}`, '');
  const again = await viaA.ended('talk', id);
  assert.deepEqual([again.status, again.retries], ['FAILED', 1]);
  for (const node of [a, b])
    for (const attempt of [1, 2]) {
      const read = await node.api('GET', `/api/jobs/${id}/output?attempt=${attempt}`);
      assert.equal(read.status, 200, read.text);
      assert.match(read.json<{ text: string }>().text, new RegExp(`printed for ${id}`));
    }
  for (const node of [a, b, c]) {
    const health = (await node.api('GET', '/v2/talk/health')).json<{ jobs: { retried: number } }>();
    assert.equal(health.jobs.retried, 1);
  }
  // Three nodes retry the same jobs while one of them is killed: each accepted retry counts once, a refused one never.
  const ids = await Promise.all([1, 2, 3].map(() => viaA.run('talk', { do: 'printThrow' })));
  for (const one of ids) await viaA.ended('talk', one);
  const retry = async (node: typeof a, one: string) =>
    (await node.api('POST', `/api/jobs/${one}/retry`, {}).catch(() => undefined))?.status;
  const calls = ids.flatMap((one) => [a, b, c].map((node) => retry(node, one)));
  await c.kill();
  const statuses = await Promise.all(calls);
  assert.ok(statuses.includes(200));
  for (const one of ids) await viaA.ended('talk', one);
  const cancelled = await viaA.run('talk', { do: 'wait', ms: 600_000 });
  const cancel = () => viaA.call('POST', `/v2/talk/cancel/${cancelled}`, '');
  await cancel();
  await viaA.ended('talk', cancelled);
  assert.equal(
    await retry(b, cancelled),
    200,
    'it runs again, which is not a retry after a failure',
  );
  await cancel();
  await viaA.ended('talk', cancelled);
  const back = await cluster.add({ home: c.home });
  const attempts = await Promise.all(
    [id, ...ids].map(async (one) => {
      const { events } = (await a.api('GET', `/api/jobs/${one}/events?limit=200`)).json<{
        events: { type: string }[];
      }>();
      return events.filter(({ type }) => /^(retried|attemptFailed|attemptLost)$/.test(type)).length;
    }),
  );
  const wanted = attempts.reduce((sum, n) => sum + n, 0);
  assert.ok(wanted >= 1 + statuses.filter((status) => status === 200).length);
  for (const node of [a, b, back]) {
    const health = (await node.api('GET', '/v2/talk/health')).json<{ jobs: { retried: number } }>();
    assert.equal(health.jobs.retried, wanted);
  }
});
