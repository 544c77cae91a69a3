// The real program cut off from the database for longer than its lease, while another node works on: nothing runs twice at
// once, what nobody may repeat is not stopped, late ends change nothing, and the node works again when the network is back.
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

test('a node that cannot reach the database for longer than its lease', async (t) => {
  const folder = tempFolder(t);
  const cluster = await startCluster(t, 0);
  const address = new URL(cluster.url);
  const proxy = await silentProxy(t, Number(address.port));
  address.port = String(proxy.port);
  const cut = await cluster.add({
    env: { ERRAND_STORE: address.href, ERRAND_LABELS: 'role=work' },
  });
  const free = await cluster.add();
  const file = (name: string) => join(folder, name);
  // Each attempt leaves its pid; it ends when it is told to, and says so.
  const run = async (name: string, more: object) => {
    const command = `echo $$ >> ${file(name)}; until [ -e ${file('go')} ]; do sleep 0.05; done; echo $$ >> ${file(`${name}-end`)}; exit 0`;
    const body = { command, cwd: '/', waitMs: 0, labels: ['role=work'], ...more };
    const answer = await free.api('POST', '/api/commands', body);
    assert.equal(answer.status, 200, answer.text);
    return answer.json<{ id: string }>().id;
  };
  const lines = (name: string) =>
    existsSync(file(name)) ? readFileSync(file(name), 'utf8').trim().split('\n').map(Number) : [];
  const show = async (node: TestServer, id: string) =>
    (await node.api('GET', `/api/jobs/${id}`)).json<Shown>();

  const again = await run('again', { attemptsMax: 3 });
  const once = await run('once', {});
  await until('both run', () => lines('again').length === 1 && lines('once').length === 1);
  const [first] = lines('again');
  const [only] = lines('once');

  proxy.freeze(true);
  await until('what another may start is stopped here', () => !isAlive(first!));
  assert.ok(isAlive(only!), 'what nobody may repeat goes on');
  const spare = await cluster.add({ env: { ERRAND_LABELS: 'role=work' } });
  await until('it runs elsewhere', () => lines('again').length === 2);
  assert.ok(!isAlive(first!));
  const lost = await until('the other one is declared lost', async () => {
    const job = await show(free, once);
    return job.status === 'failed' ? job : undefined;
  });
  assert.equal(lost.error?.code, 'lost');
  assert.ok(isAlive(only!), 'also then: it may be doing something that matters');
  // The cut-off node says what is wrong and does not hang.
  const refused = await cut.api('POST', '/api/commands', { command: 'true', cwd: '/', waitMs: 0 });
  assert.equal(refused.status, 503, refused.text);

  writeFileSync(file('go'), '');
  await until(
    'both have ended',
    () => lines('once-end').length === 1 && lines('again-end').length === 1,
  );
  const done = await until('the second attempt is settled', async () => {
    const job = await show(free, again);
    return job.status === 'completed' ? job : undefined;
  });
  assert.deepEqual([done.exitCode, done.attempts.number], [0, 2]);

  proxy.freeze(false);
  const back = await until('the node works again', async () => {
    const answer = await cut.api('GET', `/api/jobs/${once}`);
    return answer.status === 200 ? answer.json<Shown>() : undefined;
  });
  assert.deepEqual(
    [back.status, back.error?.code],
    ['failed', 'lost'],
    'its late end changes nothing',
  );
  await spare.stop();
  const fresh = await free.api('POST', '/api/commands', {
    ...{ command: 'echo fresh', cwd: '/', waitMs: 30_000, labels: ['role=work'] },
  });
  assert.equal(fresh.json<Shown>().status, 'completed', fresh.text);
  assert.deepEqual([lines('again').length, lines('once').length], [2, 1], 'nothing ran once more');
  assert.equal((await show(cut, again)).attempts.number, 2);
});

test('kill -9 of a server on a machine that lives: what another node may start again is ended there', async (t) => {
  const folder = tempFolder(t);
  const cluster = await startCluster(t, 1);
  const [free] = cluster.nodes as [TestServer];
  const dying = await cluster.add({
    home: homeWith(t, { command: { guardSeconds: 1, staleSeconds: 1 } }),
    env: { ERRAND_LABELS: 'role=work' },
  });
  const go = join(folder, 'go');
  const run = async (name: string, more: object) => {
    // Nothing stays behind, however the test ends.
    const waits = `while [ -d ${folder} ] && [ ! -e ${go} ]; do sleep 0.05; done`;
    const command = `echo $$ > ${join(folder, name)}; ${waits}`;
    const body = { command, cwd: '/', waitMs: 0, labels: ['role=work'], ...more };
    const answer = await free.api('POST', '/api/commands', body);
    assert.equal(answer.status, 200, answer.text);
    const pid = await until(`${name} runs`, () =>
      existsSync(join(folder, name)) ? Number(readFileSync(join(folder, name), 'utf8')) : undefined,
    );
    return { id: answer.json<{ id: string }>().id, pid };
  };
  const again = await run('again', { attemptsMax: 3 });
  const once = await run('once', {});
  await dying.kill();
  assert.ok(isAlive(again.pid) && isAlive(once.pid), 'commands outlive their server');
  await until('it is ended without a server', () => !isAlive(again.pid));
  assert.ok(isAlive(once.pid), 'what nobody else will run goes on');
  await until('the next attempt waits', async () => {
    const job = (await free.api('GET', `/api/jobs/${again.id}`)).json<Shown>();
    return job.attempts.number === 2;
  });
  await free.api('POST', `/api/jobs/${again.id}/cancel`, {});
  writeFileSync(go, '');
  await until('the other one ends by itself', () => !isAlive(once.pid));
});
