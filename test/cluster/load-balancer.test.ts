// No session state lives in one node: event streams, webhooks and names across three servers behind a load balancer
// without affinity.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import type { TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

/** Received webhooks, by id. */
async function startReceiver(t: TestContext) {
  const received: { id: string; type: string; jobId: string }[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const { type, data } = JSON.parse(text) as { type: string; data: { job: { id: string } } };
      received.push({ id: String(request.headers['webhook-id']), type, jobId: data.job.id });
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  return { received, port: (server.address() as { port: number }).port };
}

/** Reads an event stream until it ends or has this many events; returns their numbers and types. */
async function follow(node: TestServer, id: string, after: number, count: number) {
  const response = await fetch(`${node.url}/api/jobs/${id}/events`, {
    headers: {
      authorization: `Bearer ${node.key}`,
      accept: 'text/event-stream',
      ...(after > 0 ? { 'last-event-id': String(after) } : {}),
    },
  });
  assert.equal(response.status, 200);
  const events: { n: number; type: string }[] = [];
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const n = /^id: ?(\d+)$/m.exec(block)?.[1];
      const type = /^event: ?(\w+)$/m.exec(block)?.[1];
      if (n && type) events.push({ n: Number(n), type });
    }
    if (events.length >= count) break;
  }
  return events;
}

test('streams, webhooks and names across three nodes', async (t) => {
  const receiver = await startReceiver(t);
  const cluster = await startCluster(t, 0);
  const home = () => homeWith(t, { egress: { allow: [`127.0.0.1:${receiver.port}`] } });
  const nodes = await Promise.all([1, 2, 3].map(() => cluster.add({ home: home() })));
  const [a, b, c] = nodes as [TestServer, TestServer, TestServer];
  const folder = tempFolder(t);

  await t.test('one stream read from three nodes in turn contains every event once', async () => {
    const gate = join(folder, 'gate');
    const body = {
      command: `until [ -e ${gate} ]; do sleep 0.05; done; exit 3`,
      cwd: '/',
      waitMs: 0,
    };
    const { id } = (await a.api('POST', '/api/commands', body)).json<{ id: string }>();
    const first = await follow(b, id, 0, 2);
    assert.deepEqual(first.map(({ type }) => type).slice(0, 2), ['submitted', 'started']);
    const rest = follow(c, id, first.at(-1)!.n, Infinity);
    writeFileSync(gate, '');
    const all = [...first, ...(await rest)];
    assert.deepEqual(
      all.map(({ n }) => n),
      all.map((_, i) => i + 1),
    );
    assert.equal(all.at(-1)!.type, 'failed');
    // Read again from the beginning, from the third node: the same.
    assert.deepEqual(await follow(a, id, 0, Infinity), all);
  });

  await t.test('a webhook created on one node reports jobs of all nodes, each once', async () => {
    const made = await a.api('POST', '/api/webhooks', {
      url: `http://127.0.0.1:${receiver.port}/`,
    });
    assert.equal(made.status, 200, made.text);
    const ids = await Promise.all(
      [...nodes, ...nodes].map(async (node) => {
        const body = { command: 'true', cwd: '/', waitMs: 20_000 };
        return (await node.api('POST', '/api/commands', body)).json<{ id: string }>().id;
      }),
    );
    await until('all are received', () =>
      ids.every((id) => receiver.received.some((one) => one.jobId === id)),
    );
    const deliveries = new Set(receiver.received.map(({ id }) => id));
    assert.equal(deliveries.size, ids.length);
    assert.equal(receiver.received.length, ids.length, 'none arrived twice');
    assert.ok(receiver.received.every(({ type }) => type.endsWith('completed')));
  });

  await t.test('ensure keeps one job per name on every node', async () => {
    const ran = join(folder, 'ran');
    const body = {
      command: `echo $$ >> ${ran}; exec sleep 120`,
      cwd: '/',
      waitMs: 0,
      name: 'dev server',
      ensure: true,
    };
    const ask = async (node: TestServer) => {
      const result = await node.api('POST', '/api/commands', body);
      assert.equal(result.status, 200, result.text);
      return result.json<{ id: string }>().id;
    };
    const ids = await Promise.all([...nodes, ...nodes, ...nodes].map(ask));
    assert.equal(new Set(ids).size, 1, ids.join());
    await until('it runs', () => existsSync(ran));
    const named = (await b.api('GET', '/api/jobs?kind=command')).json<{
      jobs: { name?: string }[];
    }>();
    assert.equal(named.jobs.filter(({ name }) => name === 'dev server').length, 1);
    assert.equal((await c.api('POST', `/api/jobs/${ids[0]}/cancel`, {})).status, 200);
    const next = await ask(a);
    assert.notEqual(next, ids[0], 'a new job replaces an ended one');
    await b.api('POST', `/api/jobs/${next}/cancel`, {});
  });
});
