// The command line against a real server: run, list, show, logs, wait, cancel, retry, queues and help.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli, serverEnv } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { until } from '../helpers/until.ts';

interface Shown {
  id: string;
  status: string;
  exitCode: number | null;
  signal: string | null;
  name?: string;
  tags?: string[];
  attempts: { number: number };
}

test('run follows the output and exits with the exit code of the job', async () => {
  const server = await sharedServer();
  const ok = await server.cli('run', '--', 'sh', '-c', 'echo out; echo err >&2');
  assert.deepEqual([ok.code, ok.stdout], [0, 'out\nerr\n']);
  const bad = await server.cli('run', '--shell', 'echo no; exit 9');
  assert.deepEqual([bad.code, bad.stdout], [9, 'no\n']);
  const json = await server.cli(
    'run',
    '--wait',
    '--json',
    '--name',
    'n',
    '--tag',
    'a',
    '--tag',
    'b',
    '--env',
    'K=v w',
    '--shell',
    'test "$K" = "v w"',
  );
  const shown = json.json<Shown>();
  assert.deepEqual(
    [json.code, shown.status, shown.exitCode, shown.name, shown.tags],
    [0, 'completed', 0, 'n', ['a', 'b']],
  );
  const slow = await server.cli('run', '--timeout', '1', '--', 'sleep', '60');
  assert.equal(slow.code, 124);
  const missing = await server.cli('run', '--', 'no-such-program-here');
  assert.notEqual(missing.code, 0);
  assert.match(missing.stderr, /no-such-program-here|127/);
});

test('the job runs in the working directory of the caller', async (t) => {
  const server = await sharedServer();
  const folder = join(tempFolder(t), 'here');
  mkdirSync(folder);
  const answer = await cli(
    server.home,
    ['run', '--shell', 'pwd; echo "$MINE"'],
    { MINE: 'yes', PATH: process.env.PATH! },
    { cwd: folder },
  );
  assert.equal(answer.stdout.split('\n')[0], realpathSync(folder));
});

test('detach, list, show, logs, wait, cancel and retry return stable JSON and exit codes', async () => {
  const server = await sharedServer();
  const started = (
    await server.cli('run', '--detach', '--json', '--shell', 'echo one; echo two; exec sleep 60')
  ).json<Shown>();
  assert.match(started.id, /^job_/);
  const running = await until('the job runs', async () => {
    const shown = (await server.cli('show', '--json', started.id)).json<Shown>();
    return shown.status === 'running' ? shown : undefined;
  });
  assert.deepEqual([running.exitCode, running.signal, running.attempts.number], [null, null, 1]);
  const list = (
    await server.cli(
      'list',
      '--json',
      '--status',
      'running,queued',
      '--kind',
      'command',
      '--limit',
      '5',
    )
  ).json<{ jobs: Shown[] }>();
  assert.deepEqual(
    list.jobs.map(({ id }) => id),
    [started.id],
  );
  await until(
    'both lines are printed',
    async () => (await server.cli('logs', '--tail', '1', started.id)).stdout === 'two\n',
  );
  assert.equal((await server.cli('wait', '--timeout', '100ms', started.id)).code, 7);
  const cancelled = (await server.cli('cancel', started.id, '--json')).json<Shown>();
  assert.equal(cancelled.status, 'cancelled');
  assert.equal((await server.cli('wait', started.id)).code, 1);
  const retried = (await server.cli('retry', started.id, '--json')).json<Shown>();
  assert.equal(retried.attempts.number, 2);
  await server.cli('cancel', started.id);
  const events = (await server.cli('events', started.id, '--json')).json<{
    events: { n: number }[];
  }>();
  assert.deepEqual(
    events.events.map(({ n }) => n),
    events.events.map((_, i) => i + 1),
  );
  assert.equal((await server.cli('show', 'job_0000000000000000')).code, 4);
  assert.equal((await server.cli('retry', started.id, '--wrong')).code, 2);
});

test('logs -f follows the output until the job ends', async () => {
  const server = await sharedServer();
  const { id } = (
    await server.cli('run', '-d', '--json', '--shell', 'echo a; read line; echo "got $line"')
  ).json<Shown>();
  const answer = await server.cli('logs', '-f', id);
  assert.equal(answer.stdout, 'a\ngot \n');
});

test('ctrl-c leaves the job running, or cancels it with --on-interrupt cancel', async (t) => {
  const server = await sharedServer();
  const start = (...flags: string[]) => {
    const child = spawn(
      process.execPath,
      [bin, 'run', ...flags, '--shell', 'echo ready; exec sleep 60'],
      {
        env: serverEnv(server.home),
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    t.after(() => child.kill('SIGKILL'));
    return child;
  };
  const leaving = start();
  await once(leaving.stdout, 'data');
  leaving.kill('SIGINT');
  assert.deepEqual(await once(leaving, 'exit'), [0, null]);
  const [job] = (await server.cli('list', '--json')).json<{ jobs: Shown[] }>().jobs;
  assert.equal(job!.status, 'running');
  await server.cli('cancel', job!.id);
  const stopping = start('--on-interrupt', 'cancel');
  await once(stopping.stdout, 'data');
  stopping.kill('SIGINT');
  const [code] = (await once(stopping, 'exit')) as [number];
  assert.notEqual(code, 0);
  const [last] = (await server.cli('list', '--json')).json<{ jobs: Shown[] }>().jobs;
  assert.equal(last!.status, 'cancelled');
});

test('queues pause jobs; generated commands have help and completion', async () => {
  const server = await sharedServer();
  await server.cli('queue', 'set', 'slow', '--max-concurrency', '1', '--paused');
  const { id } = (
    await server.cli('run', '-d', '--json', '--queue', 'slow', '--', 'true')
  ).json<Shown>();
  const queues = (await server.cli('queue', 'list', '--json')).json<{
    queues: { name: string; queued: number }[];
  }>();
  assert.equal(queues.queues.find(({ name }) => name === 'slow')!.queued, 1);
  await server.cli('queue', 'set', 'slow', '--no-paused');
  assert.equal((await server.cli('wait', id)).code, 0);
  const help = await server.cli('queue', 'set', '--help');
  assert.match(help.stdout, /--max-concurrency/);
  assert.equal((await server.cli('help', 'queue', 'set')).stdout, help.stdout);
  const overview = (await server.cli('help', 'all')).stdout;
  assert.match(overview, /queue list +lists queues/);
  assert.match(overview, /\n {2}crawl .*\n(?: {2}.*\n)* {2}crawl pause /);
  assert.match((await server.cli('completion', 'words', 'queue')).stdout, /list set/);
  assert.match((await server.cli('completion', 'bash')).stdout, /complete -F/);
});

test('every built-in command has help, and an unknown flag prints its usage', async () => {
  const server = await sharedServer();
  for (const name of ['run', 'logs', 'show', 'wait', 'serve', 'mcp', 'doctor', 'store']) {
    const help = await server.cli(name, '--help');
    assert.equal(help.code, 0);
    assert.match(help.stdout, new RegExp(`^Usage: errand ${name} `));
  }
  assert.match(
    (await server.cli('run', '--help')).stdout,
    /--timeout 10m +stop the job after this time/,
  );
  // Arguments after -- belong to the command.
  assert.match((await server.cli('run', '--', 'printf', '%s', '--help')).stdout, /^--help/);
  const wrong = await server.cli('logs', '--bad');
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /Unknown flag --bad[\s\S]*Usage: errand logs/);
});

test('logs --attempt prints an earlier attempt', async (t) => {
  const server = await sharedServer();
  const marker = join(tempFolder(t), 'marker');
  const line = `if [ -e ${marker} ]; then echo second; else touch ${marker}; echo first; exit 1; fi`;
  const failed = await server.cli('run', '--json', '--shell', line);
  const { id } = failed.json<Shown>();
  await server.cli('retry', id);
  await server.cli('wait', id);
  assert.equal((await server.cli('logs', id)).stdout, 'second\n');
  assert.equal((await server.cli('logs', '--attempt', '1', id)).stdout, 'first\n');
  for (const more of [[], ['-f'], ['--tail', '1'], ['--json']]) {
    const none = await server.cli('logs', '--attempt', '3', ...more, id);
    assert.deepEqual([none.code, none.stdout.includes('second')], [4, false], more.join());
  }
  const wrong = await server.cli('logs', '--attempt', '0', id);
  assert.deepEqual([wrong.code, /--attempt: must be at least 1/.test(wrong.stderr)], [2, true]);
});

test('a bare number in a duration flag means seconds, or milliseconds in an -ms flag', async () => {
  const server = await sharedServer();
  const ttl = async (...flags: string[]) => {
    const saved = await server.cli('endpoint', 'save', 'e1', '--json', ...flags);
    return saved.json<{ spec: { ttlMs: number } }>().spec.ttlMs;
  };
  assert.deepEqual(
    [await ttl('--ttl', '90'), await ttl('--ttl', '2m'), await ttl('--ttl-ms', '60500')],
    [90_000, 120_000, 60_500],
  );
});
