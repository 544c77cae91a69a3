// Statistics of past runs: success rate, expected duration, and whether the current run is slow.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';
import { start } from '../kit.ts';

interface History {
  runs: number;
  successRate?: number;
  expectedMs?: number;
}

test('get_job shows runs, success rate and expected duration of the same command', async (t) => {
  const { run } = await start(t);
  const cwd = tempFolder(t);
  const command = '[ ! -e broken ]';
  const past = async (more: object = {}) =>
    (await run({ command, cwd, ...more })).history as History;
  assert.deepEqual((await past()).runs, 1);
  writeFileSync(join(cwd, 'broken'), '');
  const failed = await past();
  assert.deepEqual([failed.runs, failed.successRate], [2, 0.5]);
  rmSync(join(cwd, 'broken'));
  await past();
  const last = await past();
  assert.deepEqual([last.runs, last.successRate], [4, 0.75]);
  assert.ok(last.expectedMs! >= 0 && last.expectedMs! < 60_000);
  assert.equal((await past({ cwd: tempFolder(t) })).runs, 1, 'another folder: another command');
  assert.equal((await past({ command: `${command} ` })).runs, 1, 'other words: another command');
});

test('a dev server that is always cancelled has no success rate', async (t) => {
  const { background, cancel, get, run } = await start(t);
  const cwd = tempFolder(t);
  const input = { command: '[ -e enough ] || exec sleep 300', cwd };
  const stopped = async () => {
    const { id } = await background(input);
    await until('it runs', async () => typeof (await get(id)).pid === 'number');
    await cancel(id);
    return (await get(id)).history as History;
  };
  assert.deepEqual(await stopped(), { runs: 1 });
  writeFileSync(join(cwd, 'enough'), '');
  const last = (await run(input)).history as History;
  assert.deepEqual([last.runs, last.successRate], [2, 1]);
});

test('a run that takes longer than usual is reported in fields and text', async (t) => {
  const { run, background, get, cancel, app } = await start(t, { minSlowMs: 300, slowFactor: 2 });
  const cwd = tempFolder(t);
  const input = { command: '[ ! -e slow ] || sleep 300', cwd };
  for (let i = 0; i < 3; i++) assert.equal((await run(input)).slowerThanUsual, undefined);
  writeFileSync(join(cwd, 'slow'), '');
  const job = await background(input);
  const slow = await until('slower than usual', async () => {
    const view = await get(job.id);
    return view.slowerThanUsual === true ? view : undefined;
  });
  const usual = slow.history as History;
  assert.deepEqual([usual.runs, usual.successRate], [3, 1]);
  const text = app.operations.find('get_job')!.text!(slow);
  assert.match(text, /slower than usual/);
  // A new command has no usual duration.
  const other = await background({ command: 'sleep 300', cwd });
  await until('it runs beyond the least time', async () => {
    const { timings } = await get(other.id);
    return ((timings as { runMs?: number }).runMs ?? 0) > 600;
  });
  assert.equal((await get(other.id)).slowerThanUsual, undefined);
  await cancel(job.id);
  await cancel(other.id);
});
