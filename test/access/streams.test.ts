// Streams with limited keys, and streams whose key expires: events, a crawl's WebSocket and MCP subscriptions. Interfaces do
// not depend on the store, so one store is enough; test/access/limits.test.ts checks the limits on both.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { startApp } from '../helpers/app.ts';
import { until } from '../helpers/until.ts';
import { envelope } from '../interfaces/mcp/json-rpc.ts';
import { openInterfaces } from './interfaces.ts';

const later = '2999-01-01T00:00:00Z';
const ends = ['expired', 'revoked', 'rotated'] as const;

test('streams respect the limits of their key and end with it', async (t) => {
  const { app, call } = await startApp(t);
  const { url } = await openInterfaces(t, app);
  const ann = { caller: { owner: 'ann' } };
  const command = async (queue: string) =>
    (await call<{ id: string }>('run_command', { argv: ['true'], runAt: later, waitMs: 0, queue }, ann)).id; // prettier-ignore
  const [ci, other] = [await command('ci'), await command('default')];
  // No server has this label, so the job waits as long as it is watched.
  const { job: crawl } = await app.jobs.submit({
    ...{ kind: 'web', action: 'crawl', owner: 'ann', labels: ['none'] },
    input: { url: 'http://127.0.0.1:1/', maxPages: 1 },
  });
  const create = (request: object) =>
    call<{ key: string; id: string }>('create_key', { owner: 'ann', ...request });

  const watch = (key: string) =>
    new WebSocket(`${url.replace('http', 'ws')}/firecrawl/v2/crawl/${crawl.id}`, key);
  const follow = async (key: string, id: string) => {
    const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' };
    return fetch(`${url}/api/jobs/${id}/events`, { headers });
  };
  const method = { 'mcp-method': 'subscriptions/listen' };
  const listen = async (key: string, notifications: object, named: object = method) => {
    const params = { notifications, _meta: envelope({ tasks: true }) };
    return fetch(`${url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        ...named,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params }),
    });
  };
  /** The content of a stream, and whether it has ended. */
  const collect = (response: Response) => {
    const state = { text: '', isOver: false };
    const read = async () => {
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream()))
        state.text += chunk;
    };
    void read()
      .catch(() => {})
      .finally(() => (state.isOver = true));
    return state;
  };

  await t.test('a WebSocket is rejected outside the limits of the key', async () => {
    for (const limit of [
      { kinds: ['command'] },
      { queues: ['ci'] },
      { subject: 'endpoint:none' },
      { owner: 'bob' },
      { scopes: ['worker'] },
    ]) {
      const { key } = await create(limit);
      const socket = watch(key);
      const messages: string[] = [];
      socket.addEventListener('message', ({ data }) => messages.push(String(data)));
      socket.addEventListener('error', () => {});
      await once(socket, 'close');
      const text = JSON.stringify(limit);
      assert.ok(messages.every((one) => one.includes('"error"')), `${text}: ${messages.join()}`); // prettier-ignore
      assert.ok(
        messages.every((one) => !one.includes('"data":[')),
        `${text}: ${messages.join()}`,
      );
    }
  });

  await t.test('an MCP client receives only jobs within the limits of the key', async () => {
    const { key } = await create({ queues: ['ci'] });
    const all = collect(await listen(key, { taskIds: [ci, other, crawl.id] }));
    await until('it is acknowledged', () => all.text.includes('acknowledged'));
    assert.ok(all.text.includes(ci), all.text);
    await call('cancel_job', { id: other }, ann);
    await call('cancel_job', { id: ci }, ann);
    await until('the job in its queue is reported', () => all.text.includes('cancelled'));
    assert.ok(!all.text.includes(other) && !all.text.includes(crawl.id), all.text);
  });

  await t.test('a listen request must declare itself in its headers', async () => {
    const { key } = await create({});
    for (const named of [{}, { 'mcp-method': 'tools/list' }])
      assert.equal((await listen(key, {}, named)).status, 400, 'it would outlive its key');
  });

  await t.test('no stream opens with an ended key, and open ones end', async () => {
    const open = await command('ci');
    await Promise.all(
      ends.map(async (end) => {
        const { key, id } = await create(end === 'expired' ? { expiresInMs: 3000 } : {});
        const socket = watch(key);
        await once(socket, 'message');
        const closed = once(socket, 'close');
        const streams = [
          collect(await follow(key, open)),
          collect(await listen(key, { taskIds: [open] })),
        ];
        await until('both streams have sent something', () =>
          streams.every(({ text }) => text !== ''),
        );
        if (end === 'revoked') await call('revoke_key', { id });
        if (end === 'rotated') await call('rotate_key', { id });
        await until(`streams end: ${end}`, () => streams.every(({ isOver }) => isOver));
        await closed;
        for (const response of [await follow(key, open), await listen(key, {})])
          assert.equal(response.status, 401, end);
        const rejected = watch(key);
        await once(rejected, 'error');
      }),
    );
  });
});
