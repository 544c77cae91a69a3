// send_input to commands without a terminal: the server translates keys to signals and the end of input.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../../../helpers/folder.ts';
import { until } from '../../../helpers/until.ts';
import { start, type View } from '../kit.ts';

type Sent = View & { text: string; sent: number };

test('without a terminal ctrl-d ends the input and ctrl-c interrupts', async (t) => {
  const { background, call, wait } = await start(t);
  const cat = await background({ command: 'cat; echo end', stdin: 'open' });
  const ended = await call<Sent>('send_input', {
    id: cat.id,
    text: 'last',
    newline: true,
    keys: ['ctrl-d'],
  });
  assert.equal(ended.sent, 5);
  assert.match(ended.text, /^last\n/);
  assert.equal((await wait(cat.id)).jobs[0]!.status, 'completed');

  const trap = await background({
    command: "trap 'echo int; exit 5' INT; echo set; while read -r x; do echo $x; done",
    stdin: 'open',
  });
  await wait(trap.id, { until: { text: 'set' } });
  await call('send_input', { id: trap.id, keys: ['ctrl-c'] });
  const { jobs } = await wait(trap.id);
  assert.deepEqual([jobs[0]!.exitCode, jobs[0]!.signal], [5, null]);
});

test('every ctrl key can be sent, and an unknown key is refused with the list of keys', async (t) => {
  const { background, call } = await start(t);
  const cat = await background({ command: 'cat -v', stdin: 'open' });
  const keys = ['ctrl-x', 'ctrl-o', 'up', 'enter'];
  assert.equal((await call<Sent>('send_input', { id: cat.id, keys })).text, '^X^O^[[A\n');
  await assert.rejects(call('send_input', { id: cat.id, keys: ['ctrl-enter'] }), {
    code: 'invalidInput',
    message: /keys\.0: not one of enter, tab, .*ctrl-a … ctrl-z/,
  });
  await call('send_input', { id: cat.id, eof: true });
});

test('a SIGINT sent through Errand is reported as a signal; a plain exit 130 is an exit code', async (t) => {
  const { background, call, wait, run } = await start(t);
  const reader = await background({ argv: ['cat'], stdin: 'open' });
  const sleeper = await background({ argv: ['sleep', '300'] });
  for (const job of [reader, sleeper])
    await until('started', async () => (await call<View>('get_job', { id: job.id })).processes);
  await call('send_input', { id: reader.id, keys: ['ctrl-c'] });
  await call('send_signal', { id: sleeper.id, signal: 'INT' });
  for (const job of [reader, sleeper]) {
    const [end] = (await wait(job.id)).jobs;
    assert.deepEqual(
      [end!.status, end!.exitCode, end!.signal, end!.error?.code],
      ['failed', null, 'SIGINT', 'signal'],
    );
  }
  const own = await run({ command: 'exit 130' });
  assert.deepEqual([own.exitCode, own.signal], [130, null]);
});

test('text after the end of the input is refused immediately', async (t) => {
  const { background, call, cancel, wait } = await start(t);
  const job = await background({
    command: 'cat; exec <&-; echo deaf; sleep 300',
    stdin: 'open',
  });
  await call('send_input', { id: job.id, eof: true });
  await wait(job.id, { until: { text: 'deaf' } });
  const late = await call<Sent>('send_input', { id: job.id, text: 'anybody?', waitMs: 0 });
  assert.equal(late.sent, 0);
  assert.match(late.hint!, /has already ended/);
  await cancel(job.id);
});

test('the input ends only after the whole text was sent', async (t) => {
  const { background, call, wait } = await start(t);
  const cwd = tempFolder(t);
  const job = await background({
    command: 'echo up; until [ -e go ]; do sleep 0.02; done; wc -c',
    cwd,
    stdin: 'open',
  });
  await wait(job.id, { until: { text: 'up' } });
  // More than a pipe can hold, from a caller that does not wait for space.
  const input = { id: job.id, text: 'ü'.repeat(60_000), eof: true };
  const first = await call<Sent>('send_input', input, { signal: AbortSignal.timeout(200) });
  assert.ok(first.sent < 120_000);
  assert.match(first.hint!, /the rest and the end of input later/);
  writeFileSync(join(cwd, 'go'), '');
  await call('send_input', { id: job.id, text: 'x'.repeat(120_000 - first.sent), eof: true });
  const { jobs } = await wait(job.id);
  assert.equal(jobs[0]!.status, 'completed');
  const { text } = await call<Sent>('read_output', { id: job.id });
  assert.equal(text, 'up\n120000\n');
});

test('open input works with any PATH, and run_command returns when the command waits for input', async (t) => {
  const { run, call } = await start(t);
  const env = { PATH: '/nonexistent' };
  const job = await run({ command: 'printf "name? "; read x; echo "hi $x"', stdin: 'open', env });
  assert.equal(job.output!.text, 'name? ');
  assert.match(job.hint!, /waits for input/);
  const end = await call<Sent>('send_input', { id: job.id, text: 'you', newline: true });
  assert.deepEqual([end.text, end.status], ['hi you\n', 'completed']);
});

test('a signal that the command survives does not end its input', async (t) => {
  const { background, call, wait } = await start(t);
  const program =
    'process.on("SIGTERM", () => console.log("term")); console.log("set"); process.stdin.pipe(process.stdout)';
  const job = await background({ argv: [process.execPath, '-e', program], stdin: 'open' });
  await wait(job.id, { until: { text: 'set' } });
  const sent = await call<{ processes: number }>('send_signal', { id: job.id, signal: 'TERM' });
  assert.equal(sent.processes, 1);
  await wait(job.id, { until: { text: 'term' } });
  const answer = await call<Sent>('send_input', { id: job.id, text: 'still here', newline: true });
  assert.equal(answer.text, 'still here\n');
  await call('send_input', { id: job.id, eof: true });
  assert.equal((await wait(job.id)).jobs[0]!.status, 'completed');
});
