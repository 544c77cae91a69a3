// Limits while a server runs: timeout, output per job and in total, rings, and the grace period.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../../src/runtime/process-identity.ts';
import { launchFolder } from '../../../src/kinds/command/process/folder.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { awaitFile, isGone } from '../../helpers/process.ts';
import { until } from '../../helpers/until.ts';
import { programs, start } from './kit.ts';

test('the output limit ends the job and keeps its log; the total limit refuses new jobs', async (t) => {
  const { run, read } = await start(t, { maxOutputTotalBytes: 50_000 });
  const loud = await run({ command: 'yes', maxOutputBytes: 100_000 });
  assert.deepEqual([loud.status, loud.error?.code], ['failed', 'outputLimit']);
  assert.ok((await read(loud.id)).size > 100_000);
  await until('refused', () =>
    run({ command: 'true' }).then(
      () => false,
      (error: { code: string }) => error.code === 'limitExceeded',
    ),
  );
});

test('a timeout is reported even if the command exits 0 on SIGTERM', async (t) => {
  const { run } = await start(t);
  const view = await run({
    command: "trap 'exit 0' TERM; while :; do sleep 0.05; done",
    timeoutMs: 300,
  });
  assert.deepEqual([view.status, view.error?.code], ['timed_out', 'timeout']);
});

const linux = { skip: process.platform !== 'linux' };

test(
  'a ring keeps the newest, says what it dropped, and counts only what it keeps',
  linux,
  async (t) => {
    const { background, run, read, get, cancel } = await start(t, {
      maxOutputTotalBytes: 300_000,
    });
    const ring = await background({
      command: 'seq 1 40000; sleep 0.5; seq 40001 80000; sleep 300',
      maxOutputBytes: 65_536,
      ring: true,
    });
    await until('it printed', async () => Number((await get(ring.id)).outputBytes) > 400_000);
    const first = await until('the oldest is dropped', async () => {
      const from = await read(ring.id, { mode: 'range', from: 0, maxBytes: 200 });
      return from.from > 300_000 ? from : undefined;
    });
    assert.match(first.omitted!.reason, /dropped by the ring/);
    assert.match((await read(ring.id)).text, /80000\n$/);
    assert.equal((await get(ring.id)).status, 'running');
    assert.equal((await run({ command: 'echo room' })).output?.text, 'room\n');
    await cancel(ring.id);
  },
);

test(
  'output limits apply to processes that a command left running, even outside its group',
  linux,
  async (t) => {
    const { run, get, read, app } = await start(t);
    const cwd = tempFolder(t);
    const gate = join(cwd, 'gate');
    const spam = `${awaitFile(gate)}; while [ -e ${gate} ]; do echo 0123456789; done`;
    const more = { cwd, maxOutputBytes: 20_000 };
    const [plain, escaped] = await Promise.all([
      run({ ...more, command: `sh -c 'echo $$ > plain; ${spam}' & ${awaitFile('plain')}` }),
      run({ ...more, command: `setsid sh -c 'echo $$ > far; ${spam}' & ${awaitFile('far')}` }),
    ]);
    assert.deepEqual([plain.status, escaped.status], ['completed', 'completed']);
    assert.deepEqual([plain.leftBehind !== undefined, escaped.leftBehind], [true, undefined]);
    writeFileSync(gate, '');
    for (const [{ id }, name] of [
      [plain, 'plain'],
      [escaped, 'far'],
    ] as const) {
      const pid = readFileSync(join(cwd, name), 'utf8').trim();
      await until(`${pid} is ended`, () => isGone(pid));
      assert.equal((await get(id)).status, 'completed');
      assert.ok((await read(id)).size > 20_000);
    }
    const written = () => app.jobs.store.read<{ bytes: number }>('SELECT bytes FROM command_runs');
    await until('all they printed counts', async () =>
      (await written()).every(({ bytes }) => bytes > 20_000),
    );
  },
);

test('the total limit ends the job that prints the most; silent jobs continue', async (t) => {
  const { background, wait, get, cancel } = await start(t, { maxOutputTotalBytes: 200_000 });
  const quiet = await background({ command: 'seq 1 5000; sleep 300' });
  await until('it printed', async () => Number((await get(quiet.id)).outputBytes) > 20_000);
  const loud = await background({ command: 'yes' });
  const [ended] = (await wait(loud.id)).jobs;
  assert.deepEqual([ended!.status, ended!.error?.code], ['failed', 'outputLimit']);
  assert.match(ended!.error!.message, /Total output limit exceeded/);
  assert.match(ended!.error!.hint!, /maxOutputTotalBytes/);
  const later = await wait(quiet.id, { timeoutMs: 500 });
  assert.deepEqual([later.done, later.jobs[0]!.status], [false, 'running']);
  await cancel(quiet.id);
});

test('a long grace period is kept, and a cancelled job has no running processes', async (t) => {
  const { background, wait, call, home } = await start(t, {}, {}, { maxStopMs: 2500 });
  const job = await background({ argv: ['sh', join(programs, 'ignore-term.sh')] });
  await wait(job.id, { until: { text: 'ready' } });
  const folder = launchFolder(join(home, 'command', 'jobs', job.id.slice(-2), job.id), 1)!;
  const claim = folder.readClaim();
  assert.ok(claim.state === 'claimed');
  const view = await call<{ status: string; signal: string }>('cancel_job', {
    id: job.id,
    graceMs: 3000,
  });
  assert.deepEqual([view.status, view.signal], ['cancelled', 'SIGKILL']);
  assert.equal(isAlive(claim.identity), false);
});

test('a second cancel with a shorter grace period shortens the first', async (t) => {
  const { background, wait, call } = await start(t);
  const job = await background({ argv: ['sh', join(programs, 'ignore-term.sh')] });
  await wait(job.id, { until: { text: 'ready' } });
  const patient = call<{ status: string }>('cancel_job', { id: job.id, graceMs: 600_000 });
  const later = await wait(job.id, { timeoutMs: 1000 });
  assert.equal(later.done, false, 'it is given its time');
  const hurried = await call<{ status: string; signal: string }>('cancel_job', {
    id: job.id,
    graceMs: 0,
  });
  assert.deepEqual([hurried.status, hurried.signal], ['cancelled', 'SIGKILL']);
  assert.equal((await patient).status, 'cancelled');
});
