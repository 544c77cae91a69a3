// Endpoint settings: what a save changes, new versions, deletion with workers that ignore signals, the published
// schema, and scaling between bursts.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../../src/kinds/endpoint/workers/process.ts';
import { handlerFile, startEndpoints, type EndpointServer } from '../../helpers/endpoint.ts';
import { sharedEndpoints } from '../../helpers/shared-endpoints.ts';
import { homeWith, tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

const root = join(import.meta.dirname, '../../..');

test('a save changes only the given fields', async () => {
  const server = await sharedEndpoints();
  const made = { maxWorkers: 7, leaseMs: 5000, maxQueue: 9, recipe: { module: handlerFile } };
  await server.save('kept', made);
  const { spec } = (await server.save('kept', { env: { A: '1' } })) as { spec: typeof made };
  assert.deepEqual([spec.maxWorkers, spec.leaseMs, spec.maxQueue], [7, 5000, 9]);
  const remote = { baseUrl: 'http://127.0.0.1:9/v2', endpointId: 'x', keyEnv: 'NO_SUCH' };
  const both = await server.call('POST', '/api/endpoints', { id: 'kept', remote });
  assert.equal(both.status, 400, 'a recipe and a remote exclude each other');
  const moved = await server.save('kept', { recipe: null, remote });
  assert.equal('recipe' in (moved.spec as object), false);

  const key = await server.call('POST', '/api/keys', { scopes: ['read', 'run'], owner: 'guest' });
  const guest = { authorization: `Bearer ${key.body.key as string}` };
  const post = (fields: object) => server.call('POST', '/api/endpoints', fields, guest);
  assert.equal((await post({ id: 'guests', maxWorkers: 2 })).status, 200, 'workers from outside');
  const code = await post({ id: 'guests', recipe: { module: handlerFile } });
  assert.equal(code.status, 403, 'only admins set what runs on this machine');
});

test('a change to an endpoint of config.json lasts until the next start', async (t) => {
  const home = homeWith(t, { endpoint: { shared: { maxWorkers: 2 } } });
  const first = await startEndpoints(t, { home });
  const { body } = await first.call('POST', '/api/keys', {
    scopes: ['read', 'run'],
    owner: 'guest',
  });
  const guest = { authorization: `Bearer ${body.key as string}` };
  const seen = (server: EndpointServer) =>
    server.call('GET', '/api/endpoints/shared', undefined, guest);
  const max = async (server: EndpointServer) =>
    ((await seen(server)).body.spec as { maxWorkers: number }).maxWorkers;

  const saved = await first.save('shared', { maxWorkers: 5 });
  assert.equal(saved.source, 'config');
  assert.match(saved.note as string, /config\.json.*next start/);
  assert.equal((await seen(first)).status, 200, 'other keys still use it');
  assert.equal(await max(first), 5);
  const change = { id: 'shared', maxWorkers: 9 };
  const refused = await first.call('POST', '/api/endpoints', change, guest);
  assert.equal(refused.status, 403, 'but do not change it');
  assert.match(refused.body.hint as string, /config\.json/);
  assert.equal('note' in (await first.save('mine', { maxWorkers: 1 })), false);
  await first.stop();
  const second = await startEndpoints(t, { home });
  assert.equal(await max(second), 2);
});

test('a new version replaces idle workers immediately and busy ones after their job', async (t) => {
  const server = await sharedEndpoints();
  const folder = tempFolder(t);
  const module = join(folder, 'gate.mjs');
  writeFileSync(
    module,
    `import { existsSync } from 'node:fs';
     export default async ({ input }) => {
       while (!existsSync(input.gate)) await new Promise((resolve) => setTimeout(resolve, 20));
       return 'whole';
     };`,
  );
  const gate = join(folder, 'gate');
  await server.save('ver', { recipe: { module }, minWorkers: 2, maxWorkers: 2 });
  await until('both are idle', async () => (await idle(server, 'ver')) === 2);
  const job = await server.run('ver', { gate });
  const busy = await until('one is busy', async () => {
    const now = await server.call('GET', `/v2/ver/status/${job}`);
    return now.body.workerId as string;
  });
  const before = await workers(server, 'ver');
  await server.save('ver', { env: { MODEL: '2' } });
  await until('the idle one is replaced while the busy one works', async () => {
    const now = await workers(server, 'ver');
    const old = now.filter(({ version }) => version === 1);
    const news = now.filter(({ version }) => version === 2);
    return old.length === 1 && old[0]!.id === busy && news.length >= 1;
  });
  writeFileSync(gate, '');
  const ended = await server.ended('ver', job);
  assert.deepEqual([ended.output, ended.workerId], ['whole', busy]);
  await until('then it goes too', async () => {
    const now = await workers(server, 'ver');
    return now.length === 2 && now.every(({ version }) => version === 2);
  });
  assert.ok(before.some(({ id }) => id === busy));
});

test('deleting an endpoint kills its workers and their children, even if they ignore SIGTERM', async (t) => {
  const server = await sharedEndpoints();
  const folder = tempFolder(t);
  const script = `trap '' TERM; sleep 300 & echo $! > child; echo $$ > pid; while :; do sleep 1; done`;
  const recipe = { worker: ['sh', '-c', script], cwd: folder };
  await server.save('deaf', { recipe, minWorkers: 1, maxWorkers: 1 });
  const file = join(folder, 'pid');
  const pid = await until('it runs', () => existsSync(file) && Number(readFileSync(file, 'utf8')));
  const child = Number(readFileSync(join(folder, 'child'), 'utf8'));
  assert.ok(isAlive(pid as number, null) && isAlive(child, null));
  const waiting = await server.run('deaf', {});
  await server.call('DELETE', '/api/endpoints/deaf');
  const { error } = (await server.call('GET', `/api/jobs/${waiting}`)).body;
  assert.equal((error as { message: string }).message, 'The endpoint was deleted.');
  await until('it is gone', () => !isAlive(pid as number, null) && !isAlive(child, null));
});

test('short pauses between jobs do not restart workers', async () => {
  const server = await sharedEndpoints();
  const scaling = { type: 'REQUEST_COUNT', requestCount: 1 };
  const idleTimeoutMs = 300_000;
  await server.save('calm', {
    recipe: { module: handlerFile },
    scaling,
    maxWorkers: 2,
    idleTimeoutMs,
  });
  const seen = new Set<unknown>();
  for (let i = 0; i < 12; i++) {
    const ids = await Promise.all([1, 2].map((n) => server.run('calm', { do: 'wait', ms: 20, n })));
    for (const id of ids) seen.add((await server.ended('calm', id)).workerId);
  }
  const { body } = await server.call('GET', '/api/endpoints/calm/workers');
  assert.equal((body.ended as unknown[]).length, 0, 'none was stopped in between');
  assert.ok(seen.size <= 2, 'twelve bursts, two workers');
});

test('the published JSON Schema accepts the endpoints of the docs and rejects invalid ones', async () => {
  const require = createRequire(join(root, 'package.json'));
  const { Ajv2020 } = (await import(require.resolve('ajv/dist/2020.js'))) as {
    Ajv2020: typeof import('ajv/dist/2020.js').Ajv2020;
  };
  const schema = JSON.parse(readFileSync(join(root, 'docs/config.schema.json'), 'utf8')) as object;
  const check = new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
  const docs = readFileSync(join(root, 'docs/endpoint.md'), 'utf8');
  const samples = [...docs.matchAll(/```json\n(\{[^`]*"endpoint"[^`]*)```/g)];
  assert.ok(samples.length >= 2);
  for (const [, sample] of samples) assert.ok(check(JSON.parse(sample!)), sample);
  for (const bad of [
    { recipe: { module: 'x', image: 'y' } },
    { maxWorkers: -1 },
    { scaling: { type: 'SOMETIMES' } },
    { nonsense: 1 },
  ])
    assert.equal(check({ endpoint: { a: bad } }), false, JSON.stringify(bad));
  assert.equal(check({ endpoint: { 'a b': {} } }), false, 'ids are checked');
});

interface WorkerInfo {
  id: string;
  version: number;
  status: string;
}

async function workers(server: EndpointServer, id: string): Promise<WorkerInfo[]> {
  const { body } = await server.call('GET', `/api/endpoints/${id}/workers`);
  return body.workers as WorkerInfo[];
}

async function idle(server: EndpointServer, id: string): Promise<number> {
  return (await workers(server, id)).filter(({ status }) => status === 'IDLE').length;
}
