// A node that is cut off from the database for longer than its lease while another node works: nothing runs twice
// concurrently, a job that must not repeat is not stopped, late results change nothing, and the node recovers.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { homeWith, tempFolder } from '../helpers/folder.ts';
import type { TestServer } from '../helpers/server.ts';
import { silentProxy } from '../helpers/silent-proxy.ts';
import { until } from '../helpers/until.ts';

interface Shown {
  status: string;
  exitCode?: number | null;
  error?: { code: string };
  attempts: { number: number };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('a node that is cut off from the database for longer than its lease runs nothing twice and recovers', async (t) => {
  const folder = tempFolder(t);
  const cluster = await startCluster(t, 0);
  const address = new URL(cluster.url);
  const proxy = await silentProxy(t, Number(address.port));
  address.port = String(proxy.port);
  const isolated = await cluster.add({
    env: { ERRAND_STORE: address.href, ERRAND_LABELS: 'role=work' },
  });
  const connected = await cluster.add();
  const file = (name: string) => join(folder, name);
  // Each attempt writes its pid. It ends on request and writes its pid again.
  const run = async (name: string, more: object) => {
    const command = `echo $$ >> ${file(name)}; until [ -e ${file('go')} ]; do sleep 0.05; done; echo $$ >> ${file(`${name}-end`)}; exit 0`;
    const body = { command, cwd: '/', waitMs: 0, labels: ['role=work'], ...more };
    const result = await connected.api('POST', '/api/commands', body);
    assert.equal(result.status, 200, result.text);
    return result.json<{ id: string }>().id;
  };
  const lines = (name: string) =>
    existsSync(file(name)) ? readFileSync(file(name), 'utf8').trim().split('\n').map(Number) : [];
  const show = async (node: TestServer, id: string) =>
    (await node.api('GET', `/api/jobs/${id}`)).json<Shown>();

  const again = await run('again', { maxAttempts: 3 });
  const once = await run('once', {});
  await until('both run', () => lines('again').length === 1 && lines('once').length === 1);
  const [first] = lines('again');
  const [only] = lines('once');

  proxy.freeze(true);
  await until('a job that another node may start is stopped here', () => !isAlive(first!));
  assert.ok(isAlive(only!), 'a job that must not repeat continues');
  const spare = await cluster.add({ env: { ERRAND_LABELS: 'role=work' } });
  await until('it runs elsewhere', () => lines('again').length === 2);
  assert.ok(!isAlive(first!));
  const lost = await until('the other one is declared lost', async () => {
    const job = await show(connected, once);
    return job.status === 'failed' ? job : undefined;
  });
  assert.equal(lost.error?.code, 'lost');
  assert.ok(isAlive(only!), 'it still runs, because its work may matter');
  // The isolated node reports the problem and does not hang.
  const rejected = await isolated.api('POST', '/api/commands', {
    command: 'true',
    cwd: '/',
    waitMs: 0,
  });
  assert.equal(rejected.status, 503, rejected.text);

  writeFileSync(file('go'), '');
  await until(
    'both have ended',
    () => lines('once-end').length === 1 && lines('again-end').length === 1,
  );
  const done = await until('the second attempt is settled', async () => {
    const job = await show(connected, again);
    return job.status === 'completed' ? job : undefined;
  });
  assert.deepEqual([done.exitCode, done.attempts.number], [0, 2]);

  proxy.freeze(false);
  const back = await until('the node works again', async () => {
    const result = await isolated.api('GET', `/api/jobs/${once}`);
    return result.status === 200 ? result.json<Shown>() : undefined;
  });
  assert.deepEqual(
    [back.status, back.error?.code],
    ['failed', 'lost'],
    'its late result changes nothing',
  );
  await spare.stop();
  const fresh = await connected.api('POST', '/api/commands', {
    ...{ command: 'echo fresh', cwd: '/', waitMs: 30_000, labels: ['role=work'] },
  });
  assert.equal(fresh.json<Shown>().status, 'completed', fresh.text);
  assert.deepEqual([lines('again').length, lines('once').length], [2, 1], 'nothing ran again');
  assert.equal((await show(isolated, again)).attempts.number, 2);
});

test('after kill -9 of a server, a job that another node may retry is stopped on the old machine', async (t) => {
  const folder = tempFolder(t);
  const cluster = await startCluster(t, 1);
  const [connected] = cluster.nodes as [TestServer];
  const killed = await cluster.add({
    home: homeWith(t, { command: { guardSeconds: 1, staleSeconds: 1 } }),
    env: { ERRAND_LABELS: 'role=work' },
  });
  const go = join(folder, 'go');
  const run = async (name: string, more: object) => {
    // Leaves nothing behind, even if the test fails.
    const waits = `while [ -d ${folder} ] && [ ! -e ${go} ]; do sleep 0.05; done`;
    const command = `echo $$ > ${join(folder, name)}; ${waits}`;
    const body = { command, cwd: '/', waitMs: 0, labels: ['role=work'], ...more };
    const result = await connected.api('POST', '/api/commands', body);
    assert.equal(result.status, 200, result.text);
    const pid = await until(`${name} runs`, () =>
      existsSync(join(folder, name)) ? Number(readFileSync(join(folder, name), 'utf8')) : undefined,
    );
    return { id: result.json<{ id: string }>().id, pid };
  };
  const again = await run('again', { maxAttempts: 3 });
  const once = await run('once', {});
  await killed.kill();
  assert.ok(isAlive(again.pid) && isAlive(once.pid), 'commands survive their server');
  await until('it is stopped without a server', () => !isAlive(again.pid));
  assert.ok(isAlive(once.pid), 'a job that no other node runs continues');
  await until('the next attempt waits', async () => {
    const job = (await connected.api('GET', `/api/jobs/${again.id}`)).json<Shown>();
    return job.attempts.number === 2;
  });
  await connected.api('POST', `/api/jobs/${again.id}/cancel`, {});
  writeFileSync(go, '');
  await until('the other one ends', () => !isAlive(once.pid));
});
