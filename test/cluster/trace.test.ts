// Traces with the real program and a minimal OTLP collector: one trace from the caller through the call, the attempt and
// the command itself, on one machine and across two nodes.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test, type TestContext } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { parseTraceparent, formatTraceparent } from '../../src/runtime/trace.ts';
import { startCluster } from '../helpers/cluster.ts';
import { bin, serverEnv, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface SpanJson {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, unknown> }[];
  status: { code?: number; message?: string };
}

async function startCollector(t: TestContext) {
  const spans: (SpanJson & { instance: string })[] = [];
  const seen = { headers: {} as Record<string, unknown>, path: '', away: false, refusals: 0 };
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      if (seen.away) {
        seen.refusals += 1;
        return response.writeHead(503).end();
      }
      seen.headers = request.headers;
      seen.path = request.url!;
      const { resourceSpans } = JSON.parse(text) as {
        resourceSpans: {
          resource: { attributes: SpanJson['attributes'] };
          scopeSpans: { spans: SpanJson[] }[];
        }[];
      };
      for (const { resource, scopeSpans } of resourceSpans) {
        const instance = valueOf(resource, 'service.instance.id') as string;
        assert.equal(valueOf(resource, 'service.name'), 'jobs of the team');
        for (const scope of scopeSpans)
          spans.push(...scope.spans.map((span) => ({ ...span, instance })));
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  const { port } = server.address() as { port: number };
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=a%20b',
    OTEL_SERVICE_NAME: 'jobs of the team',
  };
  const find = (name: string, traceId: string) =>
    until(`a span ${name}`, () =>
      spans.find((span) => span.name === name && span.traceId === traceId),
    );
  return { spans, seen, env, find };
}

const valueOf = ({ attributes }: { attributes: SpanJson['attributes'] }, name: string) =>
  Object.values(attributes.find(({ key }) => key === name)?.value ?? {})[0];

const caller = { traceId: 'a'.repeat(31) + '1', spanId: 'b'.repeat(15) + '2', sampled: true };

const run = async (node: TestServer, command: string, more: object, traceparent: string) => {
  const body = { command, cwd: '/', waitMs: 20_000, ...more };
  const result = await node.api('POST', '/api/commands', body, { traceparent });
  assert.equal(result.status, 200, result.text);
  return result.json<{ id: string; exitCode: number; output?: { text: string } }>();
};

test('a valid traceparent is parsed and an invalid one is ignored', () => {
  const text = formatTraceparent(caller);
  assert.deepEqual(parseTraceparent(text), caller);
  assert.equal(parseTraceparent(text.replace(/01$/, '00'))!.sampled, false);
  for (const wrong of [
    '',
    'x',
    undefined,
    text.toUpperCase(),
    `00-${'0'.repeat(32)}-${caller.spanId}-01`,
  ])
    assert.equal(parseTraceparent(wrong), undefined);
});

test('one trace spans the caller and the command; an unreachable collector loses only spans', async (t) => {
  const collector = await startCollector(t);
  const server = await startServer(t, { env: collector.env });
  collector.seen.away = true;
  const traceparent = formatTraceparent(caller);
  const job = await run(server, 'echo "<$TRACEPARENT>"; exit 4', {}, traceparent);
  assert.equal(job.exitCode, 4);
  await until('an export was tried', () => collector.seen.refusals > 0);
  collector.seen.away = false;
  const call = await collector.find('run_command', caller.traceId);
  assert.deepEqual([call.parentSpanId, call.kind], [caller.spanId, 2]);
  const attempt = await collector.find('attempt command', caller.traceId);
  assert.deepEqual([attempt.parentSpanId, attempt.kind], [call.spanId, 5]);
  assert.equal(valueOf(attempt, 'errand.job.id'), job.id);
  assert.equal(valueOf(attempt, 'errand.outcome'), 'failed');
  assert.deepEqual(attempt.status, { code: 2, message: 'exitCode' });
  assert.ok(BigInt(attempt.endTimeUnixNano) >= BigInt(attempt.startTimeUnixNano));
  const own = formatTraceparent({ ...caller, spanId: attempt.spanId });
  assert.ok(job.output!.text.includes(`<${own}>`), job.output!.text);
  assert.deepEqual(
    [collector.seen.path, collector.seen.headers['x-tenant']],
    ['/v1/traces', 'a b'],
  );

  const quiet = { ...caller, traceId: 'c'.repeat(32), sampled: false };
  await run(server, 'true', {}, formatTraceparent(quiet));
  const wrong = await server.api('POST', '/api/commands', { nonsense: 1 }, { traceparent });
  assert.equal(wrong.status, 400);
  const failed = await until('the rejected call', () =>
    collector.spans.find(({ status }) => status.message === 'invalidInput'),
  );
  assert.equal(failed.traceId, caller.traceId);
  assert.ok(collector.spans.every(({ traceId }) => traceId !== quiet.traceId));
  await server.stop();
});

test('a call that another node handles is one trace', async (t) => {
  const collector = await startCollector(t);
  const cluster = await startCluster(t, 0, { env: collector.env });
  const [a, b] = (await Promise.all(
    ['at=a', 'at=b'].map((label) => cluster.add({ env: { ERRAND_LABELS: label } })),
  )) as [TestServer, TestServer];
  const job = await run(a, 'echo there', { labels: ['at=b'] }, formatTraceparent(caller));
  const attempt = await collector.find('attempt command', caller.traceId);
  const reader = { ...caller, traceId: 'd'.repeat(32) };
  const headers = { traceparent: formatTraceparent(reader) };
  const read = await a.api('GET', `/api/jobs/${job.id}/output`, undefined, headers);
  assert.match(read.text, /there/);
  const here = await collector.find('read_output here', reader.traceId);
  const asked = await collector.find('read_output', reader.traceId);
  assert.equal(here.parentSpanId, asked.spanId);
  assert.equal(here.instance, attempt.instance, 'the node that ran it');
  assert.notEqual(asked.instance, here.instance);
  await b.stop();
});

test('a trace continues from an MCP client: `_meta.traceparent`, over HTTP and stdio, in both protocol eras', async (t) => {
  const collector = await startCollector(t);
  const server = await startServer(t, { env: collector.env });
  const http = () =>
    new StreamableHTTPClientTransport(new URL('/mcp', server.url), {
      // The trace of the request itself takes precedence over that of its transport.
      requestInit: {
        headers: {
          authorization: `Bearer ${server.key}`,
          traceparent: formatTraceparent({ ...caller, traceId: 'e'.repeat(32) }),
        },
      },
    });
  const env = serverEnv(server.home, collector.env) as Record<string, string>;
  const stdio = () =>
    new StdioClientTransport({
      command: process.execPath,
      args: [bin, 'mcp'],
      env,
      stderr: 'ignore',
    });
  let n = 0;
  for (const transport of [http, stdio])
    for (const mode of ['auto', 'legacy'] as const) {
      const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
      t.after(() => client.close());
      await client.connect(transport());
      const mine = { ...caller, traceId: `${++n}`.repeat(32) };
      const _meta = { traceparent: formatTraceparent(mine) };
      const input = { command: 'echo "<$TRACEPARENT>"', cwd: '/', waitMs: 20_000 };
      const { structuredContent } = await client.callTool({
        name: 'run_command',
        arguments: input,
        _meta,
      });
      const call = await collector.find('run_command', mine.traceId);
      assert.equal(call.parentSpanId, mine.spanId, `${mode} ${n}`);
      const { output } = structuredContent as { output: string };
      assert.ok(output.includes(mine.traceId), output);
      // A read-only tool takes the fast path through the stdio bridge and keeps its trace.
      await client.callTool({ name: 'list_jobs', arguments: {}, _meta });
      const read = await collector.find('list_jobs', mine.traceId);
      assert.equal(read.parentSpanId, mine.spanId);
    }
  assert.ok(collector.spans.every(({ traceId }) => !/^e+$/.test(traceId)));
});
