// At least 5,000 generated requests over every operation, every tool and every dialect's route (100,000 with
// ERRAND_TEST_DEEP=1), on SQLite and, with fewer requests, on PostgreSQL (test/cluster/e2e-properties.test.ts). SEED=…
// repeats a run.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { homeWith } from './helpers/folder.ts';
import { openReader } from './helpers/postgres.ts';
import { onPostgres, serverEnv, startServer } from './helpers/server.ts';
import { postgresChanges, sqliteChanges } from './properties/changes.ts';
import { checkSweep, Fuzz } from './properties/fuzz.ts';
import { Generator, createRandom } from './properties/generate.ts';

const deep = process.env.ERRAND_TEST_DEEP === '1';
const count = Number(process.env.REQUESTS ?? (deep ? 100_000 : 5000) / (onPostgres ? 5 : 1));
/** `npm test` always uses the same requests; deep runs use random ones. */
const seed = Number(process.env.SEED ?? (deep ? Math.floor(Math.random() * 2 ** 31) : 1));

test(`refused requests have no effect, and everything stored can be deleted (SEED=${seed})`, async (t) => {
  const unlimited = { keyRate: 0, addressRate: 0, maxAddressCalls: 100_000 };
  const home = homeWith(t, { http: unlimited, web: { search: { engines: ['local'] } } });
  // Without sweeps, time alone changes nothing.
  const quiet = { ERRAND_LOG: 'warn', ERRAND_SWEEP_MS: '3600000' };
  const server = await startServer(t, { home, env: quiet });
  const call = async (method: string, path: string, body: unknown) => {
    const response = await server.api(method, path, body);
    assert.equal(response.status, 200, response.text);
    return response.json<{ key?: string }>();
  };
  await call('POST', '/api/endpoints', { id: 'e' });
  for (const kind of ['command', 'web'])
    await call('PUT', `/api/queues/${kind}/default`, { paused: true });
  const keys: (string | undefined)[] = [server.key, undefined, 'wrong'];
  const run = ['read', 'run'];
  const limits: Record<string, unknown>[] = [
    { scopes: ['read'] },
    { scopes: run },
    { scopes: ['worker'] },
    { scopes: run, subject: 'endpoint:e' },
    { scopes: run, queues: ['default'] },
    { scopes: [...run, 'admin'], kinds: ['endpoint', 'web'] },
  ];
  for (const one of limits)
    keys.push((await call('POST', '/api/keys', { name: 'fuzz', ...one })).key);
  keys.push((await call('POST', '/api/wallets', { withKey: true })).key);
  const changes = onPostgres
    ? await postgresChanges(home, await openReader(t, serverEnv(home).ERRAND_STORE!))
    : sqliteChanges(home);
  const routes = await Fuzz.routes(server);
  const generator = new Generator(createRandom(seed), keys);
  const fuzz = new Fuzz({ server, generator, changes, routes });
  await fuzz.run(count);
  t.diagnostic(`${routes.length} routes: ${JSON.stringify(fuzz.counts)}`);
  await fuzz.checkStored();
  const lines = server.stderr().split('\n');
  assert.deepEqual(
    lines.filter((line) => line.includes('failed')),
    [],
  );
  await changes.close();
  await server.stop();
  writeFileSync(join(home, 'config.json'), JSON.stringify({ retention: { maxAgeMs: 0 } }));
  await checkSweep(await startServer(t, { home, env: { ERRAND_SWEEP_MS: '100' } }));
});
