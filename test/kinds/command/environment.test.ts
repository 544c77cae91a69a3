// Which variables of the caller a command receives, and how environments are stored.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { callerEnvironment } from '../../../src/kinds/command/environment.ts';
import { Environments } from '../../../src/kinds/command/environments.ts';
import { environmentSettings } from '../../../src/kinds/command/settings.ts';
import { systemClock as clock } from '../../../src/runtime/clock.ts';
import { silentLog as log } from '../../../src/runtime/log.ts';
import { tempFolder } from '../../helpers/folder.ts';
import { start } from './kit.ts';

const settings = environmentSettings.parse({});
const rules = { ...settings, passes: () => true };

describe('passed variables', () => {
  test('secrets are withheld by name; paths to secrets and similar names are passed', () => {
    const secrets = [
      ...['GITHUB_TOKEN', 'NPM_TOKEN', 'TOKEN', 'AWS_SECRET_ACCESS_KEY', 'AWS_ACCESS_KEY_ID'],
      ...['PGPASSWORD', 'MYSQL_PWD', 'OPENAI_API_KEY', 'openai_api_key', 'STRIPE_SECRET', 'GH_PAT'],
      ...['DJANGO_SECRET_KEY', 'SSH_PRIVATE_KEY', 'SMTP_PASS', 'ERRAND_KEY', 'ERRAND_STORE'],
    ];
    const plain = [
      ...['DATABASE_URL', 'AWS_PROFILE', 'SSH_AUTH_SOCK', 'KUBECONFIG', 'TOKENIZERS_PARALLELISM'],
      ...[
        'GOOGLE_APPLICATION_CREDENTIALS',
        'SSH_PRIVATE_KEY_PATH',
        'DB_PASSWORD_FILE',
        'MAX_TOKENS',
      ],
      ...[
        'DEPLOY_PUBLIC_KEY',
        'KEYBOARD',
        'PASSENGER_HOME',
        'COMPASS',
        'BASH_FUNC_f%%',
        '__proto__',
      ],
    ];
    const env = Object.fromEntries([...secrets, ...plain].map((name) => [name, 'x']));
    const { values, withheld } = callerEnvironment(env, rules);
    assert.deepEqual(withheld, secrets.toSorted());
    assert.deepEqual(Object.keys(values).toSorted(), [...plain, 'PATH'].toSorted());
  });

  test('variables that describe the calling process or that npm added are not passed', () => {
    const own = {
      SHLVL: '3',
      OLDPWD: '/x',
      ERRAND_ATTEMPT: 'a',
      NODE_CHANNEL_FD: '3',
      PATH: '/bin',
    };
    const npm = { npm_package_name: 'x', INIT_CWD: '/x', npm_config_registry: 'http://r' };
    const without = callerEnvironment({ ...own, ...npm }, rules);
    assert.deepEqual(without.values, { PATH: '/bin', ...npm });
    const within = callerEnvironment({ ...own, ...npm, npm_execpath: '/npm' }, rules);
    assert.deepEqual(within.values, { PATH: '/bin', npm_config_registry: 'http://r' });
    assert.deepEqual(within.withheld, []);
  });

  test('settings and policy apply; `secrets`, `env` and safe values override the caller', async (t) => {
    const { run, get } = await start(t, {
      environment: { withhold: ['HUSH_*'], pass: ['HUSH_NOT'] },
      policy: { envDeny: ['AWS_*'] },
    });
    const env = {
      ...{ HUSH_A: 'a', HUSH_B: 'b', HUSH_NOT: 'n', GITHUB_TOKEN: 'g', AWS_PROFILE: 'p' },
      ...{ PAGER: 'less', TERM: 'xterm', GIVEN: 'caller', PATH: process.env.PATH! },
    };
    const command =
      'echo [$HUSH_A$HUSH_B] $HUSH_NOT $GITHUB_TOKEN [$AWS_PROFILE] $PAGER $TERM $GIVEN';
    const input = { command, secrets: ['HUSH_B'], env: { GIVEN: 'given' }, cwd: '/' };
    const view = await run(input, { origin: { cwd: '/', env } });
    assert.equal(view.output?.text, '[b] n g [] cat dumb given\n');
    assert.deepEqual((await get(view.id)).withheld, ['AWS_PROFILE', 'HUSH_A']);
  });

  test('inherit: false ignores the caller environment', async (t) => {
    const { run, home } = await start(t, { environment: { inherit: false } });
    const origin = { cwd: '/', env: { NODE_ENV: 'x', PATH: '/nowhere' } };
    const view = await run({ command: 'echo [$NODE_ENV]' }, { origin });
    assert.equal(view.output?.text, '[]\n');
    assert.equal(existsSync(join(home, 'environments')), false);
  });

  for (const terminal of ['script', 'node-pty'])
    test(`a ${terminal} terminal keeps NODE_OPTIONS and its own size`, async (t) => {
      const { run } = await start(t, { terminal });
      const env = {
        NODE_OPTIONS: '--stack-trace-limit=77',
        NODE_V8_COVERAGE: join(tempFolder(t), 'coverage'),
        COLUMNS: '7',
        PATH: process.env.PATH!,
      };
      const command = 'node -p "[Error.stackTraceLimit, process.env.COLUMNS].join()"; tput cols';
      const view = await run({ command, tty: true }, { origin: { cwd: '/', env } });
      assert.match(view.output!.text, /77,\s+120/);
      assert.equal(readdirSync(env.NODE_V8_COVERAGE).length, 1, 'the helper wrote none');
    });
});

describe('stored environments', () => {
  test('a job whose environment is missing fails instead of running with another one', async (t) => {
    const { run, call, home, app } = await start(t);
    const origin = { cwd: '/', env: { PATH: process.env.PATH!, NODE_ENV: 'x' } };
    const { id } = await run({ command: 'echo ran $NODE_ENV; exit 1' }, { origin });
    const { input } = await app.jobs.get(id);
    rmSync(join(home, 'environments'), { recursive: true });
    const { environment } = input as { environment: { id: string; node: string } };
    const other = { ...(input as object), environment: { ...environment, id: 'x'.repeat(22) } };
    const submitted = await app.jobs.submit({ kind: 'command', owner: 'me', input: other });
    await call('wait_for_jobs', { ids: [submitted.job.id] });
    const ended = await app.jobs.get(submitted.job.id);
    assert.deepEqual([ended.status, ended.error?.code], ['failed', 'environmentMissing']);
    // A rerun then uses its caller's environment. A node that never stored it uses the server's.
    const rerun = await call<{ id: string }>('rerun_job', { id: ended.id }, { origin });
    await call('wait_for_jobs', { ids: [rerun.id] });
    const read = await call<{ text: string }>('read_output', { id: rerun.id });
    assert.equal(read.text, 'ran x\n');
    const elsewhere = { ...other, environment: { ...environment, node: 'another' } };
    const moved = await app.jobs.submit({ kind: 'command', owner: 'me', input: elsewhere });
    await call('wait_for_jobs', { ids: [moved.job.id] });
    const { text } = await call<{ text: string }>('read_output', { id: moved.job.id });
    assert.equal(text, 'ran\n');
  });

  test('equal environments share a file; unneeded and least recently used files are removed', async (t) => {
    const folder = join(tempFolder(t), 'environments');
    let oldest: number | undefined;
    const made = (maxKept = 1000) =>
      new Environments({
        ...{ folder, rules, clock, log },
        settings: { ...settings, maxKept },
        sign: (text) => `signed ${text}`,
        oldestJobAt: async () => oldest,
      });
    const environments = made();
    const a = environments.store({ A: '1', B: '2' });
    assert.equal(environments.store({ B: '2', A: '1' }).id, a.id);
    assert.equal(made().store({ A: '1', B: '2', GITHUB_TOKEN: 'x' }).id, a.id, 'after a restart');
    const b = environments.store({ B: '2' });
    assert.equal(readdirSync(folder).length, 2);
    const day = 86_400;
    const path = (id: string) => join(folder, `${id}.json`);
    utimesSync(path(a.id), Date.now() / 1000 - day, Date.now() / 1000 - day);
    oldest = Date.now() - 2 * day * 1000;
    await made().removeUnused();
    assert.equal(readdirSync(folder).length, 2, 'an older job may need it');
    await made(1).removeUnused();
    assert.deepEqual(readdirSync(folder), [`${b.id}.json`]);
    utimesSync(path(b.id), Date.now() / 1000 - day, Date.now() / 1000 - day);
    oldest = Date.now();
    await environments.removeUnused();
    assert.deepEqual(readdirSync(folder), []);
    const again = environments.store({ B: '2' });
    assert.equal(again.id, b.id);
    assert.deepEqual(readdirSync(folder), [`${b.id}.json`], 'written again');
    writeFileSync(path(b.id), '[["B",');
    assert.equal(made().find(b.id), undefined, 'an incomplete file is ignored');
  });
});
