// Real keys over real HTTP on a real store: created, used, expired, revoked and rotated.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Access, ownerCaller } from '../../../src/access/keys.ts';
import { accessOperations } from '../../../src/access/operations.ts';
import { httpSettings } from '../../../src/config.ts';
import { createHttpInterface } from '../../../src/interfaces/http/index.ts';
import { Jobs } from '../../../src/jobs/jobs.ts';
import { defineOperation, Operations, z } from '../../../src/operation.ts';
import { aborted, ManualClock } from '../../../src/runtime/clock.ts';
import { silentLog } from '../../../src/runtime/log.ts';
import { stores } from '../../helpers/stores.ts';
import { call } from './kit.ts';

const ownerKey = 'errand_owner_0123456789';
const hour = 3_600_000;

test('a key works until it expires, is revoked or rotated, and only within its scopes', async (t) => {
  const clock = new ManualClock();
  const store = await stores[0]!.open(t);
  const access = new Access(store, clock, ownerKey);
  const operations = new Operations();
  operations.add(accessOperations(access, new Jobs(store, clock), clock));
  operations.add([
    defineOperation({
      name: 'whoami',
      title: 'Who am I',
      description: 'The caller.',
      effect: 'read',
      scope: 'read',
      input: z.object({}),
      output: z.object({ owner: z.string() }),
      http: { method: 'GET', path: '/api/me' },
      run: async (_, { caller }) => ({ owner: caller!.owner }),
      stream: async function* (_, { signal }) {
        yield { event: 'first', data: {} };
        await aborted(signal);
      },
    }),
  ]);
  const httpInterface = createHttpInterface({
    operations,
    authenticate: (key) => access.authenticate(key),
    owner: ownerCaller(true),
    version: '1',
    clock,
    log: silentLog,
    limits: httpSettings.parse({ addressRate: 0 }),
  });
  t.after(() => httpInterface.stop());
  const { port } = await httpInterface.listenTcp({ port: 0, host: '127.0.0.1' });
  const create = async (request: object) =>
    (await call(port, { path: '/api/keys', key: ownerKey, body: JSON.stringify(request) }))
      .json as {
      key: string;
      id: string;
    };
  const me = async (key: string, afterMs = 3000) => {
    // The server caches keys for two seconds.
    clock.jump(afterMs);
    const { status, json } = await call(port, { path: '/api/me', key });
    return status === 200 ? json.owner : status;
  };

  const ann = await create({ owner: 'ann', scopes: ['read'], expiresInMs: hour });
  const bob = await create({ owner: 'bob', scopes: ['run'] });
  assert.equal(await me(ann.key), 'ann');
  assert.equal(await me(ownerKey), 'owner');
  assert.equal(await me(`${ann.key}x`), 401);
  assert.equal(await me('short'), 401);
  assert.equal(await me(bob.key), 403);
  const stronger = { path: '/api/keys', key: ann.key, body: '{"scopes":["admin"]}' };
  assert.equal((await call(port, stronger)).status, 403);

  const path = `/api/keys/${ann.id}/rotate`;
  const rotated = await call(port, { method: 'POST', path, key: ownerKey });
  assert.equal(await me(ann.key), 401);
  assert.equal(await me(rotated.json.key as string), 'ann');
  clock.jump(hour);
  assert.equal(await me(rotated.json.key as string), 401);

  const brief = await create({ owner: 'bee', scopes: ['read'], expiresInMs: 1000 });
  assert.equal(await me(brief.key, 999), 'bee');
  assert.equal(await me(brief.key, 1), 401, 'an expired key is not cached');
  const renewed = { method: 'POST', path: `/api/keys/${brief.id}/rotate`, key: ownerKey };
  assert.equal((await call(port, renewed)).status, 404, 'an expired key cannot be rotated');
  const dan = await create({ owner: 'dan', scopes: ['read'] });
  const both = await Promise.allSettled([
    access.rotate(dan.id, 'server'),
    access.rotate(dan.id, 'server'),
  ]);
  const won = both.flatMap((one) => (one.status === 'fulfilled' ? [one.value.key] : []));
  assert.equal(won.length, 1, 'of two concurrent rotations only one returns a key');
  assert.equal(await me(won[0]!), 'dan');

  const cat = await create({ owner: 'cat', scopes: ['read'] });
  assert.equal(await me(cat.key), 'cat');
  await call(port, { method: 'DELETE', path: `/api/keys/${cat.id}`, key: ownerKey });
  assert.equal(await me(cat.key), 401);

  for (const end of ['revoke', 'expire'] as const) {
    const eve = await create({ owner: 'eve', scopes: ['read'], expiresInMs: hour });
    const headers = { authorization: `Bearer ${eve.key}`, accept: 'text/event-stream' };
    const stream = await fetch(`http://127.0.0.1:${port}/api/me`, { headers });
    const reader = stream.body!.getReader();
    assert.match(new TextDecoder().decode((await reader.read()).value), /first/);
    await clock.advance(5000);
    if (end === 'revoke') await access.revoke(eve.id);
    else clock.jump(hour);
    const closed = assert.rejects(async () => {
      while (!(await reader.read()).done);
    }, `a stream ends with its key (${end})`);
    await clock.advance(5000);
    await closed;
  }

  const endless = { path: '/api/keys', key: ownerKey, body: `{"expiresInMs":${2 ** 53 - 1}}` };
  assert.equal((await call(port, endless)).status, 400, 'an expiry beyond the date range');
  const list = await call(port, { path: '/api/keys', key: ownerKey });
  assert.ok(!list.text.includes(bob.key) && list.text.includes(bob.id));
  const rows = JSON.stringify(await store.read('SELECT * FROM keys', []));
  for (const { key } of [ann, bob, cat]) assert.ok(!rows.includes(key), 'only hashes are stored');
});
