// Every error below /v2 has the format that the clients of its plane read, even if it occurs before a route is
// reached.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { client, startEndpoints } from '../../helpers/endpoint.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const mebibyte = 1024 * 1024;

test('all errors of the data plane have the form {error}', async (t) => {
  const server = await startEndpoints(t);
  await server.save('ep', {});
  const stranger = client(server.url, 'no-such-key');
  const wanted: [string, number, RegExp, ReturnType<typeof server.call>][] = [
    ['a wrong key', 401, /key/, stranger.call('GET', '/v2/ep/health')],
    ['a wrong key of a worker', 401, /key/, stranger.call('GET', '/v2/ep/job-take/w1')],
    ['an unknown endpoint', 404, /nobody/, server.call('POST', '/v2/nobody/run', { input: 1 })],
    ['an unknown job', 404, /nothing/, server.call('GET', '/v2/ep/status/nothing')],
    ['an unknown route', 404, /does not exist/, server.call('GET', '/v2/ep/nowhere')],
    ['a broken escape', 400, /escape/, server.call('GET', '/v2/ep/status/%zz')],
    ['a wrong method', 405, /GET/, server.call('GET', '/v2/ep/run')],
    ['bad JSON', 400, /not JSON/, server.call('POST', '/v2/ep/run', '{"input"')],
    ['no input', 400, /input/, server.call('POST', '/v2/ep/run', { policy: {} })],
    [
      'a time too short',
      400,
      /^policy\.executionTimeout: .*5000$/,
      server.call('POST', '/v2/ep/run', { input: 1, policy: { executionTimeout: 1 } }),
    ],
    ['no policy', 400, /policy/, server.call('POST', '/v2/ep/run', { input: 1, policy: 'fast' })],
    ['a batch of nothing', 400, /array/, server.call('POST', '/v2/ep/batch', 'null')],
    ['a batch of a number', 400, /array/, server.call('POST', '/v2/ep/batch', '5')],
    ['a batch without a name', 400, /object/, server.call('PUT', '/v2/ep/batch/b', 'null')],
    ['no requests', 400, /object/, server.call('POST', '/v2/ep/batch/b/requests', 'null')],
    ['over 10 MB', 413, /larger/, server.call('POST', '/v2/ep/run', big(10 * mebibyte + 1))],
    ['over 20 MB', 413, /larger/, server.call('POST', '/v2/ep/runsync', big(20 * mebibyte + 1))],
  ];
  for (const [what, status, text, answered] of wanted) {
    const { status: code, body, headers } = await answered;
    assert.equal(code, status, what);
    assert.match(headers.get('content-type')!, /^application\/json/, what);
    assert.equal(typeof body.error, 'string', what);
    assert.match(body.error as string, text, what);
    assert.equal('title' in body, false, what);
    if (status === 401) assert.equal(headers.get('www-authenticate'), 'Bearer');
    if (status === 405) assert.equal(headers.get('allow'), 'POST');
  }
  const unknown = await server.call('GET', '/v2/nobody/health');
  assert.match(unknown.body.hint as string, /^GET \/v2\/serverless shows/, 'it names routes');
  const foreign = await byHost(server.url, 'evil.example', '/v2/ep/health');
  assert.equal(foreign.status, 403);
  assert.match(foreign.body.error as string, /evil\.example/);
});

test('the control plane returns problem details, /openai the format of OpenAI', async (t) => {
  const server = await startEndpoints(t);
  const stranger = client(server.url, 'no-such-key');
  for (const [path, status] of [
    ['/v2/serverless', 401],
    ['/v2/serverless/x/nowhere', 401],
    ['/v2/pods', 401],
    ['/v2/billing/serverless', 401],
  ] as const) {
    const { status: code, body, headers } = await stranger.call('GET', path);
    assert.equal(code, status);
    assert.equal(headers.get('content-type'), 'application/problem+json');
    const { title, status: reported, detail, errors } = body;
    assert.deepEqual([title, reported, errors], ['Unauthorized', 401, []]);
    assert.match(detail as string, /key/);
  }
  const made = { name: 'x', type: 'QUEUE', scaling: { type: 'QUEUE_DELAY' } };
  for (const [more, error] of [
    [{ image: 5 }, '$: image: not an image name'],
    [{ image: 'file://elsewhere/a.js' }, /^\$: image: .*not a file on this machine/],
    [{ args: ['-v'] }, "$: 'args' require an 'image'"],
    [{ workers: { min: 'a' } }, /^workers\.min: /],
    [{ workers: { idleTimeout: 0 } }, /^\$: workers\.idleTimeout: .* from 1 to 3600$/],
    [{ timeout: 10 }, /^timeout: .*5000$/],
    [{ bogus: 1 }, "$: additional properties 'bogus' not allowed"],
  ] as const) {
    const { status, body } = await server.call('POST', '/v2/serverless', { ...made, ...more });
    assert.equal(status, 400, JSON.stringify(more));
    const [reported] = body.errors as string[];
    if (typeof error === 'string') assert.equal(reported, error);
    else assert.match(reported!, error);
  }
  const flat = await server.call('POST', '/v2/serverless', { ...made, workers: 3 });
  assert.deepEqual([flat.status, flat.body.detail], [400, '`workers` is not a JSON object.']);
  const unknown = await server.call('GET', '/v2/serverless/x/nowhere');
  assert.deepEqual([unknown.status, unknown.body.title], [404, 'Not Found']);
  const pods = await server.call('GET', '/v2/pods');
  assert.deepEqual(
    [pods.status, pods.body.title, pods.headers.get('content-type')],
    [404, 'Not Found', 'application/problem+json'],
  );
  const query = { query: '{ myself { id } }' };
  assert.equal((await stranger.call('POST', '/graphql', query)).status, 401);
  const graphql = await server.call('POST', '/graphql', query);
  assert.equal(graphql.status, 200, 'clients report a 401 or 404 as a wrong key');
  assert.match(JSON.stringify(graphql.body.errors), /no GraphQL API/);
  const method = await server.call('PUT', '/v2/serverless/x');
  assert.deepEqual([method.status, method.body.title], [405, 'Method Not Allowed']);
  const openai = await stranger.call('POST', '/v2/ep/openai/v1/chat/completions', {});
  assert.equal(openai.status, 401);
  const { message, type } = openai.body.error as Record<string, unknown>;
  assert.match(message as string, /key/);
  assert.equal(type, 'invalid_request_error');
  const own = await stranger.call('GET', '/api/jobs');
  assert.equal(own.headers.get('content-type'), 'application/problem+json; charset=utf-8');
  assert.equal(own.body.code, 'unauthorized');
});

test('the rate limit of the server is reported in the same format, with the time to wait', async (t) => {
  const home = tempFolder(t);
  const http = { addressRate: 1, addressBurst: 5 };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ http }));
  const stranger = client((await startEndpoints(t, { home })).url, 'no-such-key');
  const limited = await until('the rate', async () => {
    const answer = await stranger.call('GET', '/v2/ep/health');
    return answer.status === 429 ? answer : undefined;
  });
  assert.match(limited.body.error as string, /Too many calls/);
  assert.ok(Number(limited.headers.get('retry-after')) >= 1);
});

const big = (bytes: number): string => JSON.stringify({ input: 'x'.repeat(bytes) });

function byHost(
  url: string,
  host: string,
  path: string,
): Promise<{ status: number; body: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const call = request(`${url}${path}`, { headers: { host } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () =>
        resolve({
          status: response.statusCode!,
          body: JSON.parse(text) as Record<string, unknown>,
        }),
      );
    });
    call.on('error', reject).end();
  });
}
