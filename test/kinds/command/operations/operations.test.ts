// Command operations on a complete server in this process: real processes, real database, no interfaces.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { tempFolder } from '../../../helpers/folder.ts';
import { freePort } from '../../../helpers/port.ts';
import { isGone } from '../../../helpers/process.ts';
import { until } from '../../../helpers/until.ts';
import { programs, start, type Reading, type View } from '../kit.ts';

describe('run_command', () => {
  test('a real shell with pipes, &&, variables and quotes; argv without a shell', async (t) => {
    const { run } = await start(t);
    const lines: [object, string][] = [
      [{ command: 'echo hi | tr h H' }, 'Hi\n'],
      [{ command: 'cd /tmp && pwd' }, '/tmp\n'],
      [{ command: 'X=it\\\'s; echo "$X"; echo b' }, "it's\nb\n"],
      [{ argv: ['printf', '%s|', 'a b', '$HOME', '*'] }, 'a b|$HOME|*|'],
    ];
    for (const [input, text] of lines) {
      const view = await run(input);
      assert.deepEqual([view.status, view.exitCode, view.output?.text], ['completed', 0, text]);
    }
  });

  test('reports how a command failed: exit code, signal, not found, no permission, missing folder', async (t) => {
    const { run } = await start(t);
    const cases: [object, unknown[]][] = [
      [{ command: 'echo oops >&2; exit 7' }, ['failed', 7, null, 'exitCode']],
      [{ command: 'kill -ABRT $$' }, ['failed', null, 'SIGABRT', 'signal']],
      [{ argv: ['no-such-program'] }, ['failed', 127, null, 'commandNotFound']],
      [{ argv: [join(programs, 'ignore-term.sh')] }, ['failed', 126, null, 'notExecutable']],
      [{ command: 'true', cwd: '/no/such/folder' }, ['failed', null, null, 'cwdMissing']],
    ];
    for (const [input, expected] of cases) {
      const view = await run(input);
      assert.deepEqual([view.status, view.exitCode, view.signal, view.error?.code], expected);
      assert.ok(view.error?.hint, 'with a hint');
    }
    if (process.getuid?.() === 0) return;
    const closed = join(tempFolder(t), 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0);
    const { error } = await run({ command: 'true', cwd: closed });
    // Only root removes a folder that it cannot read.
    chmodSync(closed, 0o700);
    assert.equal(error?.code, 'cannotStart');
  });

  test('invalid input is refused with the reason', async (t) => {
    const { run } = await start(t);
    for (const [input, message] of [
      [{}, /exactly one of command and argv/],
      [{ command: 'a', argv: ['b'] }, /exactly one/],
      [{ command: 'a\0b' }, /NUL/],
      [{ command: 'a', ensure: true }, /ensure requires name/],
      [{ command: 'a', env: { 'no name': 'x' } }, /Invalid key/],
      [{ command: 'a', cwd: 'relative' }, /absolute/],
      [{ command: 'a', tty: true, streams: 'split' }, /split streams/],
      [{ command: 'a', nonsense: 1 }, /nonsense/],
    ] as const) {
      await assert.rejects(run(input), (error: Error & { code: string }) => {
        assert.equal(error.code, 'invalidInput');
        assert.match(error.message, message);
        return true;
      });
    }
  });

  test('PATH, folder and virtualenv come from the caller, prompts and pagers are off', async (t) => {
    const { run } = await start(t, {}, { VIRTUAL_ENV: '/server/venv', SECRET_OF_SERVER: 'no' });
    const folder = tempFolder(t);
    const origin = {
      cwd: folder,
      env: { PATH: `/caller/bin:${process.env.PATH}`, VIRTUAL_ENV: '/caller/venv', API_KEY: 'k' },
    };
    const view = await run(
      {
        command:
          'pwd; echo $PATH; echo $VIRTUAL_ENV; echo $GIT_PAGER; echo [$API_KEY$SECRET_OF_SERVER]',
      },
      { origin },
    );
    const [cwd, path, venv, pager, secrets] = view.output!.text.split('\n');
    assert.deepEqual([cwd, venv, pager, secrets], [folder, '/caller/venv', 'cat', '[]']);
    assert.ok(path!.startsWith('/caller/bin:'));
    const without = await run({ command: 'echo [$VIRTUAL_ENV]' });
    assert.equal(without.output?.text, '[]\n');
  });

  test('secrets are never stored or shown, and a retry without them fails with secretMissing', async (t) => {
    const { run, call, home, app, get } = await start(t, {}, { SECRET_OF_SERVER: 'no' });
    await assert.rejects(run({ command: 'true', secrets: ['SECRET_OF_SERVER'] }), {
      code: 'secretMissing',
    });
    const origin = { cwd: '/', env: { TOKEN: 'hush-hush-123' } };
    const view = await run(
      { command: 'printf %s "$TOKEN" | wc -c', secrets: ['TOKEN'] },
      { origin },
    );
    assert.equal(view.output?.text.trim(), '13');
    const shown = JSON.stringify(await call('get_job', { id: view.id, includeInput: true }));
    assert.doesNotMatch(shown, /hush-hush/);
    for (const name of readdirSync(home).filter((one) => one.startsWith('errand.sqlite')))
      assert.equal(readFileSync(join(home, name)).includes('hush-hush-123'), false, name);
    await assert.rejects(run({ command: 'true', secrets: ['TOKEN'] }), { code: 'secretMissing' });
    writeFileSync(join(home, 'env'), 'TOKEN=from-file\n', { mode: 0o600 });
    const filed = await run({ command: 'echo $TOKEN; exit 1', secrets: ['TOKEN'] });
    assert.equal(filed.output?.text, 'from-file\n');
    chmodSync(join(home, 'env'), 0o644);
    await assert.rejects(run({ command: 'true', secrets: ['TOKEN'] }), /other users can access it/);
    chmodSync(join(home, 'env'), 0o600);
    writeFileSync(join(home, 'env'), '');
    // Simulates a restart: the values that came with the call are gone.
    const job = await app.jobs.submit({
      kind: 'command',
      owner: 'me',
      input: { ...((await app.jobs.get(filed.id)).input as object) },
    });
    const ended = await until('over', async () => {
      const now = await get(job.job.id);
      return now.status === 'failed' ? now : undefined;
    });
    assert.equal(ended.error?.code, 'secretMissing');
  });

  test('stdin as text; each split stream is exact', async (t) => {
    const { run, read } = await start(t);
    assert.equal(
      (await run({ command: 'wc -c', stdin: { text: 'x'.repeat(99_999) } })).output?.text.trim(),
      '99999',
    );
    const split = await run({ command: 'echo o; echo e >&2', streams: 'split' });
    const both = await read(split.id);
    assert.equal(both.text, '--- stdout ---\no\n--- stderr ---\ne\n');
    assert.equal((await read(split.id, { stream: 'stderr' })).text, 'e\n');
    await assert.rejects(read((await run({ command: 'true' })).id, { stream: 'stderr' }), {
      code: 'invalidInput',
    });
  });

  test('waitMs 0 returns immediately, with a hint how to continue', async (t) => {
    const { background, cancel } = await start(t);
    const view = await background({ command: 'sleep 300' });
    assert.ok(['queued', 'running'].includes(view.status));
    assert.match(view.hint!, /wait_for_jobs/);
    await cancel(view.id);
  });

  test('the same idempotency key returns the same job, even if PATH differs', async (t) => {
    const { run } = await start(t);
    const input = { command: 'echo once', idempotencyKey: 'k' };
    const origin = (path: string) => ({ origin: { cwd: '/tmp', env: { PATH: path } } });
    const first = await run(input, origin('/usr/bin:/bin'));
    const again = await run(input, origin('/bin:/usr/bin'));
    assert.deepEqual([again.id, again.existing], [first.id, true]);
    await assert.rejects(run({ ...input, command: 'echo other' }, origin('/bin')), {
      code: 'idempotencyConflict',
    });
  });

  test('history: past runs, success rate, expected duration', async (t) => {
    const { run, get } = await start(t);
    const flag = join(tempFolder(t), 'flag');
    const command = `test -f ${flag}`;
    await run({ command });
    writeFileSync(flag, '');
    await run({ command });
    const early = (await get((await run({ command })).id)).history as Record<string, number>;
    assert.equal(early.expectedMs, undefined, 'two good runs say nothing about the next');
    const last = await run({ command });
    const { history } = await get(last.id);
    const { runs, successRate, expectedMs } = history as Record<string, number>;
    assert.deepEqual([runs, successRate], [4, 0.75]);
    assert.ok(expectedMs! >= 0);
  });
});

describe('ensure and ready', () => {
  const server = (port: number) =>
    `${process.execPath} -e 'require("http").createServer((q, s) => s.end("hi")).listen(${port}, "127.0.0.1", () => console.log("up"))'`;

  test('text, port and HTTP make a job ready; ensure returns the healthy job, even concurrently', async (t) => {
    const { run, cancel, get } = await start(t);
    const port = await freePort();
    const input = {
      command: server(port),
      name: 'web',
      ensure: true,
      ready: { text: 'up', port, http: `http://127.0.0.1:${port}/` },
    };
    const [a, b] = await Promise.all([run(input), run(input)]);
    assert.equal(a.id, b.id);
    assert.deepEqual([a.status, a.stage], ['running', 'ready']);
    assert.deepEqual((await get(a.id)).ports, [port]);
    const again = await run(input);
    assert.deepEqual([again.id, again.existing], [a.id, true]);
    await cancel(a.id);
    const fresh = await run(input);
    assert.notEqual(fresh.id, a.id);
    assert.equal(fresh.stage, 'ready');
    await cancel(fresh.id);
  });
});

describe('wait_for_jobs', () => {
  test('text, silence, new bytes, input needed, the end; a timeout is a normal result', async (t) => {
    const { background, wait, cancel, call } = await start(t);
    const job = await background({
      command: 'echo one; read -r x; echo "got $x"; read -r y; exit 4',
      stdin: 'open',
    });
    const reason = async (until_: object) =>
      (await wait(job.id, { until: until_ })).reached[0]?.reason;
    assert.equal(await reason({ text: 'one' }), 'text');
    assert.equal(await reason({ inputNeeded: true }), 'inputNeeded');
    assert.equal(await reason({ silenceMs: 200 }), 'silence');
    const waiting = reason({ newBytes: 5 });
    await until('input_required', async () => {
      const { status } = await call<View>('get_job', { id: job.id });
      return status === 'input_required';
    });
    await call('send_input', { id: job.id, text: 'two', newline: true });
    assert.equal(await waiting, 'newBytes');
    await assert.rejects(wait(job.id, { until: { http: 'localhost:3000' } }), {
      code: 'invalidInput',
      message: /until\.http: not an http\(s\) URL/,
    });
    const late = await wait(job.id, { until: { text: 'never' }, timeoutMs: 100 });
    assert.equal(late.done, false);
    // Output before the cursor was already seen.
    const stale = await wait(job.id, { until: { text: 'one', from: 4 }, timeoutMs: 100 });
    assert.equal(stale.done, false);
    const [got] = (await wait(job.id, { until: { text: 'two', from: 4 } })).reached;
    assert.deepEqual(got!.detail, { cursor: 8, text: 'got two' });
    const [grown] = (await wait(job.id, { until: { newBytes: 8, from: 4 } })).reached;
    assert.deepEqual(grown!.detail, { bytes: 8 });
    await call('send_input', { id: job.id, text: 'end\n' });
    const end = await wait(job.id);
    assert.deepEqual([end.done, end.jobs[0]!.exitCode], [true, 4]);
    await cancel(job.id);
  });
});

describe('send_input and send_signal', () => {
  test('returns new output; eof ends the input; an ended job returns its state', async (t) => {
    const { background, call } = await start(t);
    const job = await background({
      command: 'echo old; while read -r x; do echo "<$x>"; done; echo bye',
      stdin: 'open',
    });
    const send = (input: object) =>
      call<View & { text: string; sent: number }>('send_input', { id: job.id, ...input });
    await until(
      'old',
      async () => (await call<Reading>('read_output', { id: job.id })).text === 'old\n',
    );
    assert.equal((await send({ text: 'a', newline: true })).text, '<a>\n');
    assert.equal((await send({ text: 'b\nc\n' })).text, '<b>\n<c>\n');
    const end = await send({ eof: true });
    assert.deepEqual([end.text, end.status, end.exitCode], ['bye\n', 'completed', 0]);
    const late = await send({ text: 'x' });
    assert.deepEqual([late.sent, late.status], [0, 'completed']);
    assert.match(late.hint!, /has ended/);
  });

  test('closed input is refused with a hint', async (t) => {
    const { background, call, cancel } = await start(t);
    const job = await background({ command: 'sleep 300' });
    await assert.rejects(call('send_input', { id: job.id, text: 'x' }), /no open input/);
    await cancel(job.id);
  });

  test('a terminal: keys, screen, resize', async (t) => {
    const { background, call, read, run } = await start(t);
    const job = await background({ argv: ['cat'], tty: { cols: 60, rows: 20 } });
    const typed = await call<{ text: string }>('send_input', {
      id: job.id,
      text: 'hello',
      newline: true,
    });
    assert.match(typed.text, /hello\nhello/);
    assert.match((await read(job.id, { mode: 'screen' })).text, /^hello\nhello$/);
    await call('resize_terminal', { id: job.id, cols: 100, rows: 30 });
    const end = await call<View>('send_input', { id: job.id, keys: ['ctrl-c'] });
    assert.equal(end.status, 'failed');
    const plain = await run({ command: 'true' });
    await assert.rejects(read(plain.id, { mode: 'screen' }), { code: 'wrongState' });
  });

  test('signals reach the processes that handle them', async (t) => {
    const { background, call, wait } = await start(t);
    const job = await background({
      argv: [
        'sh',
        '-c',
        "sleep 300 & trap 'echo usr1' USR1; trap 'echo hup; kill $!; exit 3' HUP; echo set; while :; do wait; done",
      ],
    });
    await wait(job.id, { until: { text: 'set' } });
    const sent = await call<{ processes: number }>('send_signal', { id: job.id, signal: 'usr1' });
    assert.equal(sent.processes, 1);
    await wait(job.id, { until: { text: 'usr1' } });
    await call('send_signal', { id: job.id, signal: 'SIGHUP' });
    assert.equal((await wait(job.id)).jobs[0]!.exitCode, 3);
    await assert.rejects(call('send_signal', { id: job.id, signal: 'INT' }), {
      code: 'wrongState',
    });
  });
});

describe('cancel', () => {
  test('the whole tree ends; a process that ignores SIGTERM delays no other call', async (t) => {
    const { background, cancel, run, wait } = await start(t);
    const folder = tempFolder(t);
    const family = await background({ argv: ['sh', join(programs, 'family.sh'), folder] });
    const stubborn = await background({ argv: ['sh', join(programs, 'ignore-term.sh')] });
    await wait(family.id, { until: { text: 'ready' } });
    await wait(stubborn.id, { until: { text: 'ready' } });
    const ends = Promise.all([cancel(stubborn.id), cancel(family.id)]);
    assert.equal((await run({ command: 'echo still here' })).output?.text, 'still here\n');
    const [a, b] = await ends;
    assert.deepEqual([a.status, a.signal], ['cancelled', 'SIGKILL']);
    assert.deepEqual([b.status, b.signal, b.survivors], ['cancelled', 'SIGTERM', undefined]);
    for (const name of ['background', 'session', 'orphan']) {
      const pid = readFileSync(join(folder, name), 'utf8').trim();
      await until(`${name} is gone`, () => !existsSync(`/proc/${pid}/exe`) || isGone(pid));
    }
  });

  test('children that outlive a command are reported', async (t) => {
    const { run } = await start(t);
    const view = await run({ command: 'sleep 300 & echo $!' });
    assert.equal(view.status, 'completed');
    const pid = Number(view.output!.text);
    assert.deepEqual(view.leftBehind, [pid]);
    process.kill(pid, 'SIGKILL');
  });
});

describe('retry, forget, follow', () => {
  test('a retry is a new attempt; the output of the earlier one stays readable', async (t) => {
    const { run, call, read, wait } = await start(t);
    const flag = join(tempFolder(t), 'flag');
    const first = await run({
      command: `test -f ${flag} && echo second || { echo first; exit 1; }`,
    });
    assert.equal(first.status, 'failed');
    writeFileSync(flag, '');
    await call('retry_job', { id: first.id });
    assert.equal((await wait(first.id)).jobs[0]!.status, 'completed');
    assert.equal((await read(first.id)).text, 'second\n');
    const earlier = await read(first.id, { attempt: 1 });
    assert.deepEqual([earlier.text, earlier.exitCode], ['first\n', 1]);
  });

  test('removed jobs leave no files', async (t) => {
    const { run, app, home } = await start(t);
    const { id } = await run({ command: 'echo x' });
    const folder = join(home, 'command', 'jobs', id.slice(-2), id);
    assert.ok(statSync(folder).isDirectory());
    await app.jobs.kind('command').forget!([id]);
    assert.equal(existsSync(folder), false);
  });

  test('following returns everything in order and ends with the job; skipped output is reported', async (t) => {
    const { background, stream } = await start(t);
    const slow = await background({
      command: 'for i in 1 2 3; do echo $i; sleep 0.1; done; exit 2',
    });
    const signal = AbortSignal.timeout(30_000);
    let text = '';
    let end: unknown;
    for await (const item of stream('read_output', { id: slow.id, from: 0 }, signal)) {
      if (item.event === 'output') text += (item.data as { text: string }).text;
      else end = item.data;
    }
    assert.equal(text, '1\n2\n3\n');
    assert.equal((end as View).exitCode, 2);
    const torn = await background({
      command: String.raw`for part in 'a \033[3' '1mred\033[0m \342\202' '\254\n'; do printf "$part"; sleep 0.25; done`,
    });
    let whole = '';
    for await (const item of stream('read_output', { id: torn.id, from: 0 }, signal))
      if (item.event === 'output') whole += (item.data as { text: string }).text;
    assert.equal(whole, 'a red €\n');
    const flood = await background({ command: 'seq 1 2000000; sleep 0.3; seq 1 100' });
    const events = new Set<string>();
    for await (const item of stream('read_output', { id: flood.id }, signal))
      events.add(item.event);
    assert.ok(events.has('skipped') && events.has('output') && events.has('end'));
  });
});
