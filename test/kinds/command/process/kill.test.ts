// Ends attempts that have just started: a wrapper without a payload, children that start while others are ended, and
// commands that the system cannot start.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { bootId, startOf } from '../../../../src/runtime/process-identity.ts';
import { killTree } from '../../../../src/kinds/command/process/kill.ts';
import { markName, treeMembers } from '../../../../src/kinds/command/process/tree.ts';
import { systemClock as clock } from '../../../../src/runtime/clock.ts';
import { tempFolder } from '../../../helpers/folder.ts';
import { isGone } from '../../../helpers/process.ts';
import { until } from '../../../helpers/until.ts';
import { start } from '../kit.ts';

/** A wrapper like ours: it survives SIGTERM, its payload does not. It waits for a line before it starts the payload. */
function wrapperOf(t: TestContext, script: string) {
  const mark = `job_kill.${process.pid}.${Math.random()}`;
  const child = spawn('/bin/sh', ['-c', `trap : TERM; read line; ${script}`], {
    env: { PATH: process.env.PATH, [markName]: mark },
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  });
  t.after(() => child.kill('SIGKILL'));
  const wrapper = { pid: child.pid!, start: startOf(child.pid!)!, bootId: bootId() };
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  const over = () => until('the wrapper is gone', isOver);
  return { child, tree: { wrapper, mark }, over };
}

test('killTree waits for a wrapper that has not started its payload, then ends the payload', async (t) => {
  const { child, tree, over } = wrapperOf(t, 'sleep 300');
  assert.deepEqual(await treeMembers(tree), []);
  const killed = killTree(tree, { clock, graceMs: 20_000 });
  await clock.sleep(150);
  child.stdin.write('go\n');
  const report = await killed;
  assert.deepEqual([report.forced, report.survivors], [false, []]);
  await over();
});

test('a child that starts after the first signal also receives SIGTERM', async (t) => {
  const late = `(trap 'echo late; exit 0' TERM; echo up; while :; do sleep 0.05; done)`;
  const { child, tree, over } = wrapperOf(t, `sleep 300; ${late}`);
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  child.stdin.write('go\n');
  await until('it runs', async () => (await treeMembers(tree)).length > 0);
  const report = await killTree(tree, { clock, graceMs: 20_000 });
  await over();
  assert.deepEqual([report.forced, report.survivors], [false, []]);
  assert.match(said, /late/);
});

test('a cancel right after the start leaves nothing running', async (t) => {
  const { background, cancel, get, call } = await start(t, { killGraceMs: 20_000 });
  const pids = join(tempFolder(t), 'pids');
  for (const [i, stdin] of (['none', 'open', 'none', 'open', 'open'] as const).entries()) {
    const job = await background({ command: `echo $$ >> ${pids}; exec sleep 300`, stdin });
    if (i % 2 === 0) await until('it runs', async () => (await get(job.id)).status === 'running');
    const end = await cancel(job.id);
    assert.equal(end.status, 'cancelled');
    assert.notEqual(end.signal, 'SIGKILL', 'SIGTERM was sufficient');
    const { events } = await call<{ events: { type: string }[] }>('list_events', { id: job.id });
    assert.equal(events.at(-1)?.type, 'cancelled');
  }
  const { text } = await call<{ text: string }>('read_output', {
    id: (
      await call<{ id: string }>('run_command', {
        ...{ command: `cat ${pids} 2>/dev/null || true`, waitMs: 20_000 },
      })
    ).id,
  });
  for (const pid of text.split('\n').filter(Boolean)) assert.ok(isGone(pid), `${pid} is gone`);
});

test('arguments or an environment above the system limit fail with a clear error', async (t) => {
  const { run } = await start(t);
  const word = 'x'.repeat(100_000);
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`BIG_${i}`, word]));
  for (const input of [
    { argv: ['echo', ...Array.from({ length: 60 }, () => word)] },
    { command: 'echo hi', env: many },
  ]) {
    const view = await run(input);
    assert.deepEqual([view.status, view.error?.code], ['failed', 'cannotStart']);
    assert.match(view.error!.message, /exceed the system limit/);
    assert.match(view.error!.hint!, /stdin|file/);
  }
});
