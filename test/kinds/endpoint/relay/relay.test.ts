// Restarts of the server: workers that speak RunPod's protocol wait for it, their results are kept, and nothing runs
// twice.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isAlive } from '../../../../src/kinds/endpoint/workers/process.ts';
import { end, kill, serve, type EndpointClient } from '../../../helpers/endpoint-process.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { freePort } from '../../../helpers/port.ts';
import { until } from '../../../helpers/until.ts';

const python = ['python3', join(import.meta.dirname, '../../../fixtures/endpoint/worker.py')];
type TestServer = EndpointClient & { pid: number };
const deep = process.env.ERRAND_TEST_DEEP !== undefined;

test(
  'repeated kill -9 of the server: Python workers lose no job or chunk and run no job twice',
  { timeout: 900_000 },
  async (t) => {
    const { home, file } = place(t);
    const jobs = deep ? 10_000 : 160;
    const kills = deep ? 5 : 1;
    let server = await serve(t, home, await freePort());
    await server.save('py', {
      recipe: { worker: python },
      env: { TEST_CONCURRENCY: '8' },
      minWorkers: 3,
      maxWorkers: 3,
      leaseMs: 120_000,
    });
    const inputs = Array.from({ length: jobs }, (_, n) =>
      n % 8 === 0 ? { do: 'stream', count: 4, ms: 5 } : { do: 'note', file, n, ms: 5 },
    );
    const ids = await submit(server, inputs);
    for (let i = 1; i <= kills; i++) {
      await until(
        'a part is done',
        async () => {
          const { completed } = await counts(server);
          return completed! >= (jobs * i) / (kills + 2);
        },
        300_000,
      );
      kill(server.pid);
      server = await serve(t, home, await freePort());
    }
    await until('all are done', async () => (await counts(server)).completed === jobs, 600_000);
    const runs = readFileSync(file, 'utf8').trim().split('\n');
    const noted = inputs.filter(({ do: what }) => what === 'note').length;
    assert.equal(new Set(runs).size, noted, 'every job ran');
    assert.equal(runs.length, noted, 'none ran twice');
    assert.equal((await counts(server)).retried, 0, 'no worker lost a job');
    const streams = ids.filter((_, n) => n % 8 === 0).slice(0, deep ? 200 : 30);
    for (const id of streams) assert.deepEqual(await chunks(server, id), [0, 1, 2, 3], id);
    server = await restartWhileBusy(t, server, home);
    await stop(server, home);
  },
);

test('an outage, a killed relay and a killed worker lose no job, and an idle worker uses no CPU', async (t) => {
  const { home, file } = place(t);
  let server = await serve(t, home, await freePort());
  const env = { TEST_SPIN: '1' };
  await server.save('py', { recipe: { worker: python }, env, maxWorkers: 1, outageMs: 8000 });
  const ids = await submit(server, [
    { do: 'note', file, n: 1, ms: 0 },
    { do: 'note', file, n: 2, ms: 1000 },
  ]);
  const streamed = (await submit(server, [{ do: 'stream', count: 30, ms: 50 }]))[0]!;
  await until('the second runs', () => readFileSync(file, 'utf8').split('\n').length === 3);
  const { worker, relay, log } = processes(home);
  kill(server.pid);
  await until('the result is stored', () => outbox(home) > 0);
  assert.equal(statSync(join(home, 'endpoints/relays', relay.id, 'outbox')).mode & 0o777, 0o600);
  await until('the idle worker is suspended', () => statOf(worker)[0] === 'T');
  const used = () => ({ worker: cpuMs(worker), relay: cpuMs(relay.pid), at: Date.now() });
  const before = { ...used(), bytes: statSync(log).size };
  await until('some seconds pass', () => Date.now() - before.at > 2000);
  const after = used();
  assert.equal(after.worker, before.worker, 'a suspended worker uses no CPU');
  // Far above the measured value (0.2 %): a suspension and one clock tick more are a large part of two seconds.
  const share = (after.relay - before.relay) / (after.at - before.at);
  assert.ok(share < 0.1, `the relay uses ${(share * 100).toFixed(1)} % of a core`);
  assert.ok(statSync(log).size - before.bytes < 10_000, 'its log does not grow');
  await until(
    'worker and relay have ended',
    () => !isAlive(worker, null) && !isAlive(relay.pid, null),
  );

  server = await serve(t, home, await freePort());
  for (const [i, id] of ids.entries()) {
    const job = await server.ended('py', id);
    assert.deepEqual([job.status, job.output, job.retries], ['COMPLETED', i + 1, undefined]);
  }
  assert.equal((await server.ended('py', streamed)).status, 'COMPLETED', 'it runs on a new worker');
  assert.deepEqual(
    await chunks(server, streamed),
    Array.from({ length: 30 }, (_, i) => i),
  );
  assert.ok(!existsSync(join(home, 'endpoints/relays', relay.id)), 'nothing is left');
  await killsEach(server, { home, file });
  await stop(server, home);
});

/** After a relay or a worker is killed, only its unfinished jobs run again. */
async function killsEach(server: TestServer, { home, file }: ReturnType<typeof place>) {
  for (const whom of ['relay', 'worker'] as const) {
    writeFileSync(file, '');
    const [first, second] = await submit(server, [
      { do: 'note', file, n: 1, ms: 0 },
      { do: 'note', file, n: 2, ms: 1500 },
    ]);
    await until('the second runs', () => readFileSync(file, 'utf8').split('\n').length === 3);
    const { worker, relay } = processes(home);
    kill(whom === 'relay' ? relay.pid : worker);
    const ends = [await server.ended('py', first!), await server.ended('py', second!)];
    assert.deepEqual(
      ends.map(({ output }) => output),
      [1, 2],
    );
    assert.deepEqual(
      ends.map(({ retries }) => retries),
      [undefined, 1],
      whom,
    );
    assert.equal(readFileSync(file, 'utf8').trim().split('\n').length, 3);
    await until('both are gone', () => !isAlive(worker, null) && !isAlive(relay.pid, null));
  }
}

/** After a stop, too, the relays find the next server, at any address, and the workers keep running. */
async function restartWhileBusy(t: TestContext, first: TestServer, home: string) {
  const id = await first.run('py', { do: 'wait', ms: 2000 });
  const running = await until('it runs', async () => {
    const { body } = await first.call('GET', `/v2/py/status/${id}`);
    return body.status === 'IN_PROGRESS' ? body : undefined;
  });
  await end(first.pid);
  const second = await serve(t, home, await freePort());
  const job = await second.ended('py', id);
  assert.deepEqual(
    [job.status, job.retries, job.workerId],
    ['COMPLETED', undefined, running.workerId],
  );
  return second;
}

function place(t: TestContext) {
  const folder = tempFolder(t);
  const file = join(folder, 'runs');
  writeFileSync(file, '');
  return { home: join(folder, 'home'), file };
}

async function submit(server: EndpointClient, inputs: readonly unknown[]): Promise<string[]> {
  const ids: string[] = [];
  const submitted = 32;
  for (let from = 0; from < inputs.length; from += submitted) {
    const part = inputs.slice(from, from + submitted);
    ids.push(...(await Promise.all(part.map((input) => server.run('py', input)))));
  }
  return ids;
}

async function counts(server: EndpointClient): Promise<Record<string, number>> {
  return (await server.call('GET', '/v2/py/health')).body.jobs as Record<string, number>;
}

async function chunks(server: EndpointClient, id: string): Promise<number[]> {
  const { body } = await server.call('GET', `/api/jobs/${id}/stream?limit=1000`);
  return (body.chunks as { output: { index: number } }[]).map(({ output }) => output.index);
}

/** Stops the workers first, because busy ones would outlive the server. */
async function stop(server: TestServer, home: string): Promise<void> {
  await server.call('DELETE', '/api/endpoints/py');
  await until(
    'its workers are gone',
    () => readdirSync(join(home, 'endpoints/relays')).length === 0,
  );
  await end(server.pid);
}

/** Returns the only relay of this home, and its worker. */
function processes(home: string) {
  const [id] = readdirSync(join(home, 'endpoints/relays'));
  const mark = `ERRAND_WORKER_ID=${id}\0`;
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && has(name, mark));
  const isRelay = (pid: string) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('relay-main');
  const relay = { id: id!, pid: Number(pids.find(isRelay)) };
  const worker = Number(pids.find((pid) => !isRelay(pid)));
  return { relay, worker, log: join(home, 'endpoints/logs/py', `${id}.log`) };
}

function has(pid: string, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(mark);
  } catch {
    return false;
  }
}

function outbox(home: string): number {
  const [id] = readdirSync(join(home, 'endpoints/relays'));
  return statSync(join(home, 'endpoints/relays', id!, 'outbox')).size;
}

/** Fields of /proc/<pid>/stat from the state on. */
function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** User and system time, in clock ticks of 10 ms. */
function cpuMs(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
