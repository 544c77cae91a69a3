// Invalid parameters are reported as the caller's error in every method and protocol revision: -32602, never -32603.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedToyServer } from './clients.ts';
import { postModern, type Reply } from './json-rpc.ts';

const server = await sharedToyServer();

const invalid: [method: string, params: Record<string, unknown>][] = [
  ['tools/call', {}],
  ['tools/call', { name: 7 }],
  ['tools/call', { name: 'constructor' }],
  ['tools/call', { name: 'get_job', arguments: 'text' }],
  ['tools/call', { name: 'get_job', arguments: [1] }],
  ['tools/call', { name: 'get_job', arguments: null }],
  ['tools/list', { cursor: 7 }],
  ['resources/list', { cursor: {} }],
  ['resources/read', {}],
  ['resources/read', { uri: 7 }],
  ['completion/complete', {}],
  ['completion/complete', { ref: { type: 'nothing' }, argument: { name: 'id', value: '' } }],
  ['tasks/get', {}],
  ['tasks/get', { taskId: 7 }],
  ['tasks/cancel', { taskId: {} }],
];

for (const [method, params] of invalid) {
  test(`${method} rejects ${JSON.stringify(params)}`, async () => {
    for (const reply of [
      await postModern(server.url, method, params, { tasks: true }),
      await postOld(method, params),
    ]) {
      const code = reply.error?.code;
      // -32601: the method does not exist in this revision.
      assert.ok(code === -32602 || code === -32601, JSON.stringify(reply));
    }
  });
}

/** A client of 2025-11-25 without a session. */
async function postOld(method: string, params: Record<string, unknown>): Promise<Reply> {
  const response = await fetch(server.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const body = await response.text();
  const data = body.startsWith('{') ? body : body.match(/^data: (.*)$/m)![1]!;
  return JSON.parse(data) as Reply;
}
