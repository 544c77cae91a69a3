// `errand run`: secrets, environment, scheduling, terminal size, stdin and readiness.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { bin, cli, serverEnv } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';

test('run --secret passes a variable of the caller and stores only its name', async () => {
  const server = await sharedServer();
  const line = ['run', '--secret', 'TOKEN', '--json', '--shell', 'test ${#TOKEN} -eq 6'];
  const answer = await cli(server.home, line, { TOKEN: 's3cret' });
  assert.equal(answer.code, 0, answer.stderr);
  const { id } = answer.json<{ id: string }>();
  const shown = await server.cli('show', '--json', '--input', id);
  assert.match(shown.stdout, /"secrets":\["TOKEN"\]/);
  assert.doesNotMatch(shown.stdout, /s3cret/);
  const missing = await server.cli(...line);
  assert.equal(missing.code, 5);
  assert.match(missing.stdout + missing.stderr, /TOKEN has no value/);
});

test('run works with an environment near the system limit', async () => {
  const { home } = await sharedServer();
  const names = Array.from({ length: 12 }, (_, i) => [`LARGE_${i}`, 'x'.repeat(120_000)]);
  const { code, stderr } = await cli(home, ['run', '--', 'true'], Object.fromEntries(names));
  assert.equal(code, 0, stderr);
});

test('run passes on dependencies, start time, priority and idempotency key', async () => {
  const { cli: errand } = await sharedServer();
  const id = async (...args: string[]) => {
    const { code, stdout, stderr } = await errand('run', '-d', ...args);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  await errand('queue', 'set', 'one', '--max-concurrency', '1', '--paused', 'true');
  const first = await id('--queue', 'one', '--priority=-1', '--', 'true');
  const second = await id('--queue', 'one', '--priority', '2', '--after', first, '--', 'true');
  const later = await id('--queue', 'one', '--run-at', '2h', '--ttl', '3h', '--', 'true');
  const once = await id('--idempotency-key', 'k', '--', 'true');
  assert.equal(await id('--idempotency-key', 'k', '--', 'true'), once);
  const other = await errand('run', '-d', '--idempotency-key', 'k', '--', 'false');
  assert.deepEqual([other.code, /different body/.test(other.stderr)], [5, true], other.stderr);
  await errand('queue', 'set', 'one', '--paused=false');
  assert.equal((await errand('wait', first, second)).code, 0);
  const shown = (await errand('show', '--json', later)).json<{
    status: string;
    priority: number;
  }>();
  assert.equal(shown.status, 'queued');
  const odd = await errand('run', '-d', '--run-at', 'soon', '--', 'true');
  assert.deepEqual([odd.code, /--run-at/.test(odd.stderr)], [2, true], odd.stderr);
  const word = await errand('queue', 'set', 'one', '--paused=ja');
  assert.deepEqual([word.code, /--paused must be true or false/.test(word.stderr)], [2, true]);
});

test('run --tty gives the job the size of the terminal', async () => {
  const server = await sharedServer();
  const line = `stty rows 33 cols 77; exec ${process.execPath} ${bin} run --tty -- stty size`;
  const { stdout } = spawnSync('script', ['-qefc', line, '/dev/null'], {
    env: serverEnv(server.home),
    encoding: 'utf8',
  });
  assert.match(stdout, /\b33 77\b/);
});

test('run --stdin - passes piped text on unchanged', async () => {
  const { home } = await sharedServer();
  const piped = (input: string | Buffer, ...args: string[]) =>
    spawnSync(process.execPath, [bin, 'run', ...args], { env: serverEnv(home), input });
  const text = '\ufeffgrüße\r\n\n  $HOME `x` \u0000 end without a line end';
  const same = piped(text, '--stdin', '-', '--shell', 'od -An -v -tx1');
  assert.equal(same.status, 0, String(same.stderr));
  const seen = String(same.stdout).replaceAll(/\s/g, '');
  assert.equal(seen, Buffer.from(text).toString('hex'));
  const most = 'é'.repeat(2 ** 21);
  const large = piped(most, '--stdin', '-', '--', 'wc', '-c');
  assert.equal(String(large.stdout).trim(), String(2 ** 22));
  const empty = piped('', '--stdin=-', '--json', '--', 'cat');
  assert.equal((JSON.parse(String(empty.stdout)) as { status: string }).status, 'completed');
  const ignored = piped('not asked for', '--', 'cat');
  assert.equal(String(ignored.stdout), '', 'stdin is read only with --stdin -');

  const over = piped(`${most}x`, '--stdin', '-', '--', 'wc', '-c');
  assert.deepEqual([over.status, /4194304 bytes/.test(String(over.stderr))], [6, true]);
  const binary = piped(Buffer.from([0xff, 0xfe, 0x00]), '--stdin', '-', '--', 'cat');
  assert.deepEqual([binary.status, /UTF-8/.test(String(binary.stderr))], [2, true]);
  const typed = piped('x', '--stdin', '-', '--tty', '--', 'cat');
  assert.deepEqual([typed.status, /--tty/.test(String(typed.stderr))], [2, true]);
  const wrong = piped('x', '--stdin', 'file', '--', 'cat');
  assert.deepEqual([wrong.status, /none, open or -/.test(String(wrong.stderr))], [2, true]);
});

test('run --stdin - stops reading an endless pipe', async () => {
  const { home } = await sharedServer();
  const line = `yes | ${process.execPath} ${bin} run --stdin - -- true`;
  const { status, stderr } = spawnSync('sh', ['-c', line], { env: serverEnv(home) });
  assert.equal(status, 6, String(stderr));
});

test('run --detach returns when the job is ready, and --ensure reuses it', async () => {
  const server = await sharedServer();
  const up = ['--ready-text', 'up', '--json', '--shell', 'sleep 0.2; echo up; sleep 300'];
  const ensured = () => server.cli('run', '-d', '--name', 'web', '--ensure', ...up);
  const first = await ensured();
  assert.equal(first.code, 0, first.stderr);
  const { id, stage } = first.json<{ id: string; stage: string }>();
  assert.equal(stage, 'ready');
  assert.equal((await ensured()).json<{ id: string }>().id, id);
  await server.cli('cancel', id);
  const failed = await server.cli('run', '-d', '--ready-text', 'up', '--shell', 'exit 4');
  assert.equal(failed.code, 4, failed.stderr);
  const never = await server.cli('run', '-d', '--ready-text', 'up', '--', 'true');
  assert.deepEqual([never.code, /before it was ready/.test(never.stderr)], [1, true]);
  const wrong = await server.cli('run', '--ready-port', '0', '--', 'true');
  assert.deepEqual([wrong.code, /--ready-port/.test(wrong.stderr)], [2, true], wrong.stderr);
});

test('run --split separates stderr; --after fails when the other job failed', async () => {
  const server = await sharedServer();
  const split = await server.cli('run', '--split', '--shell', 'echo out; echo bad >&2');
  assert.deepEqual([split.stdout, /bad/.test(split.stderr)], ['out\n', true]);
  const { id } = (await server.cli('run', '--json', '--', 'false')).json<{ id: string }>();
  const after = await server.cli('run', '--after', id, '--', 'true');
  assert.deepEqual([after.code, after.stderr.includes(id)], [5, true], after.stderr);
});
