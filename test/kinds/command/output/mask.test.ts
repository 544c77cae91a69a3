// Masks values that look like secrets in output for a model, and nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { secretNames } from '../../../../src/kinds/command/environment.ts';
import { maskSecrets } from '../../../../src/kinds/command/output/mask.ts';
import { environmentSettings } from '../../../../src/kinds/command/settings.ts';
import { start } from '../kit.ts';

const rules = { isSecret: secretNames(environmentSettings.parse({})) };
const masked = (text: string, values: string[] = []) => maskSecrets(text, rules, values);
const letters = (count: number) => 'aB3'.repeat(count).slice(0, count);

test('tokens, keys, credentials and assigned secrets are masked', () => {
  const jwt = `eyJ${letters(20)}.eyJ${letters(20)}.${letters(20)}`;
  const cases: [string, string][] = [
    [`cloning with ghp_${letters(36)} now`, 'cloning with *** now'],
    [`key sk-ant-api03-${letters(40)}!`, 'key ***!'],
    ['AKIAIOSFODNN7EXAMPLE', '***'],
    [`cookie=${jwt};`, 'cookie=***;'],
    ['postgres://ann:s3cret@db.example:5432/x', 'postgres://ann:***@db.example:5432/x'],
    [`> Authorization: Bearer ${letters(30)}`, '> Authorization: Bearer ***'],
    ['GITHUB_TOKEN=abcdef', 'GITHUB_TOKEN=***'],
    ['export DB_PASSWORD="a b c"', 'export DB_PASSWORD="***"'],
    ['{"password": "correct horse", "user": "ann"}', '{"password": "***", "user": "ann"}'],
    ['api_key: abc123def456', 'api_key: ***'],
    ["clientSecret: 'abcdef'", "clientSecret: '***'"],
    ['mysql --password hunter2 --host db', 'mysql --password *** --host db'],
    ['curl --token=abc123 x', 'curl --token=*** x'],
  ];
  for (const [text, expected] of cases) assert.equal(masked(text), expected);
  const body = `${letters(64)}\n`.repeat(5);
  const key = `a\n-----BEGIN RSA PRIVATE KEY-----\n${body}-----END RSA PRIVATE KEY-----\nb`;
  assert.equal(
    masked(key),
    'a\n-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\nb',
  );
  assert.doesNotMatch(masked(key.slice(60)), /aB3aB3/, 'the end of a key alone');
  assert.equal(masked('it says zebra-crossing', ['zebra-crossing']), 'it says ***');
});

test('code, hashes, paths and prose are unchanged', () => {
  for (const text of [
    'commit 9fceb02d0ae598e95dc970b74767f19372d61af8',
    'sha512-abcdefghijklmnopqrstuvwxyz0123456789== integrity',
    "src/a.ts:4:7 - error TS2304: Cannot find name 'token'.",
    'SyntaxError: Unexpected token: punc (})',
    'def login(user, password=None, token=token):',
    'const apiKey = process.env.API_KEY;',
    'password: required',
    'Password:',
    'SSH_PRIVATE_KEY_PATH=/home/ann/.ssh/id',
    'API_KEY=$OTHER_KEY TOKEN=<your token> PASSWORD=***',
    'monkey=banana1 PRIMARY=1 key=value1',
    'http://localhost:3000/a@b',
    'npm_config_registry=http://r.example/ npm_package_name',
    'tokens: 1234567890, max_tokens=4096',
    'Tests: 1 failed, 500 passed',
  ])
    assert.equal(masked(text), text);
});

test('masking never makes text longer, and a long line is fast', () => {
  for (const text of ['A_KEY=a', 'A_KEY=ab', 'A_KEY=abc', "x://a:bcd@e 'password': 'abc'"])
    assert.ok(masked(text).length <= text.length, text);
  const started = process.cpuUsage();
  for (const unit of ['a', 'a=', 'token=', '-----BEGIN PRIVATE KEY-----', 'a://b:', '"a', 'eyJ.'])
    masked(unit.repeat(Math.floor(65_536 / unit.length)));
  const { user } = process.cpuUsage(started);
  assert.ok(user < 5_000_000, `${user} µs for seven lines of 64 kB`);
});

test('a model reads masked output; people, programs and files get the original', async (t) => {
  const { call, run } = await start(t);
  const forModel = { maxResponseBytes: 30_000 };
  const origin = { cwd: '/', env: { PATH: process.env.PATH!, DEPLOY_TOKEN: 'turnip-truck' } };
  const command = 'echo "found $DEPLOY_TOKEN"; env | grep DEPLOY; read line; echo "got $line"';
  const started = await run(
    { command, secrets: ['DEPLOY_TOKEN'], stdin: 'open' },
    { origin, ...forModel },
  );
  assert.equal(started.output?.text, 'found ***\nDEPLOY_TOKEN=***\n');
  const { id } = started;
  const typed = { id, text: 'API_KEY=abcdef', newline: true };
  const sent = await call<{ text: string }>('send_input', typed, forModel);
  assert.equal(sent.text, 'got API_KEY=***\n');
  await call('wait_for_jobs', { ids: [id] });
  for (const mode of ['tail', 'errors', 'head_tail', 'grep'])
    for (const raw of [true, false]) {
      const request = { id, mode, raw, ...(mode === 'grep' ? { pattern: 'e' } : {}) };
      const { text } = await call<{ text: string }>('read_output', request, forModel);
      assert.match(text, /\*{3}/);
      assert.doesNotMatch(text, /turnip|abcdef/);
    }
  const { text } = await call<{ text: string }>('read_output', { id });
  assert.equal(text, 'found turnip-truck\nDEPLOY_TOKEN=turnip-truck\ngot API_KEY=abcdef\n');
});

test('maskSecrets: false shows everything', async (t) => {
  const { run } = await start(t, { maskSecrets: false });
  const view = await run({ command: 'echo A_TOKEN=abcdef' }, { maxResponseBytes: 30_000 });
  assert.equal(view.output?.text, 'A_TOKEN=abcdef\n');
});
