// Every kind across nodes: placed by labels, controlled and read through any node, and recovered when the node that runs
// its jobs is killed.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { client as planes } from '../helpers/endpoint.ts';
import { startCluster } from '../helpers/cluster.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import { openReader } from '../helpers/postgres.ts';
import type { TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface Shown {
  id: string;
  status: string;
  stage?: string;
  error?: { code: string };
  attempts: { number: number };
  result?: Record<string, unknown>;
}

const request = async <T>(
  node: TestServer,
  method: string,
  path: string,
  body?: unknown,
): Promise<T> => {
  const result = await node.api(method, path, body);
  assert.ok(result.status < 300, `${path}: ${result.text}`);
  return result.json<T>();
};
const show = (node: TestServer, id: string) =>
  request<Shown>(node, 'GET', `/api/jobs/${id}?includeResult=true`);
const reaches = (node: TestServer, id: string, status: string) =>
  until(`${id} is ${status}`, async () => {
    const job = await show(node, id);
    return job.status === status ? job : undefined;
  });

/** A site of ten pages. All but the first wait at the gate. */
async function gatedSite(t: TestContext) {
  const gate = { open: false };
  const waiting = new Set<() => void>();
  const asked = new Map<string, number>();
  const server = createServer((request, response) => {
    const path = request.url!;
    asked.set(path, (asked.get(path) ?? 0) + 1);
    const send = () => {
      if (path === '/robots.txt') return response.writeHead(404).end();
      const links = Array.from({ length: 9 }, (_, i) => `<a href="/p${i}">page ${i}</a>`);
      response.setHeader('content-type', 'text/html');
      response.end(
        `<title>${path}</title><h1>${path}</h1><p>Text of ${path}.</p>${links.join('')}`,
      );
    };
    if (gate.open || !path.startsWith('/p')) send();
    else waiting.add(send);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  const { port } = server.address() as { port: number };
  return {
    port,
    asked,
    isWaited: () => waiting.size > 0,
    open: () => {
      gate.open = true;
      for (const send of waiting) send();
    },
  };
}

test('jobs of every kind run on nodes chosen by labels and survive kill -9 of their node', async (t) => {
  const site = await gatedSite(t);
  const folder = tempFolder(t);
  const marker = join(folder, 'checked');
  const slow = `cat >/dev/null; echo $$ >> ${marker}; until [ -e ${folder}/go ]; do sleep 0.1; done`;
  const config = {
    egress: { allow: [`127.0.0.1:${site.port}`] },
    web: { delayMs: 0, labels: ['role=work'] },
    escrow: {
      checks: { slow: { command: slow, labels: ['role=work'] } },
      sweepMs: 200,
      evaluationLeaseMs: 3000,
    },
  };
  const cluster = await startCluster(t, 0);
  const add = (labels: string) =>
    cluster.add({ home: homeWith(t, config), env: { ERRAND_LABELS: labels } });
  const [bridge, worker] = [await add('role=bridge'), await add('role=work')];
  const ledger = await openReader(t, cluster.url);
  const { nodes } = await request<{ nodes: { id: string; labels: string[] }[] }>(
    bridge,
    'GET',
    '/api/nodes',
  );
  const workerId = nodes.find(({ labels }) => labels.includes('role=work'))!.id;
  const nodeOf = async (id: string) =>
    (await ledger.read<{ node: string }>('SELECT node FROM jobs WHERE id = ?', [id]))[0]!.node;

  // Web: a crawl, placed by the labels in the settings.
  const crawl = await request<{ id: string }>(bridge, 'POST', '/api/web/crawls', {
    url: `http://127.0.0.1:${site.port}/`,
    maxPages: 10,
  });
  await until('the crawl waits at the gate', () => site.isWaited());
  assert.equal(await nodeOf(crawl.id), workerId);

  // Escrow: the operator's check, placed by its labels.
  const wallet = async (name: string) =>
    (await request<{ id: string }>(bridge, 'POST', '/api/wallets', { name })).id;
  const [payer, payee] = [await wallet('payer'), await wallet('payee')];
  const minted = await bridge.cli('wallet', 'mint', payer, '25.00', 'credit', '--json');
  assert.equal(minted.code, 0, minted.stderr);
  const posted = await bridge.cli(
    ...['work', 'post', payee, '2.00', 'Work', '--wallet', payer, '--description', 'Do it.'],
    ...['--fund', '--rule', '{"type":"command","check":"slow"}', '--json'],
  );
  assert.equal(posted.code, 0, posted.stderr);
  const hire = posted.json<{ id: string }>().id;
  await request(bridge, 'POST', `/api/work/${hire}/submit`, { wallet: payee, content: 'done' });
  const check = await until('the check runs', async () => {
    const rows = await ledger.read<{ id: string; node: string }>(
      `SELECT id, node FROM jobs WHERE parent_id = ? AND status = 'running'`,
      [hire],
    );
    return rows[0];
  });
  assert.equal(check.node, workerId);

  // Commands: one that may run again and one that may not.
  const run = (body: object) =>
    request<Shown>(bridge, 'POST', '/api/commands', {
      cwd: '/',
      waitMs: 0,
      labels: ['role=work'],
      command: `until [ -e ${folder}/go ]; do sleep 0.1; done`,
      ...body,
    });
  const [again, once] = [await run({ maxAttempts: 3 }), await run({})];
  for (const { id } of [again, once]) await reaches(bridge, id, 'running');

  // Endpoints: an external worker takes two jobs through the node that will die.
  const [viaFront, viaWorker] = [bridge, worker].map(({ url, key }) => planes(url, key)) as [
    ReturnType<typeof planes>,
    ReturnType<typeof planes>,
  ];
  await viaFront.save('gpu', { leaseMs: 3000, redeliveries: 3 });
  const jobs = [await viaFront.run('gpu', { n: 1 }), await viaFront.run('gpu', { n: 2 })];
  for (const name of ['w-lives', 'w-dies']) {
    const taken = await viaWorker.call('GET', `/v2/gpu/job-take/${name}?gpu=x`);
    assert.equal(taken.status, 200, JSON.stringify(taken.body));
  }
  const holder = async (name: string) =>
    (await ledger.read<{ id: string }>('SELECT id FROM jobs WHERE holder = ?', [name]))[0]!.id;
  const [kept, lost] = [await holder('w-lives'), await holder('w-dies')];
  assert.deepEqual([kept, lost].toSorted(), jobs.toSorted());

  await worker.kill();
  // Its worker continues and reports the result through another node. The result exceeds the inline size.
  const big = 'x'.repeat(1_500_000);
  const done = await viaFront.call('POST', `/v2/gpu/job-done/w-lives/${kept}?gpu=x`, {
    output: big,
  });
  assert.equal(done.status, 200, JSON.stringify(done.body));
  const spare = await add('role=work');
  const viaSpare = planes(spare.url, spare.key);
  const ended = await viaSpare.ended('gpu', kept);
  assert.deepEqual([ended.status, (ended.output as string).length], ['COMPLETED', big.length]);
  // The other job was lost with its worker: a third worker gets it on any node.
  await until('it is assigned again', async () => {
    const taken = await viaSpare.call('GET', `/v2/gpu/job-take/w-new?gpu=x`);
    return taken.body.id === lost;
  });
  await viaFront.call('POST', `/v2/gpu/job-done/w-new/${lost}?gpu=x`, { output: 2 });
  assert.equal((await viaSpare.ended('gpu', lost)).status, 'COMPLETED');

  assert.equal((await reaches(bridge, once.id, 'failed')).error?.code, 'lost');
  await until('the others run on the spare node', async () => {
    const [a, b] = [await nodeOf(again.id), await nodeOf(crawl.id)];
    return a !== workerId && b !== workerId;
  });
  site.open();
  writeFileSync(join(folder, 'go'), '');
  assert.equal((await reaches(bridge, again.id, 'completed')).attempts.number, 2);
  const crawled = await reaches(bridge, crawl.id, 'completed');
  assert.equal(crawled.result!.pages, 10);
  await until('the hire is decided', async () => (await show(bridge, hire)).stage === 'completed');
  const books = (await bridge.cli('escrow', 'verify', '--json')).json<{ problems: unknown[] }>();
  assert.deepEqual(books.problems, []);
});

test('a crawl is paused and resumed through a node that does not run it', async (t) => {
  const site = await gatedSite(t);
  site.open();
  const cluster = await startCluster(t, 0);
  const home = () => homeWith(t, { egress: { allow: [`127.0.0.1:${site.port}`] } });
  const add = (labels: string) => cluster.add({ home: home(), env: { ERRAND_LABELS: labels } });
  const [bridge] = [await add('role=bridge'), await add('role=work')];
  // Its crawl delay of one second keeps it running long enough.
  const { id } = await request<{ id: string }>(bridge, 'POST', '/api/web/crawls', {
    url: `http://127.0.0.1:${site.port}/`,
    maxPages: 5,
    delayMs: 1000,
    hostConcurrency: 1,
    labels: ['role=work'],
  });
  await until('it crawls', () => site.asked.has('/'));
  const control = (action: string) =>
    request<{ paused: boolean }>(bridge, 'POST', `/api/web/crawls/${id}/control`, { action });
  assert.equal((await control('pause')).paused, true);
  await until('the crawling node sees it', async () => (await show(bridge, id)).stage === 'paused');
  await control('resume');
  assert.equal((await reaches(bridge, id, 'completed')).result!.pages, 5);
});
