// Tools over every transport and both protocol generations: list, call, errors, limits, progress, cancellation.
import type { Omitted } from '../../../src/runtime/response-budget.ts';
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
  type ToolResult,
} from './clients.ts';

const server = await sharedToyServer();

const modes: [Mode, string][] = [
  ['auto', '2026-07-28'],
  ['legacy', '2025-11-25'],
];
const transports: [string, (t: TestContext, mode: Mode) => Promise<Client>][] = [
  ['http', (t, mode) => httpClient(t, server.url, mode)],
  ['stdio', (t, mode) => stdioClient(t, server.socketPath, mode)],
];

for (const [transport, connect] of transports) {
  for (const [mode, version] of modes) {
    test(`${transport} ${version}: list, call, read, complete`, async (t) => {
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
      })) as ToolResult;
      const job = ran.structuredContent!.job as { id: string; status: string; exitCode: number };
      assert.equal(job.status, 'failed');
      assert.equal(job.exitCode, 3);
      assert.equal(ran.isError ?? false, false, 'a failed command is not a tool error');
      assert.equal(textOf(ran), `${job.id} failed`);

      const wrong = await client.callTool({ name: 'run_toy', arguments: { ms: 'soon' } });
      assert.equal(wrong.isError, true);
      assert.match(textOf(wrong), /^invalidInput: Invalid input for run_toy: ms: /);
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

    test(`${transport} ${version}: a wait reports progress, and an abort only ends the wait`, async (t) => {
      const client = await connect(t, mode);
      const started = (await client.callTool({ name: 'run_toy', arguments: {} })) as ToolResult;
      const { id } = started.structuredContent!.job as { id: string };
      const updates: number[] = [];
      const stop = new AbortController();
      const waiting = client.callTool(
        { name: 'wait_for_jobs', arguments: { ids: [id] } },
        { signal: stop.signal, onprogress: (update) => updates.push(update.progress) },
      );
      await until('progress arrives', () => updates.length > 0);
      stop.abort();
      await assert.rejects(waiting);
      assert.equal(server.jobs.get(id)!.status, 'running');
      const got = (await client.callTool({ name: 'get_job', arguments: { id } })) as ToolResult;
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
    const result = await client.callTool({ name: 'list_jobs', arguments: { limit: 1 } });
    assert.equal(result.isError ?? false, false);
  }
});

test('toolsets add tools, and limited results report omitted data', async (t) => {
  const client = await stdioClient(t, server.socketPath, 'auto', { toolsets: 'more' });
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === 'read_big'));
  assert.ok(tools.some((tool) => tool.name === 'run_toy'));
  const result = await client.callTool({ name: 'read_big', arguments: { bytes: 1_000_000 } });
  assert.ok(Buffer.byteLength(JSON.stringify(result)) < 100_000);
  const { text, omitted } = result.structuredContent as { text: string; omitted: Omitted };
  assert.equal(Buffer.byteLength(text) + omitted.bytes!, 1_000_000);
  assert.equal(omitted.reason, 'response limit: text shortened');
  assert.deepEqual(JSON.parse(textOf(result)), result.structuredContent);
});

test('a key sees only the tools its scopes allow', async (t) => {
  const client = await httpClient(t, server.url, 'auto', 'reader');
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ['get_job', 'list_jobs', 'wait_for_jobs'],
  );
});

test('dialects replace the tools, and combine unless they define the same tool names', async (t) => {
  const north = await stdioClient(t, server.socketPath, 'auto', { dialects: 'north,west' });
  const { tools } = await north.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ['job_status', 'get_job', 'west_status'],
  );
  assert.equal(north.getInstructions(), 'North tools.');
  const [id] = server.jobs.keys();
  const result = await north.callTool({ name: 'job_status', arguments: { job_id: id! } });
  assert.match(textOf(result), /is FAILED|is COMPLETED/);
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
  assert.match(textOf(reason), /define the same tool names: job_status \(north, south\)/);

  const unknown = await stdioClient(t, server.socketPath, 'auto', { dialects: 'east' });
  const error = await unknown.callTool({ name: 'start_errand', arguments: {} });
  assert.match(
    textOf(error),
    /Dialect `east` does not exist or has no tools\.\nAvailable dialects: north, south, west/,
  );

  const response = await fetch(`${server.url}?dialect=north,south`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /define the same tool names/);
});

test('jobs started through a bridge run in its folder', async (t) => {
  const client = await stdioClient(t, server.socketPath, 'auto');
  await client.callTool({ name: 'run_toy', arguments: { name: 'placed' } });
  const call = server.calls.find(({ input }) => (input as { name?: string }).name === 'placed');
  assert.equal(call!.cwd, process.cwd());
});
