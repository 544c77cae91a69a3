// Three real servers on one database: jobs, output, waits, cancel, drain and node loss, through any of them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { startCluster } from '../helpers/cluster.ts';
import { until } from '../helpers/until.ts';
import type { TestServer } from '../helpers/server.ts';

interface Shown {
  id: string;
  status: string;
  exitCode?: number | null;
  error?: { code: string };
  attempts: { number: number };
}

const run = async (node: TestServer, body: Record<string, unknown>): Promise<Shown> => {
  const result = await node.api('POST', '/api/commands', { cwd: '/', waitMs: 0, ...body });
  assert.equal(result.status, 200, result.text);
  return result.json<Shown>();
};
const show = async (node: TestServer, id: string): Promise<Shown> =>
  (await node.api('GET', `/api/jobs/${id}`)).json<Shown>();
const nodeOf = async (node: TestServer) =>
  (await node.api('GET', '/api/nodes')).json<{
    nodes: { id: string; here: boolean; alive: boolean; running: number; state: string }[];
  }>().nodes;
/** Waits until the job has ended with this status. */
const endedAs = (node: TestServer, id: string, status: string): Promise<Shown> =>
  until(`${id} is ${status}`, async () => {
    const one = await show(node, id);
    return one.status === status ? one : undefined;
  });
const started = (node: TestServer, id: string) =>
  until(`${id} runs`, async () => (await show(node, id)).status !== 'queued');
const here = async (node: TestServer) => (await nodeOf(node)).find((one) => one.here)!.id;

test('three servers on one database', async (t) => {
  const cluster = await startCluster(t, 3);
  const { nodes } = cluster;
  const [a, b, c] = nodes as [TestServer, TestServer, TestServer];

  await t.test(
    'every node has the same key and jobs; output and input reach the node that runs the job',
    async () => {
      assert.equal(a.key, b.key);
      const elsewhere = await a.cli(
        ...['run', '--label', `node=${await here(c)}`, '--cwd', '/', '--json', '--', 'sh', '-c'],
        'exit 6',
      );
      assert.equal(elsewhere.code, 6, elsewhere.stderr);
      const metrics = await c.api('GET', '/metrics');
      assert.match(metrics.text, /^errand_nodes\{state="active"\} 3$/m);
      assert.match(metrics.text, /^errand_store_connections\{state="idle"\} \d+$/m);
      assert.equal((await nodeOf(c)).filter(({ alive }) => alive).length, 3);
      const label = `node=${await here(b)}`;
      const job = await run(a, {
        command: 'echo from b; read line; echo got $line',
        stdin: 'open',
        labels: [label],
      });
      await started(c, job.id);
      const wait = await a.api('POST', '/api/wait', {
        ids: [job.id],
        until: { text: 'from b' },
        timeoutMs: 20_000,
      });
      assert.equal(wait.status, 200, wait.text);
      const first = (await c.api('GET', `/api/jobs/${job.id}/output`)).json<{ text: string }>();
      assert.match(first.text, /from b/);
      const sent = await c.api('POST', `/api/jobs/${job.id}/input`, { text: 'hello\n' });
      assert.equal(sent.status, 200, sent.text);
      const ended = await endedAs(a, job.id, 'completed');
      assert.equal(ended.exitCode, 0);
      const whole = (await a.api('GET', `/api/jobs/${job.id}/output`)).json<{ text: string }>();
      assert.match(whole.text, /got hello/);
    },
  );

  await t.test(
    'a cancel through any node stops the job; a drained node gets no new jobs',
    async () => {
      const idB = await here(b);
      const job = await run(a, { command: 'sleep 300', labels: [`node=${idB}`] });
      await started(a, job.id);
      await a.api('POST', `/api/jobs/${job.id}/cancel`, {});
      await endedAs(a, job.id, 'cancelled');
      assert.equal((await a.api('POST', `/api/nodes/${idB}/drain`)).status, 200);
      await until('b sees its state', async () => {
        const held = await run(a, { command: 'true', labels: [`node=${idB}`], waitMs: 1000 });
        return held.status === 'queued';
      });
      const free = await run(a, { command: 'true', waitMs: 20_000 });
      assert.equal(free.status, 'completed');
      assert.equal((await a.api('POST', `/api/nodes/${idB}/uncordon`)).status, 200);
      await until('the queue is empty', async () => {
        const list = (await a.api('GET', '/api/jobs?status=queued')).json<{ jobs: unknown[] }>();
        return list.jobs.length === 0;
      });
    },
  );

  await t.test('a job that no node can take explains why it waits', async () => {
    const why = async (label: string, pattern: RegExp) => {
      const { id } = await run(a, { command: 'true', labels: [label] });
      await until(`${label}: ${pattern}`, async () => {
        const shown = (await b.api('GET', `/api/jobs/${id}`)).json<{ diagnosis?: string }>();
        return pattern.test(shown.diagnosis ?? '');
      });
      assert.match((await b.cli('show', id)).stdout, pattern);
      await a.api('POST', `/api/jobs/${id}/cancel`, {});
    };
    await why('planet=mars', /waits for a node with the label planet=mars; no such node exists/);
    const away = await cluster.add({ args: ['--label', 'rare'] });
    const id = await here(away);
    await a.api('POST', `/api/nodes/${id}/cordon`);
    await until('the node sees its state', async () => {
      const job = await run(a, { command: 'true', labels: ['rare'], waitMs: 500 });
      await a.api('POST', `/api/jobs/${job.id}/cancel`, {});
      return job.status === 'queued';
    });
    await why('rare', new RegExp(`cordoned or draining: .*${id}`));
    await away.stop();
    await why('rare', new RegExp(`offline: .*${id}`));
    await a.api('DELETE', `/api/nodes/${id}`);
  });

  await t.test('a follower of a waiting job is routed to the node that takes it', async () => {
    const idC = await here(c);
    await a.api('POST', `/api/nodes/${idC}/cordon`);
    const label = `node=${idC}`;
    await until('c sees its state', async () =>
      (await nodeOf(a)).some((one) => one.state === 'cordoned'),
    );
    const held = await until('c takes no jobs', async () => {
      const job = await run(a, { command: 'echo there; exit 5', labels: [label], waitMs: 700 });
      return job.status === 'queued' ? job : undefined;
    });
    const following = Promise.all([
      fetch(`${a.url}/api/jobs/${held.id}/output`, {
        headers: { authorization: `Bearer ${a.key}`, accept: 'text/event-stream' },
      }).then((result) => result.text()),
      a.cli('logs', '--follow', held.id),
    ]);
    await a.api('POST', `/api/nodes/${idC}/uncordon`);
    const [events, followed] = await following;
    assert.match(events, /there/);
    assert.equal(followed.stdout, 'there\n', followed.stderr);
    const direct = await a.cli('run', '--label', label, '--cwd', '/', '--', 'echo', 'direct');
    assert.deepEqual([direct.code, direct.stdout], [0, 'direct\n'], direct.stderr);
  });

  await t.test('MCP needs no affinity: one conversation spread over three nodes', async () => {
    let turn = 0;
    // A load balancer without affinity: every request goes to the next node.
    const balanced: typeof fetch = (input, init) => {
      const url = new URL(String(input));
      const node = nodes[turn++ % nodes.length]!;
      return fetch(new URL(url.pathname + url.search, node.url), init);
    };
    const client = new Client({ name: 'test', version: '1' });
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', nodes[0]!.url), {
      fetch: balanced,
      requestInit: { headers: { authorization: `Bearer ${nodes[0]!.key}` } },
    });
    await client.connect(transport);
    const started = (await client.callTool({
      name: 'run_command',
      arguments: { command: 'echo spread', cwd: '/', waitMs: 20_000 },
    })) as { structuredContent: Shown };
    const { id } = started.structuredContent;
    for (let i = 0; i < 6; i++) {
      const result = (await client.callTool({ name: 'get_job', arguments: { id } })) as {
        structuredContent: Shown;
      };
      assert.equal(result.structuredContent.status, 'completed');
      const output = (await client.callTool({ name: 'read_output', arguments: { id } })) as {
        structuredContent: { text: string };
      };
      assert.match(output.structuredContent.text, /spread/);
    }
    await client.close();
    assert.ok(turn >= 12);
  });
  await t.test(
    'after kill -9 of a node a job with attempts left runs elsewhere, and one without keeps its true outcome',
    async () => {
      // A long lease at first, so that a slow restart is still in time.
      const d = await cluster.add({ env: { ERRAND_LEASE_MS: '30000' } });
      const label = `node=${await here(d)}`;
      const marker = randomUUID();
      const once = await run(a, { command: `sleep 1; echo ${marker}; exit 7`, labels: [label] });
      await started(a, once.id);
      await d.kill();
      // Back within its lease: the wrapper kept running, and its exit record is on disk.
      const again = await cluster.add({ home: d.home });
      const ended = await endedAs(a, once.id, 'failed');
      assert.equal(ended.exitCode, 7);
      const output = (await a.api('GET', `/api/jobs/${once.id}/output`)).json<{ text: string }>();
      assert.match(output.text, new RegExp(marker));
      // Permanently gone: the lease expires. The job with attempts left runs on a; the other is lost.
      const twice = await run(a, { command: 'sleep 60', maxAttempts: 3, labels: [label] });
      const never = await run(a, { command: 'sleep 60', labels: [label] });
      for (const { id } of [twice, never]) await started(a, id);
      await again.kill();
      await until(
        'the second attempt waits',
        async () => (await show(a, twice.id)).attempts.number === 2,
      );
      const lost = await endedAs(a, never.id, 'failed');
      assert.equal(lost.error?.code, 'lost');
      const gone = await a.api('GET', `/api/jobs/${never.id}/output`);
      assert.equal(gone.status, 410, gone.text);
      assert.match(gone.text, /last seen/);
      await a.api('POST', `/api/jobs/${twice.id}/cancel`, {});
    },
  );
});
