// Misbehaving handlers, limits, invalid input, and endpoints that cannot have workers: each error says what is wrong.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../../src/kinds/endpoint/workers/process.ts';
import { handlerFile, startEndpoints } from '../../helpers/endpoint.ts';
import { sharedEndpoints } from '../../helpers/shared-endpoints.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { until } from '../../helpers/until.ts';

test('handlers that exit, block, ignore a stop, leak or print fail one job, and the endpoint continues', async () => {
  const server = await sharedEndpoints();
  await server.save('bad', {
    recipe: { module: handlerFile, memoryMb: 64 },
    maxWorkers: 1,
    stopMs: 500,
    redeliveries: 0,
  });
  const end = async (input: unknown, more = {}) =>
    server.ended('bad', await server.run('bad', input, more));

  const printed = await end({ do: 'print', value: 7 });
  assert.equal(printed.output, 7, 'what a handler prints is not a result');
  const log = await server.call('GET', '/api/endpoints/bad/log?tail=50');
  const lines = log.body.lines as { line: string; jobId?: string }[];
  assert.ok(lines.some(({ line, jobId }) => line.includes('printed for') && jobId === printed.id));

  const exited = await end({ do: 'exit', value: 0 });
  assert.equal(exited.status, 'FAILED');
  const shown = await server.call('GET', `/api/jobs/${exited.id as string}`);
  assert.match((shown.body.error as { message: string }).message, /exited with code 0/);

  const leaked = await end({ do: 'leak' });
  assert.equal(leaked.status, 'FAILED');

  const pid = (await end({ do: 'pid' })).output as number;
  const stuck = await server.run('bad', { do: 'block', ms: 120_000 });
  await until('it runs', async () => {
    const now = await server.call('GET', `/v2/bad/status/${stuck}`);
    return now.body.status === 'IN_PROGRESS';
  });
  await server.call('POST', `/v2/bad/cancel/${stuck}`, '');
  const next = await end({ do: 'pid' });
  assert.notEqual(next.output, pid, 'a worker that does not stop is replaced');

  const slow = await end({ do: 'ignore', ms: 120_000 }, { policy: { executionTimeout: 5000 } });
  assert.equal(slow.status, 'FAILED');
  assert.equal(slow.error, 'executionTimeout exceeded');
  const retried = await server.call('POST', `/v2/bad/retry/${slow.id as string}`, '');
  assert.deepEqual(retried.body, { id: slow.id, status: 'IN_QUEUE' });
  await server.call('POST', `/v2/bad/cancel/${slow.id as string}`, '');
});

test('a worker that keeps dying is UNHEALTHY, and the waiting job shows the reason', async (t) => {
  const server = await sharedEndpoints();
  const broken = join(tempFolder(t), 'broken.mjs');
  writeFileSync(broken, 'throw new Error("the model file is missing");');
  await server.save('broken', { recipe: { module: broken } });
  const id = await server.run('broken', {});
  await until('it is diagnosed', async () => {
    const { body } = await server.call('GET', `/api/jobs/${id}`);
    const text = String(body.diagnosis);
    return body.status === 'queued' && /keep dying/.test(text) && /model file/.test(text);
  });
  const { body } = await server.call('GET', '/v2/broken/health');
  assert.ok((body.workers as Record<string, number>).unhealthy! > 0);
  const image = await server.save('boxed', { recipe: { image: 'nobody/nothing:1' } });
  assert.equal(image.id, 'boxed');
});

test('per-job commands: a result on stdout, extra output, no result, an error, a background child', async () => {
  const server = await sharedEndpoints();
  const program = `
    const fs = require('node:fs');
    const given = fs.readFileSync(0, 'utf8');
    const input = JSON.parse(given);
    if (input.do === 'exact') { console.log('{"given":' + given + ',"none":NaN}'); process.exit(0); }
    if (input.do === 'chatter') console.log('loading...');
    if (input.do === 'none') process.exit(0);
    if (input.do === 'fail') { console.error('no such model'); process.exit(4); }
    if (input.do === 'garbage') { console.log('<<<'); process.exit(0); }
    const left = input.do === 'fork' &&
      require('node:child_process').spawn('sleep', ['300'], { stdio: 'inherit' });
    if (left) left.unref();
    console.log(JSON.stringify({ doubled: input.n * 2, left: left ? left.pid : undefined }));
    if (input.do === 'fork') process.exit(0);`;
  await server.save('cmd', {
    recipe: { perJob: [process.execPath, '-e', program] },
    concurrency: 3,
  });
  const inputs = [
    { n: 2 },
    { do: 'chatter', n: 3 },
    { do: 'fork', n: 4 },
    { do: 'none' },
    { do: 'fail' },
    { do: 'garbage' },
  ];
  const exact = await server.call(
    'POST',
    '/v2/cmd/run',
    '{"input":{"do":"exact","n":9007199254740993}}',
  );
  const ids = await Promise.all(inputs.map((input) => server.run('cmd', input)));
  const [plain, chatter, fork, none, fail, garbage] = await Promise.all(
    ids.map((id) => server.ended('cmd', id)),
  );
  assert.deepEqual(plain!.output, { doubled: 4 });
  assert.deepEqual(chatter!.output, { doubled: 6 });
  const { doubled, left } = fork!.output as { doubled: number; left: number };
  assert.equal(doubled, 8);
  await until('what it left behind is gone', () => !isAlive(left, null));
  assert.match(none!.error as string, /without a result/);
  assert.match(fail!.error as string, /code 4.*no such model/s);
  assert.match(garbage!.error as string, /not JSON/);
  assert.equal(garbage!.output, '<<<\n');
  const said = await server.call('GET', `/api/jobs/${ids[1]!}/output`);
  assert.equal(said.body.text, 'loading...\n', 'other output is in the log of its job');
  await server.ended('cmd', exact.body.id as string);
  const reply = await fetch(`${server.url}/v2/cmd/status/${exact.body.id as string}`, {
    headers: { authorization: server.key },
  });
  const text = await reply.text();
  assert.ok(text.includes('{"given":{"do":"exact","n":9007199254740993},"none":null}'), text);
});

const onLinux = { skip: process.platform !== 'linux' };
test(
  'a command that ignores SIGTERM is killed with its worker and its children',
  onLinux,
  async (t) => {
    const server = await sharedEndpoints();
    const folder = tempFolder(t);
    const script = `trap '' TERM; sleep 300 & echo $! > child; echo $$ > pid; while :; do sleep 1; done`;
    const recipe = { perJob: ['sh', '-c', script], cwd: folder };
    await server.save('deaf', { recipe, maxWorkers: 1, stopMs: 200, redeliveries: 0 });
    const file = join(folder, 'pid');
    for (const way of ['cancel', 'kill -9 of its worker'] as const) {
      rmSync(file, { force: true });
      const id = await server.run('deaf', {});
      const pid = await until(
        'it runs',
        () => existsSync(file) && Number(readFileSync(file, 'utf8')),
      );
      const child = Number(readFileSync(join(folder, 'child'), 'utf8'));
      if (way === 'cancel') await server.call('POST', `/v2/deaf/cancel/${id}`, '');
      else {
        const parent = readFileSync(`/proc/${String(pid)}/stat`, 'latin1').split(' ')[3];
        process.kill(Number(parent), 'SIGKILL');
      }
      await until(`it is gone after ${way}`, () => !isAlive(pid as number, null));
      await until('its child too', () => !isAlive(child, null));
      await server.call('POST', `/v2/deaf/cancel/${id}`, '');
    }
  },
);

test('the data plane rejects invalid input and enforces limits', async () => {
  const server = await sharedEndpoints();
  await server.save('lim', { maxQueue: 2, runsPer10s: 4 });
  await server.save('other', {});
  const post = (path: string, body: unknown) => server.call('POST', path, body);
  for (const id of ['serverless', 'pods', 'Billing'])
    assert.equal((await post('/api/endpoints', { id })).status, 400, `${id} is a route`);
  assert.equal((await post('/api/endpoints', { id: 'a b' })).status, 400);
  for (const [field, value, fault] of [
    ['recipe', { module: 'x.ts', memory: 64 }, /recipe: has no field memory/],
    ['recipe', { perJob: 'python3 x.py' }, /recipe: perJob: .*expected array/],
    ['scaling', { type: 'LATENCY' }, /scaling: type: .*"QUEUE_DELAY"; or .*"REQUEST_COUNT"/],
  ] as const) {
    const { status, body } = await post('/api/endpoints', { id: 'a', [field]: value });
    assert.equal(status, 400);
    assert.match(body.detail as string, fault, 'it says what is wrong with it');
  }
  assert.equal((await post('/v2/nobody/run', { input: 1 })).status, 404);
  assert.equal((await post('/v2/lim/run', {})).status, 400);
  assert.equal((await post('/v2/lim/run', '{"input":')).status, 400);
  assert.equal(
    (await post('/v2/lim/run', `{"input":${'['.repeat(600)}${']'.repeat(600)}}`)).status,
    400,
  );
  const wait = await post('/v2/lim/runsync?wait=500', { input: 1 });
  assert.equal(wait.body.error, 'wait is invalid; must be between 1000 and 300000');
  const raw = await server.call('GET', '/v2/lim/health', undefined, { authorization: server.key });
  assert.equal(raw.status, 200, 'the bare key is accepted');
  const wrong = await server.call('GET', '/v2/lim/health', undefined, {
    authorization: 'Bearer no',
  });
  assert.equal(wrong.status, 401);

  const key = { 'idempotency-key': 'once' };
  const a = await server.call('POST', '/v2/lim/run', { input: 1 }, key);
  const b = await server.call('POST', '/v2/lim/run', { input: 1 }, key);
  assert.equal(a.body.id, b.body.id);
  assert.equal((await server.call('POST', '/v2/lim/run', { input: 2 }, key)).status, 400);
  assert.equal((await server.call('GET', `/v2/other/status/${String(a.body.id)}`)).status, 404);
  assert.equal((await post('/v2/lim/run', { input: 2 })).status, 200);
  const full = await post('/v2/lim/run', { input: 3 });
  assert.equal(full.status, 429);
  assert.ok(full.headers.get('retry-after'));
  assert.equal((await post(`/v2/lim/retry/${String(a.body.id)}`, '')).status, 400);
  assert.deepEqual((await post('/v2/lim/purge-queue', '')).body, {
    removed: 2,
    status: 'completed',
  });
  const second = await post(`/v2/lim/cancel/${String(a.body.id)}`, '');
  assert.equal(second.body.status, 'CANCELLED', 'a second cancel is harmless');
});

test('endpoints of config.json: a new version, low priority and TTL', async (t) => {
  const home = tempFolder(t);
  const endpoints = { fromfile: { recipe: { module: handlerFile }, minWorkers: 1, maxWorkers: 1 } };
  writeFileSync(join(home, 'config.json'), JSON.stringify({ endpoint: endpoints }));
  const server = await startEndpoints(t, { home });
  const before = await server.ended('fromfile', await server.run('fromfile', {}));
  assert.equal(before.status, 'COMPLETED');

  await server.save('fromfile', { env: { MODEL: '2' } });
  const after = await until('a new worker answers', async () => {
    const job = await server.ended('fromfile', await server.run('fromfile', {}));
    return job.workerId === before.workerId ? undefined : job;
  });
  assert.equal(after.status, 'COMPLETED');
  const releases = await server.call('GET', '/api/endpoints/fromfile/releases');
  assert.equal(releases.body.version, 2);

  await server.save('later', { recipe: { module: handlerFile }, maxWorkers: 1 });
  const low = await server.run('later', {}, { policy: { lowPriority: true } });
  const expiring = await server.run('later', {}, { policy: { lowPriority: true, ttl: 10_000 } });
  const high = await server.run('fromfile', {});
  await server.ended('fromfile', high);
  const { body } = await server.call('GET', `/v2/later/status/${low}`);
  assert.equal(body.status, 'IN_QUEUE', 'low priority starts no worker');
  const expired = await server.ended('later', expiring);
  assert.equal(expired.status, 'TIMED_OUT', 'it stays readable past its TTL');
  await server.ended('later', await server.run('later', {}));
  assert.equal((await server.ended('later', low)).status, 'COMPLETED');
});
