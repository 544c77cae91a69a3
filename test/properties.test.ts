// At least 5,000 generated requests over every operation and every dialect's route (100,000 with ERRAND_TEST_DEEP=1), on
// SQLite and, with fewer requests, on PostgreSQL (test/cluster/e2e-properties.test.ts). SEED=… repeats a run.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith } from './helpers/folder.ts';
import { onlooker } from './helpers/postgres.ts';
import { onPostgres, serverEnv, startServer } from './helpers/server.ts';
import { Fuzz, postgresState, randomOf, sqliteState, swept } from './properties.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const count = (deep ? 100_000 : 5000) / (onPostgres ? 5 : 1);
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

test(`refused requests have no effect, and what was stored can be removed (SEED=${seed})`, async (t) => {
  const unlimited = { keyRate: 0, addressRate: 0, addressCallsMax: 100_000 };
  const home = homeWith(t, { http: unlimited });
  const server = await startServer(t, { home, env: { ERRAND_LOG: 'warn' } });
  const call = async (method: string, path: string, body: unknown) => {
    const answer = await server.api(method, path, body);
    assert.equal(answer.status, 200, answer.text);
    return answer.json<{ key?: string }>();
  };
  await call('POST', '/api/endpoints', { id: 'e' });
  for (const kind of ['command', 'web'])
    await call('PUT', `/api/queues/${kind}/default`, { paused: true });
  const keys: (string | undefined)[] = [server.key, undefined, 'wrong'];
  for (const scopes of [['read'], ['read', 'run'], ['worker']])
    keys.push((await call('POST', '/api/keys', { name: 'fuzz', scopes })).key);
  const state = onPostgres
    ? await postgresState(home, await onlooker(t, serverEnv(home).ERRAND_STORE!))
    : sqliteState(home);
  const routes = await Fuzz.routes(server);
  const fuzz = new Fuzz({ server, random: randomOf(seed), state, keys, routes });
  // The list of keys, and what needs it, names a parameter whose type PostgreSQL cannot infer.
  if (onPostgres)
    fuzz.known = new Set([
      'GET /api/keys',
      'POST /cardzero/v1/wallets/{walletId}/api-key/rotate',
      'PATCH /api/wallets/{wallet}',
    ]);
  await fuzz.run(count);
  t.diagnostic(`${routes.length} routes: ${JSON.stringify(fuzz.counts)}`);
  await fuzz.checkStored();
  const failures = server
    .stderr()
    .split('\n')
    .filter((line) => line.includes('failed'));
  const unknown = failures.filter((line) => !line.includes('at async Access.list'));
  assert.deepEqual(unknown, []);
  state.close();
  await server.stop();
  writeFileSync(join(home, 'config.json'), JSON.stringify({ retention: { ageMsMax: 0 } }));
  await swept(await startServer(t, { home, env: { ERRAND_SWEEP_MS: '100' } }));
});
