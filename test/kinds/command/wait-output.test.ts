// Output in wait results: error lines for failures, the end for successes, one line for running jobs.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limitWait } from '../../../src/jobs/wait-progress.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { awaitFile } from '../../helpers/process.ts';
import { until } from '../../helpers/until.ts';
import { start } from './kit.ts';

interface Waited {
  done: boolean;
  reached: { id: string; reason: string; detail?: { cursor: number; text: string } }[];
  jobs: {
    id: string;
    status: string;
    output?: { text: string; next: number };
    latestLine?: string;
  }[];
}

const suite = [
  'for i in $(seq 400); do echo "PASS tests/mod$i.test.ts ($i ms)"; done',
  `printf '%s\\n' 'FAIL tests/cart.test.ts' '● cart › adds tax' 'expect(received).toBe(expected)' 'Expected: 21' 'Received: 20' 'at Object.<anonymous> (tests/cart.test.ts:14:23)'`,
  'for i in $(seq 401 500); do echo "PASS tests/mod$i.test.ts ($i ms)"; done',
  'echo "Tests: 1 failed, 500 passed, 501 total"',
  'exit 1',
].join('\n');

test('wait_for_jobs returns the errors of a failure, the end of a success, the latest line of others', async (t) => {
  const { call, background, cancel } = await start(t);
  const folder = tempFolder(t);
  const failed = await background({ command: suite });
  const succeeded = await background({ command: 'for i in $(seq 900); do echo line $i; done' });
  const running = await background({
    command: `echo step 3 of 9\n${awaitFile(join(folder, 'no'))}`,
  });
  const ids = [failed.id, succeeded.id];
  const { done, jobs } = await call<Waited>('wait_for_jobs', { ids, waitMs: 10 ** 9 });
  assert.equal(done, true);
  const text = jobs[0]!.output!.text;
  for (const line of ['FAIL tests/cart.test.ts', 'Expected: 21', 'Received: 20', 'Tests: 1 failed'])
    assert.ok(text.includes(line), `${line} in ${text}`);
  assert.ok(text.length < 1200, text);
  assert.match(jobs[1]!.output!.text, /line 900\n$/);
  assert.ok(jobs[1]!.output!.text.length <= 1000);
  await until('its line is seen', async () => {
    const looked = await call<Waited>('wait_for_jobs', { ids: [running.id], waitMs: -5 });
    assert.equal(looked.done, false);
    return looked.jobs[0]!.latestLine === 'step 3 of 9';
  });
  await cancel(running.id);
});

test('a wait for a text returns the line that contains it', async (t) => {
  const { call, background, cancel } = await start(t);
  const folder = tempFolder(t);
  for (const line of [
    '  Local: http://localhost:5173/ ready',
    String.raw`Lo\033[1mcal: ready\033[0m in 3 ms`,
  ]) {
    const command = `printf 'before\\n${line}\\nafter\\n'; ${awaitFile(join(folder, 'no'))}`;
    const { id } = await background({ command });
    const { reached } = await call<Waited>('wait_for_jobs', {
      ids: [id],
      until: { text: 'ready' },
      waitMs: 45_000,
    });
    const shown = line.replaceAll(String.raw`\033[1m`, '').replaceAll(String.raw`\033[0m`, '');
    assert.equal(reached[0]!.detail!.text, shown);
    await cancel(id);
  }
});

test('retry_job with waitMs returns the output of the new attempt', async (t) => {
  const { call, background, cancel } = await start(t);
  const file = join(tempFolder(t), 'fixed');
  const { id } = await background({ command: `test -e '${file}' && echo works now` });
  await call('wait_for_jobs', { ids: [id] });
  writeFileSync(file, '');
  const retried = await call<Waited['jobs'][number]>('retry_job', { id, waitMs: 120_000 });
  assert.equal(retried.status, 'completed');
  assert.equal(retried.output!.text, 'works now\n');
  const go = join(tempFolder(t), 'go');
  const server = await background({
    command: `test -e '${go}' && echo listening; test -e '${go}' && ${awaitFile(`${go}-on`)}`,
    ready: { text: 'listening' },
  });
  await call('wait_for_jobs', { ids: [server.id] });
  writeFileSync(go, '');
  let again: { status: string; stage?: string } | undefined;
  const wait = call<typeof again>(
    'retry_job',
    { id: server.id, waitMs: 300_000 },
    { progress() {} },
  );
  void wait.then((view) => (again = view));
  await until('the retry returns when the job is ready', () => again !== undefined);
  assert.deepEqual([again!.status, again!.stage], ['running', 'ready']);
  await cancel(server.id);
});

test('a client that requests progress may wait five minutes and receives the latest line', async (t) => {
  const progress = () => {};
  assert.deepEqual(
    [limitWait(10 ** 9, {}), limitWait(10 ** 9, { progress }), limitWait(-1, {})],
    [50_000, 300_000, 0],
  );
  const { call, background, cancel } = await start(t);
  const { id } = await background({
    command: `echo epoch 7; ${awaitFile(join(tempFolder(t), 'no'))}`,
  });
  const heard: (string | undefined)[] = [];
  const stop = new AbortController();
  const waiting = call(
    'wait_for_jobs',
    { ids: [id], waitMs: 300_000 },
    { signal: stop.signal, progress: ({ message }) => void heard.push(message) },
  );
  await until('the line is heard', () => heard.includes('epoch 7'));
  stop.abort();
  await waiting;
  await cancel(id);
});
