// Endpoints over nodes: one of any node's config.json is there for all and goes only by request, and a node that is held
// back neither starts workers nor hands anything out, to its own or to workers from outside.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { client, handlerFile } from '../helpers/endpoint.ts';
import { homeWith } from '../helpers/folder.ts';
import { onlooker } from '../helpers/postgres.ts';
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

test('endpoints of one node are there for all; a drained node has no part in their work', async (t) => {
  const cluster = await startCluster(t, 0);
  const sum = { recipe: { module: handlerFile }, workersMax: 1, spareRunner: false };
  const a = await cluster.add({ home: homeWith(t, {}) });
  const b = await cluster.add({ home: homeWith(t, { endpoints: { sum } }) });
  const ledger = await onlooker(t, cluster.url);
  const [idA, idB] = [await idOf(a), await idOf(b)];
  const viaA = client(a.url, a.key);
  const hold = async (verb: string, id: string) => {
    const answer = await a.api('POST', `/api/nodes/${id}/${verb}`);
    assert.equal(answer.status, 200, answer.text);
  };
  const workersOn = (node: string) =>
    ledger.read('SELECT id FROM endpoint_workers WHERE node = ?', [node]);

  await until('a knows it', async () => (await endpointsOf(a)).includes('sum'));
  // Held back before there was any work: a starts no worker, b does all of it.
  await hold('drain', idA);
  const first = await viaA.run('sum', { value: 1 });
  assert.equal((await viaA.ended('sum', first)).status, 'COMPLETED');
  assert.deepEqual(await workersOn(idA), []);
  assert.equal((await workersOn(idB)).length, 1);

  // Now b as well: it has a warm worker, and still nothing is handed out, there or to anybody who asks.
  await hold('drain', idB);
  await until('b has heard of it', async () => {
    const probe = (
      await b.api('POST', '/api/commands', {
        ...{ command: 'true', cwd: '/', waitMs: 500 },
      })
    ).json<{ id: string; status: string }>();
    await b.api('POST', `/api/jobs/${probe.id}/cancel`, {});
    return probe.status === 'queued';
  });
  const held = await viaA.run('sum', { value: 2 });
  // A take waits for long; what there is comes at once.
  const takes = [a, b].map((node) =>
    fetch(`${node.url}/v2/sum/job-take/outside?gpu=x`, {
      headers: { authorization: `Bearer ${node.key}` },
      signal: AbortSignal.timeout(1500),
    }).then((answer) => answer.text()),
  );
  for (const take of takes) await assert.rejects(take, { name: 'TimeoutError' });
  assert.equal((await viaA.call('GET', `/v2/sum/status/${held}`)).body.status, 'IN_QUEUE');
  await hold('uncordon', idB);
  assert.equal((await viaA.ended('sum', held)).status, 'COMPLETED');
  await hold('uncordon', idA);

  // Neither a start without it nor its leaving the file takes an endpoint from the others.
  await a.stop();
  const again = await cluster.add({ home: a.home });
  assert.deepEqual(await endpointsOf(again), ['sum']);
  await b.stop();
  writeFileSync(join(b.home, 'config.json'), '{}');
  const back = await cluster.add({ home: b.home });
  assert.deepEqual(await endpointsOf(back), ['sum']);
  assert.equal((await again.api('DELETE', '/api/endpoints/sum')).status, 200);
  await until('b knows that it is gone', async () => (await endpointsOf(back)).length === 0);
});

test('what an earlier attempt printed is read on any node, and a retry counts once', async (t) => {
  const talk = { recipe: { module: handlerFile }, workersMax: 1, spareRunner: false };
  const cluster = await startCluster(t, 0);
  const a = await cluster.add({ home: homeWith(t, { endpoints: { talk } }) });
  const b = await cluster.add({ home: homeWith(t, {}) });
  const c = await cluster.add({ home: homeWith(t, {}) });
  // Only b has part in the work: a must ask it, and b must know that it is meant.
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
  // A node that dies and comes back neither loses the count nor counts again.
  await c.kill();
  const back = await cluster.add({ home: c.home });
  const health = (await back.api('GET', '/v2/talk/health')).json<{ jobs: { retried: number } }>();
  assert.equal(health.jobs.retried, 1);
  await Promise.all([a.stop(), b.stop(), back.stop()]);
});
