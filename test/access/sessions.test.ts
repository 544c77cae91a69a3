// Dashboard sessions on both stores: codes work once and for a minute, and a session ends with its time, its key or a
// revocation.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { Access } from '../../src/access/keys.ts';
import { sessionMigrations } from '../../src/access/session-migrations.ts';
import { codeMs, Sessions } from '../../src/access/sessions.ts';
import { ManualClock } from '../../src/runtime/clock.ts';
import { stores, type StoreFactory } from '../helpers/stores.ts';

const ownerKey = 'errand_owner_key';
const maxSessionMs = 3_600_000;

for (const factory of stores) {
  describe(`sessions on ${factory.name}`, () => {
    test('a code logs in once, and not after a minute', (t) => codes(t, factory));
    test('a session has at most the rights of its key and ends with it', (t) => keys(t, factory));
    test('a session ends with its time, its revocation or a new owner key', (t) =>
      ends(t, factory));
  });
}

async function open(t: TestContext, factory: StoreFactory) {
  const store = await factory.open(t, sessionMigrations);
  const clock = new ManualClock();
  const access = new Access(store, clock, ownerKey);
  const sessions = new Sessions({ store, clock, access, ownerKey, maxSessionMs });
  return { store, clock, access, sessions };
}

async function codes(t: TestContext, factory: StoreFactory): Promise<void> {
  const { clock, sessions, store } = await open(t, factory);
  const { code, expiresAt } = await sessions.createCode(false);
  assert.ok(expiresAt - clock.now() <= 60_000);
  const tries = await Promise.allSettled(
    Array.from({ length: 5 }, () => sessions.logIn({ code }, {})),
  );
  const won = tries.filter(({ status }) => status === 'fulfilled');
  assert.equal(won.length, 1, 'of concurrent logins with one code, one succeeds');
  await assert.rejects(sessions.logIn({ code }, {}), { code: 'unauthorized' });
  const { token } = (won[0] as PromiseFulfilledResult<{ token: string }>).value;
  const caller = (await sessions.authenticate(token))!;
  assert.deepEqual([...caller.scopes], ['read', 'run', 'admin'], 'a session is never a worker');
  assert.equal(caller.owner, 'owner');
  assert.equal(caller.local, false);

  const late = await sessions.createCode(true);
  await clock.advance(codeMs);
  await assert.rejects(sessions.logIn({ code: late.code }, {}), { code: 'unauthorized' });
  await assert.rejects(sessions.logIn({ code: 'unknown' }, {}), { code: 'unauthorized' });
  const viewer = await sessions.createCode(true);
  const readOnly = await sessions.logIn({ code: viewer.code }, {});
  assert.deepEqual([...(await sessions.authenticate(readOnly.token))!.scopes], ['read']);
  const rows = JSON.stringify([
    await store.read('SELECT * FROM sessions'),
    await store.read('SELECT * FROM login_codes'),
  ]);
  for (const secret of [token, readOnly.token, code, viewer.code])
    assert.ok(!rows.includes(secret), 'only hashes are stored');
}

async function keys(t: TestContext, factory: StoreFactory): Promise<void> {
  const { access, sessions, clock } = await open(t, factory);
  const create = (request: object) =>
    access.create({ owner: 'ann', scopes: ['read', 'run'], ...request } as never, 'server');
  const { key, row } = await create({ queues: ['ci'], expiresAt: clock.now() + 10_000 });
  const session = await sessions.logIn({ key }, { client: 'browser', port: 7411 });
  assert.equal(session.expiresAt, clock.now() + 10_000, 'it does not outlive its key');
  const caller = (await sessions.authenticate(session.token))!;
  assert.deepEqual(
    [caller.owner, caller.keyId, caller.queues, [...caller.scopes]],
    ['ann', row.id, ['ci'], ['read', 'run']],
  );
  await access.revoke(row.id);
  await clock.advance(2001);
  assert.equal(await sessions.authenticate(session.token), undefined);

  const admin = await create({ scopes: ['admin'] });
  const viewer = await sessions.logIn({ key: admin.key }, { readOnly: true });
  const viewing = (await sessions.authenticate(viewer.token))!;
  assert.deepEqual([...viewing.scopes], ['read']);
  assert.equal(viewing.admin, true, 'it reads what its key reads');
  await access.rotate(admin.row.id, 'server');
  await clock.advance(2001);
  assert.equal(await sessions.authenticate(viewer.token), undefined, 'a rotated key is replaced');

  const worker = await create({ scopes: ['worker'] });
  await assert.rejects(sessions.logIn({ key: worker.key }, {}), { code: 'forbidden' });
  await assert.rejects(sessions.logIn({ key: `${key}x` }, {}), { code: 'unauthorized' });
}

async function ends(t: TestContext, factory: StoreFactory): Promise<void> {
  const { store, access, sessions, clock } = await open(t, factory);
  const logIn = async () =>
    (await sessions.logIn({ code: (await sessions.createCode(false)).code }, { port: 7000 })).token;
  const [expiring, revoked, replaced] = [await logIn(), await logIn(), await logIn()];
  const { sessionId } = (await sessions.authenticate(revoked))!;
  assert.equal((await sessions.list()).length, 3);
  await sessions.revoke(sessionId!);
  assert.equal(await sessions.authenticate(revoked), undefined, 'immediately on this server');
  assert.equal((await sessions.list()).length, 2);
  assert.equal(await sessions.lastPort(clock.now() - 1000), 7000);
  assert.equal(await sessions.lastPort(clock.now() + 1), undefined, 'nobody used it since');

  const restarted = new Sessions({ store, clock, access, ownerKey, maxSessionMs });
  assert.ok(await restarted.authenticate(replaced), 'a session survives a restart');
  const rekeyed = new Sessions({ store, clock, access, ownerKey: 'errand_other', maxSessionMs });
  assert.equal(await rekeyed.authenticate(replaced), undefined, 'a new owner key ends it');

  await clock.advance(maxSessionMs - 1);
  assert.ok(await sessions.authenticate(expiring));
  await clock.advance(1);
  assert.equal(await sessions.authenticate(expiring), undefined);
  await clock.advance(8 * 86_400_000);
  await logIn();
  assert.equal((await store.read('SELECT id FROM sessions')).length, 1, 'old ones are deleted');
}
