// Output for people: tables that fit the terminal, live lists, help, suggestions, and reasons why a job waits.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { tempFolder } from '../helpers/folder.ts';
import { listen } from '../helpers/listener.ts';
import { cli, startServer } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { errandIn } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';

const escape = '\u001b[';

test('list fits 80 columns and prints short ids that commands accept; --watch updates the table', async (t) => {
  const server = await sharedServer();
  const long = 'a-name-that-is-far-too-long-for-any-table-'.repeat(3);
  await server.cli('run', '-n', long, '--shell', `echo ${'word '.repeat(60)}; exit 3`);
  await server.cli('run', '-d', '-n', '日本語の名前', '--', 'sleep', '300');
  const listing = errandIn(t, server.home, ['ls']);
  assert.equal(await listing.exited, 0);
  const lines = (await listing.screen()).filter((line) => line !== '');
  assert.equal(lines.length, 3, 'no line is wrapped');
  assert.match(lines[0]!, /^ID +STATUS +EXIT +AGE +RUN +NAME +SUMMARY$/);
  assert.match(lines[2]!, /^[0-9a-z]{8} +failed +3 +(now|\d+s ago) +/);
  assert.ok(listing.drawn().includes(escape), 'in colour');
  const short = lines[2]!.split(' ')[0]!;
  assert.match((await server.cli('status', short)).stdout, /exit code 3/);
  assert.match((await server.cli('log', '-n', '1', short)).stdout, /^word/);
  assert.match((await server.cli('status')).stdout, /^ID .*\n.* running /);

  const watching = errandIn(t, server.home, ['list', '--watch', '--limit', '5']);
  await watching.shows(/日本語の名前/);
  await server.cli('run', '-n', 'later', '--', 'true');
  await watching.shows(/later +true/);
  watching.type('\u0003');
  assert.equal(await watching.exited, 0);

  const plain = await server.cli('list', '-n', '1');
  assert.match(plain.stdout, /^ID .*\njob_[0-9a-z]{16} /, 'whole ids for scripts');
  const forced = await cli(server.home, ['show', short], { FORCE_COLOR: '1', NO_COLOR: '' });
  assert.ok(forced.stdout.includes(escape));
  const none = errandIn(t, server.home, ['list'], { env: { NO_COLOR: '1' } });
  await none.exited;
  assert.ok(!none.drawn().includes(`${escape}3`));
});

test('show, run and wait print what a job is waiting for', async (t) => {
  const server = await sharedServer();
  await server.cli('queue', 'set', 'ci', '--max-concurrency', '1');
  await server.cli('run', '-d', '-n', 'first', '--queue', 'ci', '--', 'sleep', '300');
  await server.cli('run', '-d', '-n', 'second', '--queue', 'ci', '--', 'sleep', '300');
  await server.cli('run', '-d', '-n', 'third', '--queue', 'ci', '--', 'true');
  await until('the first job runs', async () =>
    /running/.test((await server.cli('show', 'first')).stdout),
  );
  assert.match(
    (await server.cli('show', 'second')).stdout,
    /queued in ci: 1 of 1 running, 0 ahead/,
  );
  assert.match((await server.cli('show', 'third')).stdout, /queued in ci: 1 of 1 running, 1 ahead/);
  const waited = await server.cli('wait', 'second', '--timeout', '1500ms');
  assert.deepEqual(
    [waited.code, /waiting for 1 job:\n.*second: queued in ci: 1 of 1/.test(waited.stderr)],
    [7, true],
    waited.stderr,
  );
  const held = errandIn(t, server.home, ['run', '--queue', 'ci', '--', 'true']);
  await held.shows(/queued in ci: 1 of 1 running, 2 ahead/);
  const later = errandIn(t, server.home, ['run', '--run-at', '2h', '--', 'true']);
  await later.shows(/starts at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(in (2h00m|1h59m)\)/);
  const early = await server.cli('run', '-d', '--run-at', '08:00', '-n', 'early', '--', 'true');
  assert.equal(early.code, 0, early.stderr);
  assert.match((await server.cli('show', 'early')).stdout, /starts at .* 08:00:00 \(in /);
  assert.equal((await server.cli('run', '-d', '--run-at', '25:00', '--', 'true')).code, 2);
});

test('rerun creates a new job and rm deletes a job; both refuse a running job', async () => {
  const server = await sharedServer();
  await server.cli('run', '-n', 'once', '--', 'echo', 'printed');
  const again = await server.cli('rerun', 'once');
  assert.equal(again.code, 0, again.stderr);
  const id = again.stdout.trim();
  assert.match(id, /^job_/);
  assert.equal((await server.cli('wait', '@last')).stdout, `${id} completed\n`);
  assert.equal((await server.cli('logs', id)).stdout, 'printed\n');
  assert.match((await server.cli('logs', 'once')).stderr, /2 jobs are named once/);
  assert.equal((await server.cli('rm', id)).stdout, `${id} deleted\n`);
  assert.equal((await server.cli('logs', id)).code, 4);
  assert.equal((await server.cli('logs', 'once')).stdout, 'printed\n');
  const running = (await server.cli('run', '-d', '-n', 'busy', '--', 'sleep', '300')).stdout.trim();
  for (const verb of ['rm', 'rerun']) {
    const refused = await server.cli(verb, 'busy');
    assert.deepEqual([refused.code, /has not ended/.test(refused.stderr)], [5, true], verb);
    assert.doesNotMatch(refused.stderr, /cancel_job|wait_for_jobs/, 'commands, not tools');
  }
  assert.match((await server.cli('kill', 'busy')).stdout, /cancelled/);
  const late = await server.cli('cancel', running);
  assert.match(late.stdout, /had already ended \(cancelled\); nothing to cancel/);
  await server.cli('pin', running);
  assert.match((await server.cli('rm', running)).stderr, /is pinned/);
});

test('help fits 80 columns and lists only existing commands; typos get a suggestion', async () => {
  const server = await sharedServer();
  const { stdout } = await server.cli('help');
  const lines = stdout.trimEnd().split('\n');
  assert.ok(lines.length <= 60, `${lines.length} lines`);
  for (const line of lines) assert.ok(line.length <= 80, line);
  const groups = stdout.split('\n\n').filter((block) => /^[A-Z][^\n]*:\n {2}/.test(block));
  assert.ok(groups.length >= 5, 'groups and examples');
  const named = [...stdout.matchAll(/^ {2}(?!errand)([a-z, ]+?)(?= [A-Z-]| {2,})/gm)].flatMap(
    ([, words]) => words!.split(', '),
  );
  assert.ok(named.length > 20, named.join());
  for (const words of named) {
    const help = await server.cli('help', ...words.split(' '));
    assert.equal(help.code, 0, words);
    for (const line of help.stdout.split('\n')) assert.ok(line.length <= 80, line);
  }
  const stderrOf = async (...args: string[]) => {
    const { code, stderr } = await server.cli(...args);
    assert.equal(code, 2, stderr);
    assert.ok(stderr.split('\n').length <= 4, stderr);
    return stderr;
  };
  assert.match(await stderrOf('lsit'), /Did you mean `errand list`/);
  assert.match(await stderrOf('queu', 'list'), /Did you mean `errand queue`/);
  assert.match(await stderrOf('queue', 'lits'), /Did you mean `errand queue list`/);
  assert.match(await stderrOf('list', '--statsu', 'failed'), /Did you mean --status\?/);
  assert.match(await stderrOf('run', '--detahc', '--', 'true'), /Did you mean --detach\?/);
  assert.match(await stderrOf('list', '--limit', '900'), /--limit: must be at most 200/);
  assert.match(await stderrOf('endpoint', 'save'), /needs an id or a recipe/);
  const flags = await server.cli('run', '-d', 'ls', '-l', '--no-such-flag');
  assert.equal(flags.code, 0, 'flags after the command are its own');
});

test('--home works before and after a command and takes precedence over ERRAND_URL', async (t) => {
  const server = await startServer(t);
  await server.cli('run', '-n', 'here', '--', 'echo', 'hi');
  const elsewhere = join(tempFolder(t), 'other');
  const env = { ERRAND_URL: 'http://127.0.0.1:9' };
  for (const args of [
    ['logs', 'here', '--home', server.home],
    ['--home', server.home, 'logs', 'here'],
    [`--home=${server.home}`, 'logs', 'here'],
  ])
    assert.equal((await cli(elsewhere, args, env)).stdout, 'hi\n', args.join(' '));
  const help = await cli(elsewhere, ['--home', server.home, 'help', 'queue'], env);
  assert.match(help.stdout, /^Usage: errand queue COMMAND/, help.stderr);
  const group = await cli(elsewhere, ['queue', '--home', server.home], env);
  assert.match(group.stderr, /^errand: Unknown command: `errand queue`\./);
  const listed = await cli(elsewhere, ['list', '--json', '--home', server.home], env);
  assert.equal(listed.json<{ jobs: unknown[] }>().jobs.length, 1);
  const run = ['run', '--home', server.home, '--', 'sh', '-c', 'echo "$0 $1"', '--home', 'x'];
  assert.equal((await cli(elsewhere, run, env)).stdout, '--home x\n');
});

test('an invalid ERRAND_URL or ERRAND_KEY fails with a clear error', async (t) => {
  const home = tempFolder(t);
  const stderrOf = async (env: Record<string, string>) => {
    const { code, stderr } = await cli(home, ['list'], env);
    assert.doesNotMatch(stderr, /\n +at |TypeError/, stderr);
    return `${code} ${stderr}`;
  };
  assert.match(await stderrOf({ ERRAND_URL: '127.0.0.1:7411' }), /^2 .*not a URL[^]*http:\/\/127/);
  assert.match(await stderrOf({ ERRAND_URL: 'ftp://x' }), /^2 .*not an http/);
  const credentials = await stderrOf({ ERRAND_URL: 'http://user:pass@x' });
  assert.match(credentials, /^2 .*ERRAND_KEY/);
  assert.doesNotMatch(credentials, /pass@/, 'a password is not printed');
  assert.match(await stderrOf({ ERRAND_URL: 'http://a b' }), /^2 .*which is not a URL\./);
  const url = await listen(t, (_request, response) => response.writeHead(404).end());
  assert.match(await stderrOf({ ERRAND_URL: url }), /^7 .*HTTP 404.*\n.*not.* an Errand server/);
  assert.match(await stderrOf({ ERRAND_URL: 'http://127.0.0.1:9' }), /^7 .*Cannot reach/);
  const key = { ERRAND_URL: 'http://127.0.0.1:9', ERRAND_KEY: 'a b\nc' };
  assert.match(await stderrOf(key), /^2 .*ERRAND_KEY/);
});

test('show uses colours on a terminal', async (t) => {
  const server = await sharedServer();
  await server.cli('run', '-n', 'bad', '--', 'false');
  const shown = errandIn(t, server.home, ['show', 'bad']);
  await shown.exited;
  assert.ok(shown.drawn().includes(`${escape}31mfailed`), shown.drawn());
  assert.match(stripVTControlCharacters(shown.drawn()), /failed · command "bad" · exit code 1/);
});
