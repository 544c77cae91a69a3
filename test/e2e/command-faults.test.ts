// Faults that must not lose or duplicate a job: kill -9 right after an acknowledgement, a full disk, a process tree that forks
// while it is killed, and limits that would have no effect.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { commandSettings } from '../../src/kinds/command/settings.ts';
import { Policy } from '../../src/kinds/command/policy.ts';
import { parsePrograms } from '../../src/kinds/command/shell-words.ts';
import { startApp } from '../helpers/app.ts';
import { smallDisk } from '../helpers/disk.ts';
import { tempFolder } from '../helpers/folder.ts';
import { isGone } from '../helpers/process.ts';
import { onPostgres, startServer, type TestServer } from '../helpers/server.ts';
import { until } from '../helpers/until.ts';

interface View {
  id: string;
  status: string;
  exitCode: number | null;
  error?: { code: string; message: string };
  [more: string]: unknown;
}

const rounds = process.env.ERRAND_TEST_DEEP === '1' ? 30 : 3;

describe('kill -9 of the server', () => {
  test('every acknowledged job runs exactly once and ends, whenever the server is killed', async (t) => {
    const folder = tempFolder(t);
    const ran = join(folder, 'ran');
    writeFileSync(ran, '');
    let server = await startServer(t);
    const acknowledged: string[] = [];
    for (let round = 0; round < rounds; round++) {
      const submit = async () => {
        const body = { command: `echo $ERRAND_JOB_ID >> ${ran}; sleep 0.1; exit 4`, waitMs: 0 };
        const answer = await server.api('POST', '/api/commands', body).catch(() => undefined);
        if (answer?.status === 200) acknowledged.push(answer.json<View>().id);
      };
      const before = acknowledged.length;
      const many = Promise.all(Array.from({ length: 6 }, submit));
      await until('some are acknowledged', () => acknowledged.length > before + (round % 5));
      await server.kill();
      await many;
      server = await startServer(t, { home: server.home });
    }
    for (const id of acknowledged) {
      const end = await until(`${id} is over`, async () => {
        const view = (await server.api('GET', `/api/jobs/${id}`)).json<View>();
        return view.status === 'failed' ? view : undefined;
      });
      assert.deepEqual([end.exitCode, end.error?.code], [4, 'exitCode'], id);
    }
    const lines = readFileSync(ran, 'utf8').trim().split('\n');
    assert.equal(new Set(lines).size, lines.length, 'none ran twice');
    for (const id of acknowledged) assert.ok(lines.includes(id), `${id} ran`);
  });
});

describe('limits of the machine', () => {
  test('on a full disk a job keeps its true exit code, new jobs are rejected, and the server recovers when space is available', async (t) => {
    const root = smallDisk(t, '6m');
    if (root === undefined) return;
    const home = join(root, 'home');
    mkdirSync(home, { mode: 0o700 });
    const ballast = join(root, 'ballast');
    writeFileSync(ballast, Buffer.alloc(2 * 2 ** 20));
    const server = await startServer(t, { home });
    const body = { command: 'head -c 20000000 /dev/zero; echo $? >&2; exit 9', waitMs: 0 };
    const { id } = (await server.api('POST', '/api/commands', body)).json<View>();
    const exit = join(home, 'command/jobs', id.slice(-2), id, '1.1/exit');
    await until(
      'the record exists',
      () => existsSync(exit) && readFileSync(exit, 'utf8').includes('code 9'),
    );
    await refusedForLackOfRoom(server);
    rmSync(ballast);
    const end = await until('the ledger contains the end', async () => {
      const view = (await server.api('GET', `/api/jobs/${id}`)).json<View>();
      return view.status === 'failed' ? view : undefined;
    });
    assert.equal(end.exitCode, 9);
    assert.equal((await server.api('POST', '/api/commands', { command: 'true' })).status, 200);
    await server.stop();
  });

  /** If the database is on the same disk, the server rejects the job. Otherwise it accepts the job, which cannot start. */
  async function refusedForLackOfRoom(server: TestServer): Promise<void> {
    const answer = await server.api('POST', '/api/commands', { command: 'true', waitMs: 20_000 });
    const { code, detail, hint, error } = answer.json<Record<string, string> & View>();
    if (onPostgres) {
      assert.equal(error?.code, 'cannotStart', answer.text);
      assert.match(error.message, /disk of the home folder is full/);
      return;
    }
    assert.deepEqual([answer.status, code], [503, 'unavailable'], answer.text);
    assert.match(detail!, /disk is full/);
    assert.match(hint!, /Free space/);
  }

  test('a process tree that forks while it is killed leaves no process', async (t) => {
    const { call } = await startApp(t, { command: { checkMs: 50, killGraceMs: 100 } });
    const folder = tempFolder(t);
    // Each child starts its successor in a new session and ignores SIGTERM.
    const script = join(folder, 'forker.sh');
    writeFileSync(
      script,
      `trap '' TERM\n[ "$1" -gt 0 ] || exit 0\nsleep 0.03\nsetsid sh "$0" $(($1 - 1)) &\nsetsid sh "$0" 0 &\necho $$ >> ${folder}/pids\nsleep 300\n`,
    );
    const job = await call<View>('run_command', { argv: ['sh', script, '200'], waitMs: 0 });
    await until(
      'it forks',
      () =>
        existsSync(join(folder, 'pids')) &&
        readFileSync(join(folder, 'pids'), 'utf8').split('\n').length > 8,
    );
    const end = await call<View>('cancel_job', { id: job.id });
    assert.deepEqual([end.status, end.survivors], ['cancelled', undefined]);
    const pids = readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n');
    for (const pid of pids) assert.ok(isGone(pid), `${pid} is gone`);
  });

  test('a process limit that would have no effect is rejected at the start', (t) => {
    const make = () => new Policy(commandSettings.parse({ policy: { maxProcesses: 50 } }).policy);
    if (process.getuid?.() === 0) {
      assert.throws(make, /has no effect/);
      return;
    }
    assert.deepEqual(make().withLimits(['true']).slice(-2), ['50', 'true']);
    t.diagnostic('this user is not root: the kernel enforces the limit');
  });
});

describe('policy', () => {
  const policy = (settings: object) =>
    new Policy(commandSettings.parse({ policy: settings }).policy);

  test('a command line is split into its programs or reported as unknown', () => {
    const words = (line: string) => {
      const parsed = parsePrograms(line);
      return 'why' in parsed
        ? undefined
        : parsed.commands.map((one) => one.words.map((word) => word.text));
    };
    const isClear = (line: string) => {
      const parsed = parsePrograms(line);
      return !('why' in parsed) && parsed.commands.every((one) => one.unclear === undefined);
    };
    assert.deepEqual(words('a "b c" | d\\ e && F=1 g > out 2>&1; h &'), [
      ['a', 'b c'],
      ['d e'],
      ['g'],
      ['h'],
    ]);
    assert.deepEqual(words('echo a # rm -rf /'), [['echo', 'a']]);
    assert.deepEqual(words('echo x &> f'), [['echo', 'x']]);
    assert.deepEqual(words('npm \\\n test "a \\"b\\" \\$c"'), [['npm', 'test', 'a "b" $c']]);
    for (const line of ['[ -f x ] && a', '[[ -f x ]] && a', 'a $B "${C}"', 'a b@{0}', "a '$(b)'"])
      assert.ok(isClear(line), line);
    for (const line of [
      'a $(b)',
      'a `b`',
      '(a)',
      'if a; then b; fi',
      'a << E',
      'a "b',
      'bash -c a',
      'xargs a',
      'a "$(b)"',
      'a <(b)',
      '$a b',
      '{a,b}',
      '/bin/[a]b',
      "a $'\\'' ; b ; a $'\\'''",
      `a "\${x#'"'}" ; b ; a \\'`,
      ...['sudo a', 'timeout 5 a', 'command a', 'trap a EXIT', 'find . -exec a {} +'],
    ])
      assert.equal(isClear(line), false, line);
  });

  test('allow, deny, folders and names', (t) => {
    const folder = tempFolder(t);
    const rules = policy({
      allow: ['git', 'npm test', '/^make \\w+$/'],
      deny: ['git push'],
      cwds: [folder],
      envDeny: ['AWS_*', 'TOKEN'],
    });
    const check =
      (command: string | string[], cwd = folder) =>
      () =>
        rules.check({ command, cwd });
    assert.doesNotThrow(check('git status && npm test --silent'));
    assert.doesNotThrow(check(['make', 'all']));
    for (const line of ['git push', 'npm publish', 'make all extra', 'git status; curl x'])
      assert.throws(check(line), { code: 'policyRefused' }, line);
    // The expansion of a word is unknown: it may be a denied program.
    for (const line of ['git \\\n push', 'git $verb', 'git {push,x}'])
      assert.throws(check(line), { code: 'policyRefused' }, line);
    assert.doesNotThrow(check('git log "$branch"'));
    // Allowing a runner by name allows everything that it runs, unless a program is denied.
    const runner = policy({ allow: ['sudo systemctl restart web'] });
    assert.doesNotThrow(() => runner.check({ command: 'sudo systemctl restart web', cwd: folder }));
    assert.throws(() => runner.check({ command: 'sudo reboot', cwd: folder }), /cannot be parsed/);
    assert.throws(check('git status', '/'), /not inside/);
    assert.throws(check('git status', join(folder, '..')), /not inside/);
    assert.deepEqual(
      [rules.passes('AWS_KEY'), rules.passes('TOKEN'), rules.passes('TOKENS')],
      [false, false, true],
    );
  });
});
