// The `openai` package, unmodified, against /openai/v1 of an endpoint; RunPod's batch routes; the MCP dialect's tools.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { handlerFile, startEndpoints, type EndpointServer } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const require = createRequire(join(import.meta.dirname, '../../package.json'));

test('a caller that disconnects cancels its job according to cancelOnDisconnect', async (t) => {
  const server = await startEndpoints(t);
  const file = join(tempFolder(t), 'slow.mjs');
  writeFileSync(
    file,
    `const forever = () => new Promise(() => {});
     async function* stream() { yield { id: 'c' }; await forever(); }
     export default ({ input }) => (input.openai_input?.stream ? stream() : forever());`,
  );
  await server.save('slow', { recipe: { module: file }, concurrency: 10, stopMs: 200 });
  const runs = (id: string) =>
    until('it runs', async () => {
      const { body } = await server.call('GET', `/v2/slow/status/${id}`);
      return body.status === 'IN_PROGRESS';
    });
  const leave = async (path: string, body: unknown) => {
    const before = new Set(await jobIds(server));
    const stop = new AbortController();
    const headers = { authorization: server.key };
    const init = { method: 'POST', headers, body: JSON.stringify(body), signal: stop.signal };
    const call = fetch(`${server.url}${path}`, init).then((response) => response.text());
    const id = await until('it is there', async () =>
      (await jobIds(server)).find((known) => !before.has(known)),
    );
    await runs(id);
    stop.abort();
    await assert.rejects(call);
    return id;
  };
  const streamed = await leave('/v2/slow/openai/v1/chat/completions', { stream: true });
  assert.equal((await server.ended('slow', streamed)).status, 'CANCELLED');
  const kept = await leave('/v2/slow/runsync', { input: {} });
  await server.save('slow', { cancelOnDisconnect: 'always' });
  for (const [path, body] of [
    ['/v2/slow/runsync', { input: {} }],
    ['/v2/slow/openai/v1/completions', {}],
  ] as const)
    assert.equal((await server.ended('slow', await leave(path, body))).status, 'CANCELLED', path);
  await runs(kept);
});

async function jobIds(server: EndpointServer): Promise<string[]> {
  const { body } = await server.call('GET', '/v2/slow/requests');
  return (body.requests as { id: string }[]).map(({ id }) => id);
}

test('openai: a completion, a stream, models and an error', async (t) => {
  const server = await startEndpoints(t);
  const file = join(tempFolder(t), 'llm.mjs');
  writeFileSync(
    file,
    `const chunk = (content) => ({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm',
       choices: [{ index: 0, delta: { content }, finish_reason: null }] });
     export default function ({ input }) {
       if (input.openai_route === '/v1/models') return { object: 'list', data: [{ id: 'm', object: 'model' }] };
       if (input.openai_input.model === 'none') throw new Error('no such model');
       if (input.openai_input.stream) return stream();
       const content = 'You said ' + input.openai_input.messages[0].content;
       return { id: 'c', object: 'chat.completion', created: 1, model: 'm',
         choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] };
     }
     async function* stream() {
       yield chunk('one ');
       yield 'data: ' + JSON.stringify(chunk('two')) + '\\n\\n';
     }`,
  );
  await server.save('llm', { recipe: { module: file } });
  const { OpenAI } = (await import(require.resolve('openai'))) as typeof import('openai');
  const baseURL = `${server.url}/v2/llm/openai/v1`;
  const openai = new OpenAI({ apiKey: server.key, baseURL, maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'hello' }];
  const answer = await openai.chat.completions.create({ model: 'm', messages });
  assert.equal(answer.choices[0]!.message.content, 'You said hello');
  const stream = await openai.chat.completions.create({ model: 'm', messages, stream: true });
  let text = '';
  for await (const part of stream) text += part.choices[0]?.delta.content ?? '';
  assert.equal(text, 'one two');
  const models = await openai.models.list();
  assert.equal(models.data[0]!.id, 'm');
  await assert.rejects(
    openai.chat.completions.create({ model: 'none', messages }),
    /no such model/,
  );
  const broken = await openai.chat.completions.create({ model: 'none', messages, stream: true });
  const read = async () => {
    for await (const part of broken) assert.ok(part);
  };
  await assert.rejects(read(), /no such model/, 'even in the middle of a stream');
  const refused = (options: { apiKey?: string; baseURL?: string }) =>
    new OpenAI({ apiKey: server.key, baseURL, maxRetries: 0, ...options }).models.list();
  await assert.rejects(refused({ apiKey: 'wrong' }), (error: Error & { status?: number }) => {
    assert.match(error.message, /valid API key/);
    return error.status === 401;
  });
  const nobody = `${server.url}/v2/nobody/openai/v1`;
  await assert.rejects(refused({ baseURL: nobody }), /404.*nobody/);
});

test("RunPod's batch routes: draft, add, remove, finalize, page, cancel", async (t) => {
  const server = await startEndpoints(t);
  await server.save('many', { recipe: { module: handlerFile }, concurrency: 8, maxWorkers: 1 });
  const post = async (path: string, body?: unknown) =>
    (await server.call('POST', `/v2/many${path}`, body ?? '')).body;
  const made = await post('/batch', [{ input: { n: 0 } }]);
  assert.equal(made.status, 'DRAFT');
  const batch = `/batch/${made.id as string}`;
  const requests = Array.from({ length: 30 }, (_, i) => ({ input: { n: i + 1 } }));
  const added = (await post(`${batch}/requests`, { requests })).requests as { id: string }[];
  await server.call('DELETE', `/v2/many${batch}/requests/${added[29]!.id}`);
  assert.equal((await post(`${batch}/finalize`)).status, 'FINALIZED');
  assert.equal((await server.call('POST', `/v2/many${batch}/requests`, { requests })).status, 400);
  await until('all are done', async () => {
    const { body } = await server.call('GET', `/v2/many${batch}`);
    return body.requestCompleted === 30 && body.requestTotal === 30;
  });
  const page = await server.call('GET', `/v2/many${batch}/requests?offset=10&limit=5`);
  assert.deepEqual(
    (page.body.requests as { output: { n: number } }[]).map(({ output }) => output.n),
    [10, 11, 12, 13, 14],
  );
  assert.equal(page.body.hasMore, true);

  await server.save('idle', {});
  const inputs = Array.from({ length: 600 }, (_, n) => n);
  const parent = await server.call('POST', '/api/endpoints/idle/batches', { inputs });
  const path = `/v2/idle/batch/${parent.body.id as string}`;
  assert.equal((await server.call('POST', `${path}/cancel`, '')).body.status, 'CANCELLED');
  const { body } = await server.call('GET', '/v2/idle/health');
  assert.equal((body.jobs as Record<string, number>).inQueue, 0);
});

test('a client that disconnects before the first chunk leaves no busy loop', async (t) => {
  const server = await startEndpoints(t);
  await server.save('mute', {});
  const url = `${server.url}/v2/mute/openai/v1/chat/completions`;
  const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' };
  const leave = new AbortController();
  const asked = [true, false].map((stream) =>
    fetch(url, {
      method: 'POST',
      headers,
      body: JSON.stringify({ model: 'm', messages: [], stream }),
      signal: leave.signal,
    }).then((response) => response.text()),
  );
  const inQueue = async () => {
    const { body } = await server.call('GET', '/v2/mute/health');
    return (body.jobs as Record<string, number>).inQueue;
  };
  await until('both wait', async () => (await inQueue()) === 2);
  leave.abort();
  for (const one of asked) await assert.rejects(one, { name: 'AbortError' });
  await until('only the job of the stream is cancelled', async () => (await inQueue()) === 1);
  // The window of the measurement, not a wait for an event.
  const before = performance.eventLoopUtilization();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const { utilization } = performance.eventLoopUtilization(before);
  assert.ok(utilization < 0.9, `the server is idle, but its loop is ${utilization} busy`);
  assert.equal(await inQueue(), 1, 'the other job still waits');
  await server.stop();
});
