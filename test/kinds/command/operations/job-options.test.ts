// Job options of run_command: attempts, dependencies, start time, queue, tags; and the list of earlier attempts.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../../helpers/folder.ts';
import { awaitFile } from '../../../helpers/process.ts';
import { until } from '../../../helpers/until.ts';
import { start, type View } from '../kit.ts';

interface Attempts extends View {
  attempts: { number: number; max: number };
  earlierAttempts: { number: number; status: string; facts: { exitCode?: number } }[];
}

test('one attempt by default; get_job shows earlier attempts', async (t) => {
  const { run, background, wait, call } = await start(t);
  const cwd = tempFolder(t);
  const command = '[ -e ran ] && exit 0; touch ran; exit 7';
  const once = await run({ command: 'exit 7' });
  assert.deepEqual([once.status, once.attempts], ['failed', { number: 1, max: 1 }]);
  const { id } = await background({ command, cwd, maxAttempts: 3 });
  assert.equal((await wait(id, { timeoutMs: 45_000 })).jobs[0]!.status, 'completed');
  const view = await call<Attempts>('get_job', { id, includeAttempts: true });
  assert.deepEqual(view.attempts, { number: 2, max: 3 });
  assert.deepEqual(
    view.earlierAttempts.map(({ number, status, facts }) => [number, status, facts.exitCode]),
    [[1, 'failed', 7]],
  );
});

test('after: a command runs once its dependencies completed, and fails if one failed', async (t) => {
  const { background, get, wait } = await start(t);
  const gate = join(tempFolder(t), 'gate');
  const first = await background({ command: awaitFile(gate) });
  const second = await background({ command: 'echo second', after: [first.id] });
  assert.equal((await wait(second.id, { timeoutMs: 200 })).done, false);
  assert.deepEqual(
    [(await get(second.id)).status, (await get(second.id)).waitingFor],
    ['queued', 1],
  );
  writeFileSync(gate, '');
  assert.equal((await wait(second.id)).jobs[0]!.status, 'completed');
  const gateOfBroken = `${gate}-2`;
  const broken = await background({ command: `${awaitFile(gateOfBroken)}; exit 1` });
  const never = await background({ command: 'echo never', after: [broken.id] });
  writeFileSync(gateOfBroken, '');
  const end = (await wait(never.id)).jobs[0]!;
  assert.deepEqual([end.status, end.exitCode], ['failed', null]);
  assert.match(end.error!.message, new RegExp(broken.id));
  await assert.rejects(background({ command: 'true', after: [broken.id] }), {
    code: 'wrongState',
    hint: new RegExp(`Retry ${broken.id} first`),
  });
});

test('runAt and ttlMs limit the start time; a paused queue holds its commands', async (t) => {
  const { background, call, get, wait } = await start(t);
  const runAt = new Date(Date.now() + 700).toISOString();
  const later = await background({ command: 'date +%s%3N', runAt });
  assert.equal((await get(later.id)).status, 'queued');
  assert.equal((await wait(later.id)).jobs[0]!.status, 'completed');
  const { text } = await call<{ text: string }>('read_output', { id: later.id });
  assert.ok(Number(text) >= Date.parse(runAt), `${text} is not before ${runAt}`);

  await call('set_queue', { kind: 'command', name: 'night', paused: true });
  const held = await background({ command: 'echo held', queue: 'night', tags: ['nightly'] });
  const late = await background({ command: 'echo late', queue: 'night', ttlMs: 300 });
  const end = (await wait(late.id)).jobs[0]!;
  assert.deepEqual([end.status, end.exitCode], ['timed_out', null]);
  const waiting = await get(held.id);
  assert.equal(waiting.status, 'queued');
  assert.match(String(waiting.diagnosis), /queue night is paused: set_queue/);
  const { jobs } = await call<{ jobs: View[] }>('list_jobs', { tag: ['nightly'], queue: 'night' });
  assert.deepEqual(
    jobs.map(({ id }) => id),
    [held.id],
  );
  await call('set_queue', { kind: 'command', name: 'night', paused: false });
  await until('it ran', async () => (await get(held.id)).status === 'completed');
});
