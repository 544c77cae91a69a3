// Server-sent events and the OpenAPI document, over real sockets.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { until } from '../../helpers/until.ts';
import { call, startKit } from './kit.ts';

const key = 'key-run';
const { port, seen, httpInterface } = await startKit({ limits: { sseKeepAliveMs: 20 } });

interface EventStream {
  text: () => string;
  ended: () => boolean;
  close: () => void;
}

function follow(path: string, headers: Record<string, string> = {}): EventStream {
  let text = '';
  let isEnded = false;
  const sent = request(
    { host: '127.0.0.1', port, path, headers: { 'x-api-key': key, ...headers }, agent: false },
    (response) => {
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('close', () => (isEnded = true));
      response.on('error', () => {});
    },
  );
  sent.on('error', () => {});
  sent.end();
  return { text: () => text, ended: () => isEnded, close: () => sent.destroy() };
}

describe('event streams', () => {
  it('Accept or follow=true starts a stream of items with ids and a final end event', async () => {
    const accept = await call(port, {
      path: '/api/count?to=2',
      key,
      headers: { accept: 'text/event-stream' },
    });
    assert.match(String(accept.headers['content-type']), /^text\/event-stream/);
    assert.equal(
      accept.text,
      'retry: 1000\n\nid: 1\nevent: number\ndata: {"n":1}\n\n' +
        'id: 2\nevent: number\ndata: {"n":2}\n\nevent: end\ndata: {}\n\n',
    );
    const asked = await call(port, { path: '/api/count?to=2&follow=true', key });
    assert.equal(asked.text, accept.text);
    const plain = await call(port, { path: '/api/count?to=2&follow=false', key });
    assert.deepEqual(plain.json, { to: 2 });
    const both = { accept: 'application/json, text/event-stream' };
    assert.deepEqual((await call(port, { path: '/api/count?to=2', key, headers: both })).json, {
      to: 2,
    });
  });

  it('there is one end event, even if the stream sends its own', async () => {
    const { text } = await call(port, { path: '/api/count?to=1&fail=never&follow=true', key });
    assert.ok(text.endsWith('event: end\ndata: {"counted":1}\n\n'), text);
    assert.equal(text.split('event: end').length, 2);
  });

  it('a stream continues after Last-Event-ID', async () => {
    const headers = { accept: 'text/event-stream', 'last-event-id': '3' };
    const response = await call(port, { path: '/api/count?to=4', key, headers });
    assert.ok(response.text.includes('{"n":4}') && !response.text.includes('{"n":3}'));
  });

  it('an early error is sent as a status, a later one as an event', async () => {
    const first = await call(port, { path: '/api/count?to=1&fail=first&follow=true', key });
    assert.equal(first.status, 404);
    assert.equal(first.json.code, 'notFound');
    assert.match(first.json.hint as string, /^Check the id/, 'every error has a hint');
    const last = await call(port, { path: '/api/count?to=1&fail=last&follow=true', key });
    assert.equal(last.status, 200);
    assert.match(last.text, /event: error\ndata: \{.*"code":"gone"/);
    assert.ok(!last.text.includes('event: end'));
    const wrong = await call(port, { path: '/api/count?to=x&follow=true', key });
    assert.equal(wrong.status, 400);
    const cannot = await call(port, { path: '/api/things?follow=true', key });
    assert.equal(cannot.status, 406);
    assert.equal((await call(port, { path: '/api/count?to=1&follow=true' })).status, 401);
  });

  it('a quiet stream gets keep-alive comments and ends when the client disconnects', async () => {
    const stream = follow('/api/count?to=1&forever=true&follow=true');
    await until('two comments', () => stream.text().split(': keep-alive').length > 2);
    stream.close();
    await until('the stream is aborted', () => seen.aborted.includes('count'));
  });

  it('a slow reader receives all of many items', async () => {
    const response = await call(port, { path: '/api/count?to=20000&follow=true', key });
    assert.equal(response.text.split('event: number').length - 1, 20_000);
    assert.ok(response.text.endsWith('event: end\ndata: {}\n\n'));
  });
});

describe('the OpenAPI document', () => {
  it('has consistent references, parameters, ids and schemas', async () => {
    const { json, status } = await call(port, { path: '/openapi.json', key: 'key-read' });
    assert.equal(status, 200);
    assert.equal(json.openapi, '3.1.0');
    const components = json.components as { schemas: Record<string, object> };
    const paths = json.paths as Record<string, Record<string, Route>>;
    const ids = new Set<string>();
    for (const [path, methods] of Object.entries(paths)) {
      for (const route of Object.values(methods)) {
        assert.ok(!ids.has(route.operationId), route.operationId);
        ids.add(route.operationId);
        const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
        const declared = (route.parameters ?? []).filter((p) => p.in === 'path');
        assert.deepEqual(declared.map((p) => p.name).toSorted(), inPath.toSorted());
        assert.ok(declared.every((p) => p.required));
        assert.ok(Object.keys(route.responses).length > 0);
      }
    }
    assert.ok(ids.has('echo') && ids.has('get_thing') && ids.has('health'));
    for (const ref of JSON.stringify(json).matchAll(/"\$ref":"([^"]+)"/g))
      assert.ok(resolve(json, ref[1]!), `${ref[1]} does not resolve`);
    const ajv = new Ajv2020({ strict: false, formats: {} });
    ajv.addSchema({ $id: 'doc', components });
    for (const name of Object.keys(components.schemas))
      assert.ok(ajv.compile({ $ref: `doc#/components/schemas/${name}` }), name);
    const check = ajv.compile({ $ref: 'doc#/components/schemas/TreeInput' });
    assert.ok(check({ root: { name: 'a', children: [{ name: 'b' }] } }));
    assert.ok(!check({ root: { name: 'a', children: [{ nme: 'b' }] } }));
  });

  it('describes path, query and body fields separately', async () => {
    const { json } = await call(port, { path: '/openapi.json', key });
    const paths = json.paths as Record<string, Record<string, Route>>;
    const cancel = paths['/api/things/{id}/cancel']!.post!;
    const body = (json.components as { schemas: Record<string, Body> }).schemas.CancelThingInput!;
    assert.deepEqual(Object.keys(body.properties), ['why', 'force']);
    assert.deepEqual(body.required, ['why']);
    assert.equal(cancel.requestBody!.required, true);
    const list = paths['/api/things']!.get!;
    assert.equal(list.requestBody, undefined);
    assert.ok(list.parameters!.every((p) => p.in === 'query'));
    assert.deepEqual(paths['/api/things/{id}']!.get!.security, [{}, { bearer: [] }]);
  });
});

describe('stop', () => {
  it('ends event streams immediately, without an end event', async () => {
    const stream = follow('/api/count?to=1&forever=true&follow=true');
    await until('it is open', () => stream.text().includes('{"n":1}'));
    await httpInterface.stop();
    await until('it is closed', () => stream.ended());
    assert.ok(!stream.text().includes('event: end'));
  });
});

interface Route {
  operationId: string;
  parameters?: { name: string; in: string; required: boolean }[];
  requestBody?: { required: boolean };
  responses: object;
  security?: object[];
}

interface Body {
  properties: object;
  required: string[];
}

function resolve(root: unknown, ref: string): unknown {
  assert.ok(ref.startsWith('#/'), ref);
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], root);
}
