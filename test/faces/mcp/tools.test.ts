// Tools over every way in and both protocol generations: list, call, errors, limits, progress, cancellation.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Client } from '@modelcontextprotocol/client';
import { until } from '../../helpers/until.ts';
import {
  httpClient,
  oldClient,
  stdioClient,
  sharedToyServer,
  textOf,
  type Mode,
  type ToolAnswer,
} from './clients.ts';

const server = await sharedToyServer();

const modes: [Mode, string][] = [
  ['auto', '2026-07-28'],
  ['legacy', '2025-11-25'],
];
const ways: [string, (t: TestContext, mode: Mode) => Promise<Client>][] = [
  ['http', (t, mode) => httpClient(t, server.url, mode)],
  ['stdio', (t, mode) => stdioClient(t, server.socketPath, mode)],
];

for (const [way, connect] of ways) {
  for (const [mode, version] of modes) {
    test(`${way} ${version}: list, call, read, complete`, async (t) => {
      const client = await connect(t, mode);
      assert.equal(client.getNegotiatedProtocolVersion(), version);
      assert.match(client.getInstructions() ?? '', /wait_for_jobs/);

      const { tools } = await client.listTools();
      assert.deepEqual(
        tools.map((tool) => tool.name),
        ['run_toy', 'get_job', 'list_jobs', 'wait_for_jobs', 'cancel_job', 'set_limit'],
      );
      const [run, get] = tools;
      assert.deepEqual(run!.annotations, {
        readOnlyHint: false,
        destructiveHint: false,
        idempotentHint: false,
        openWorldHint: false,
      });
      assert.equal(get!.annotations?.readOnlyHint, true);
      assert.equal(
        tools.find((tool) => tool.name === 'cancel_job')!.annotations?.destructiveHint,
        true,
      );
      assert.equal(run!.title, 'Run a toy');
      assert.equal(run!.inputSchema.type, 'object');
      assert.equal('$schema' in run!.inputSchema, false);
      assert.equal('additionalProperties' in run!.inputSchema, false);

      const ran = (await client.callTool({
        name: 'run_toy',
        arguments: { ms: 1, exit: 3, waitMs: 20_000 },
      })) as ToolAnswer;
      const job = ran.structuredContent!.job as { id: string; status: string; exitCode: number };
      assert.equal(job.status, 'failed');
      assert.equal(job.exitCode, 3);
      assert.equal(ran.isError ?? false, false, 'a command that failed is no tool error');
      assert.equal(textOf(ran), `${job.id} failed`);

      const wrong = await client.callTool({ name: 'run_toy', arguments: { ms: 'soon' } });
      assert.equal(wrong.isError, true);
      assert.match(textOf(wrong), /^invalidInput: Wrong input for run_toy: ms: /);
      const unknownJob = await client.callTool({ name: 'get_job', arguments: { id: 'job_none' } });
      assert.equal(unknownJob.isError, true);
      assert.match(
        textOf(unknownJob),
        /^notFound: There is no job job_none\.\nlist_jobs finds jobs/,
      );
      const broken = await client.callTool({ name: 'run_toy', arguments: { name: 'broken' } });
      assert.match(textOf(broken), /^internal: /);
      assert.doesNotMatch(textOf(broken), /secret detail/);
      await assert.rejects(client.callTool({ name: 'nothing', arguments: {} }), { code: -32602 });

      const { resources } = await client.listResources();
      assert.ok(resources.some((resource) => resource.uri === `job://${job.id}`));
      const { resourceTemplates } = await client.listResourceTemplates();
      assert.deepEqual(
        resourceTemplates.map((template) => template.uriTemplate),
        ['job://{id}'],
      );
      const { contents } = await client.readResource({ uri: `job://${job.id}` });
      assert.equal(JSON.parse((contents[0] as { text: string }).text).status, 'failed');
      await assert.rejects(client.readResource({ uri: 'job://job_none' }), { code: -32602 });
      const { completion } = await client.complete({
        ref: { type: 'ref/resource', uri: 'job://{id}' },
        argument: { name: 'id', value: job.id.slice(0, -1) },
      });
      assert.ok(completion.values.includes(job.id));
    });

    test(`${way} ${version}: progress while waiting; an abort only stops waiting`, async (t) => {
      const client = await connect(t, mode);
      const started = (await client.callTool({ name: 'run_toy', arguments: {} })) as ToolAnswer;
      const { id } = started.structuredContent!.job as { id: string };
      const heard: number[] = [];
      const stop = new AbortController();
      const waiting = client.callTool(
        { name: 'wait_for_jobs', arguments: { ids: [id] } },
        { signal: stop.signal, onprogress: (update) => heard.push(update.progress) },
      );
      await until('progress is heard', () => heard.length > 0);
      stop.abort();
      await assert.rejects(waiting);
      assert.equal(server.jobs.get(id)!.status, 'running');
      const got = (await client.callTool({ name: 'get_job', arguments: { id } })) as ToolAnswer;
      assert.equal(got.structuredContent!.status, 'running');
      server.finish(id, 0);
    });
  }
}

test('the first SDK works over stdio and HTTP', async (t) => {
  for (const at of [{ socketPath: server.socketPath }, { url: server.url }]) {
    const client = await oldClient(t, at);
    const { tools } = await client.listTools();
    assert.equal(tools.length, 6);
    const answer = await client.callTool({ name: 'list_jobs', arguments: { limit: 1 } });
    assert.equal(answer.isError ?? false, false);
  }
});

test('toolsets add tools; results are bounded and say what was left out', async (t) => {
  const client = await stdioClient(t, server.socketPath, 'auto', { toolsets: 'more' });
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === 'read_big'));
  assert.ok(tools.some((tool) => tool.name === 'run_toy'));
  const answer = await client.callTool({ name: 'read_big', arguments: { bytes: 1_000_000 } });
  assert.ok(Buffer.byteLength(JSON.stringify(answer)) < 100_000);
  assert.match(textOf(answer), /left out: text: \d+ of 1000000 bytes/);
});

test('a key sees only the tools its scopes allow', async (t) => {
  const client = await httpClient(t, server.url, 'auto', 'reader');
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ['get_job', 'list_jobs', 'wait_for_jobs'],
  );
});

test('dialects replace the tools; several at once unless their tools collide', async (t) => {
  const north = await stdioClient(t, server.socketPath, 'auto', { dialects: 'north,west' });
  const { tools } = await north.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ['job_status', 'get_job', 'west_status'],
  );
  assert.equal(north.getInstructions(), 'North tools.');
  const [id] = server.jobs.keys();
  const answer = await north.callTool({ name: 'job_status', arguments: { job_id: id! } });
  assert.match(textOf(answer), /is FAILED|is COMPLETED/);
  const wrong = await north.callTool({ name: 'job_status', arguments: {} });
  assert.equal(wrong.isError, true);

  const both = await stdioClient(t, server.socketPath, 'auto', { dialects: 'north,south' });
  const refused = await both.listTools();
  assert.deepEqual(
    refused.tools.map((tool) => tool.name),
    ['start_errand'],
  );
  const reason = await both.callTool({ name: 'start_errand', arguments: {} });
  assert.equal(reason.isError, true);
  assert.match(textOf(reason), /tools collide: job_status \(north, south\)/);

  const unknown = await stdioClient(t, server.socketPath, 'auto', { dialects: 'east' });
  const told = await unknown.callTool({ name: 'start_errand', arguments: {} });
  assert.match(textOf(told), /There is no dialect `east` with tools\.\nKnown: north, south, west/);

  const response = await fetch(`${server.url}?dialect=north,south`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /tools collide/);
});

test('a front tells its place, and jobs started through it run there', async (t) => {
  const client = await stdioClient(t, server.socketPath, 'auto');
  await client.callTool({ name: 'run_toy', arguments: { name: 'placed' } });
  const call = server.calls.find(({ input }) => (input as { name?: string }).name === 'placed');
  assert.equal(call!.cwd, process.cwd());
});
